// Event files that TensorBoard reads: scalars by tag and step.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace isotone::train {

using Scalars = std::vector<std::pair<std::string, double>>;

/// Encoded records: a whole file is file_version_record() and then step_record()s.
std::string file_version_record(double wall_time);
std::string step_record(double wall_time, std::int64_t step, const Scalars& scalars);

/// A new file in `folder`, of a name that no other run of this machine takes; old files stay, as TensorBoard wants it.
/// What was added is in the file when add() returns.
class EventFile {
 public:
  explicit EventFile(const std::string& folder);
  void add(std::int64_t step, const Scalars& scalars);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void write(const std::string& record);
  std::string path_;
  SharedFile file_;
  std::uint64_t size_ = 0;
};

}  // namespace isotone::train
