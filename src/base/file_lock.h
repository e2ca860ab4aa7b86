// An advisory lock on a folder: who writes there holds it, and the system gives it back when the process ends, however
// it ends.
#pragma once

#include <string>

namespace isotone {

/// Holds the lock of `folder` for the life of the object: flock(2) on the file `run.lock` in it, which stays behind and
/// says who was the last to hold it. Two holders exclude each other in one process as in two.
class FolderLock {
 public:
  /// Throws Error naming the holder where somebody else holds it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False where the file system has no locks (some network ones): nothing is excluded then.
  [[nodiscard]] bool held() const { return held_; }

 private:
  int fd_ = -1;
  bool held_ = false;
};

/// Name of the lock's file in its folder.
inline constexpr const char* kFolderLockFile = "run.lock";

}  // namespace isotone
