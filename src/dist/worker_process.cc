#include "dist/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace isotone::dist {

namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) {
    out.push_back(t.data());
  }
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_with(const WorkerProcess::Variables& variables) {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    const bool replaced = std::any_of(variables.begin(), variables.end(),
                                      [&](const auto& v) { return entry.starts_with(v.first + "="); });
    if (!replaced) {
      out.push_back(entry);
    }
  }
  for (const auto& [name, value] : variables) {
    out.push_back(name + "=" + value);
  }
  return out;
}

int open_file(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0666);
  require(fd >= 0, "{} cannot be opened: {}", path, std::strerror(errno));
  return fd;
}

}  // namespace

WorkerProcess::WorkerProcess(const std::string& program, const std::vector<std::string>& arguments,
                             const Variables& variables, const std::string& log) {
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> entries = environment_with(variables);
  const std::vector<char*> argv = pointers(words), envp = pointers(entries);
  const int nothing = open_file("/dev/null", O_RDONLY);
  const int output = log.empty() ? -1 : open_file(log, O_WRONLY | O_CREAT | O_APPEND);
  int fault[2];  // closed by a successful exec, else it carries errno
  require(pipe2(fault, O_CLOEXEC) == 0, "no pipe for a rank: {}", std::strerror(errno));
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {  // only what is safe after fork(2) of a process with threads
    setpgid(0, 0);  // Ctrl-C reaches the launcher alone, which passes it on
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(nothing, STDIN_FILENO);
    if (output >= 0) {
      dup2(output, STDOUT_FILENO);
      dup2(output, STDERR_FILENO);
    }
    if (getppid() == parent) {
      execve(program.c_str(), argv.data(), envp.data());
    }
    const int why = errno;
    static_cast<void>(!write(fault[1], &why, sizeof(why)));
    _exit(127);
  }
  const int why = errno;
  close(fault[1]);
  close(nothing);
  if (output >= 0) {
    close(output);
  }
  int in_child = 0;
  const bool failed = pid_ > 0 && read(fault[0], &in_child, sizeof(in_child)) == sizeof(in_child);
  close(fault[0]);
  require(pid_ > 0, "a rank's process cannot be started: {}", std::strerror(why));
  if (failed) {
    waitpid(pid_, nullptr, 0);
    fail("{} cannot be run: {}", program, std::strerror(in_child));
  }
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0 && !ended()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}

std::optional<int> WorkerProcess::ended() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    status_ = status;
  }
  return status_;
}

void WorkerProcess::signal(int number) const {
  if (!status_) {
    kill(pid_, number);
  }
}

}  // namespace isotone::dist
