#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace isotone {

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = join_path(folder, kFolderLockFile);
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require(fd_ >= 0, "{}: cannot open the lock's file: {}; check the permissions or choose another folder", path,
          std::generic_category().message(errno));
  int done = 0;
  do {
    done = ::flock(fd_, LOCK_EX | LOCK_NB);
  } while (done != 0 && errno == EINTR);
  if (done != 0 && errno == EWOULDBLOCK) {
    std::string holder = "another run";
    try {
      const std::string text = read_text_file(path, 4096);
      holder = text.empty() ? holder : text.substr(0, text.find('\n'));
    } catch (const Error&) {  // who holds it is said as far as it can be read
    }
    ::close(fd_);
    fail("{}: {} is writing here; wait for it, stop it, or choose another folder (--out)", folder, holder);
  }
  held_ = done == 0;
  if (!held_) {
    return;
  }
  std::array<char, 256> host{};
  static_cast<void>(::gethostname(host.data(), host.size() - 1));
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host.data());
  // For the message alone: a full disk takes nothing from the lock.
  if (::ftruncate(fd_, 0) == 0) {
    static_cast<void>(::pwrite(fd_, text.data(), text.size(), 0) < 0);
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) {
    ::close(fd_);  // gives the lock back
  }
}

}  // namespace isotone
