// A child process of the launcher.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace isotone::dist {

class WorkerProcess {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  /// Starts `program` in a process group of its own, with `variables` over the environment's, standard input empty, no
  /// signal blocked, and SIGTERM to come where this thread dies. `log`: file that its output is appended to; empty:
  /// ours. Throws Error naming the program or the file.
  WorkerProcess(const std::string& program, const std::vector<std::string>& arguments, const Variables& variables,
                const std::string& log);
  /// Kills it where it still runs.
  ~WorkerProcess();
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The status of waitpid(2) once it has ended; does not wait.
  std::optional<int> ended();
  /// Nothing where it has ended.
  void signal(int number) const;

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

}  // namespace isotone::dist
