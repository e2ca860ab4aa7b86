// Files through POSIX calls, so that errors carry errno and syncing is ours to decide.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace isotone {
namespace {

std::string errno_text(int code) {
  return std::generic_category().message(code);
}

[[noreturn]] void fail_errno(const std::string& path, std::string_view action, int code) {
  std::string_view hint;
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      hint = "; free some space or choose another folder";
      break;
    case EROFS:
    case EACCES:
    case EPERM:
      hint = "; check the permissions or choose another folder";
      break;
    case ENOENT:
      hint = "; check the path";
      break;
    default:
      break;
  }
  fail("{}: cannot {}: {}{}", path, action, errno_text(code), hint);
}

/// Closes its descriptor when it goes out of scope.
struct Descriptor {
  int fd;
  explicit Descriptor(int value) : fd(value) {}
  ~Descriptor() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

/// Opens a regular file; looks before opening, because opening a pipe would wait for a writer.
int open_regular(const std::string& path, std::uint64_t& size) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    fail_errno(path, "open for reading", errno);
  }
  require(!S_ISDIR(info.st_mode), "{}: is a folder, a file was expected", path);
  require(S_ISREG(info.st_mode), "{}: is not a regular file", path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    fail_errno(path, "open for reading", errno);
  }
  if (::fstat(fd, &info) != 0) {
    const int code = errno;
    ::close(fd);
    fail_errno(path, "read the size", code);
  }
  size = static_cast<std::uint64_t>(info.st_size);
  return fd;
}

/// Some systems refuse to write more than 2 GiB in one call.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

constexpr std::string_view kAside = ".aside-";

std::string aside_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}{}{}-{}", path, kAside, ::getpid(), counter.fetch_add(1));
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// Makes a rename in this folder survive a power cut. File systems that cannot sync a folder are left alone.
void sync_folder(const std::string& folder) {
  const Descriptor d(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (d.fd >= 0) {
    ::fsync(d.fd);
  }
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  return path;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  std::uint64_t size = 0;
  const Descriptor d(open_regular(path, size));
  if (size == 0) {
    return;
  }
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, d.fd, 0);
  if (mapped == MAP_FAILED) {
    fail_errno(path, "map into memory", errno);
  }
  data_ = mapped;
  size_ = size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::prefetch() const {
  if (data_ != nullptr) {
    ::madvise(data_, size_, MADV_WILLNEED);
  }
}

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  std::uint64_t size = 0;
  const Descriptor d(open_regular(path, size));
  require(size <= max_bytes, "{}: has {} bytes, more than the limit of {}", path, size, max_bytes);
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(d.fd, text.data() + done, text.size() - done);
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail_errno(path, "read", errno);
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), aside_(aside_name(path_)) {
  require(!is_folder(path_), "{}: is a folder, cannot write a file there", path_);
  fd_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail_errno(path_, "create", errno);
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
  if (!aside_.empty()) {
    ::unlink(aside_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  require(fd_ >= 0, "{}: written to after it was committed", path_);
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (put < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail_errno(path_, "write", errno);
    }
    position_ += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::commit() {
  require(fd_ >= 0, "{}: committed twice", path_);
  // Devices and some file systems have nothing to sync and say EINVAL.
  if (::fsync(fd_) != 0 && errno != EINVAL) {
    fail_errno(path_, "write to disk", errno);
  }
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0) {
    fail_errno(path_, "write to disk", errno);
  }
  if (::rename(aside_.c_str(), path_.c_str()) != 0) {
    fail_errno(path_, "rename to", errno);
  }
  aside_.clear();
  sync_folder(parent_of(path_));
}

SharedFile::SharedFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    fail_errno(path_, "create", errno);
  }
}

SharedFile::~SharedFile() {
  ::close(fd_);
}

void SharedFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_, bytes.data(), std::min(bytes.size(), kMostAtOnce), static_cast<off_t>(offset));
    if (put < 0) {
      if (errno == EINTR) {
        continue;
      }
      fail_errno(path_, "write", errno);
    }
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void SharedFile::sync() {
  if (::fsync(fd_) != 0 && errno != EINVAL) {
    fail_errno(path_, "write to disk", errno);
  }
}

void write_file_atomic(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

AsideFolder::AsideFolder(std::string path) : path_(without_trailing_slash(std::move(path))), aside_(aside_name(path_)) {
  require(!path_exists(path_) || is_folder(path_), "{}: is a file, cannot write a folder there", path_);
  make_folders(parent_of(path_));
  if (::mkdir(aside_.c_str(), 0777) != 0) {
    fail_errno(path_, "create the folder", errno);
  }
}

AsideFolder::~AsideFolder() {
  if (!committed_) {
    std::error_code ignored;
    std::filesystem::remove_all(aside_, ignored);
  }
}

void AsideFolder::commit() {
  require(!committed_, "{}: committed twice", path_);
  sync_folder(aside_);
  std::string old;
#ifdef RENAME_EXCHANGE
  // In one step, so that a killed process never leaves the final name empty.
  if (path_exists(path_) && ::renameat2(AT_FDCWD, aside_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
    committed_ = true;
    sync_folder(parent_of(path_));
    std::error_code ignored;
    std::filesystem::remove_all(aside_, ignored);
    return;
  }
#endif
  if (path_exists(path_)) {
    old = aside_name(path_) + ".old";
    if (::rename(path_.c_str(), old.c_str()) != 0) {
      fail_errno(path_, "move the old folder away", errno);
    }
  }
  if (::rename(aside_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    if (!old.empty()) {
      ::rename(old.c_str(), path_.c_str());
    }
    fail_errno(path_, "rename to", code);
  }
  committed_ = true;
  sync_folder(parent_of(path_));
  if (!old.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(old, ignored);
  }
}

bool is_aside_name(std::string_view name) {
  return name.find(kAside) != std::string_view::npos;
}

bool path_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::uint64_t file_size(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    fail_errno(path, "read the size", errno);
  }
  require(S_ISREG(info.st_mode), "{}: is not a regular file", path);
  return static_cast<std::uint64_t>(info.st_size);
}

std::int64_t modified_ns(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    fail_errno(path, "read the time of change", errno);
  }
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

void make_folders(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(without_trailing_slash(path), code);
  if (code) {
    fail_errno(path, "create the folder", code.value());
  }
  require(is_folder(path), "{}: is a file, a folder was expected", path);
}

std::vector<std::string> list_folder(const std::string& path) {
  std::error_code code;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(path, code);
  while (!code && it != std::filesystem::directory_iterator()) {
    names.push_back(it->path().filename().string());
    it.increment(code);
  }
  if (code) {
    fail_errno(path, "list the folder", code.value());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void remove_all(const std::string& path) {
  std::error_code code;
  std::filesystem::remove_all(path, code);
  if (code) {
    fail_errno(path, "remove", code.value());
  }
}

void remove_aside(const std::string& path) {
  const std::string aside = aside_name(without_trailing_slash(path));
  if (::rename(path.c_str(), aside.c_str()) != 0) {
    fail_errno(path, "remove", errno);
  }
  remove_all(aside);
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) {
    return std::string(name);
  }
  return folder.back() == '/' ? fmt::format("{}{}", folder, name) : fmt::format("{}/{}", folder, name);
}

}  // namespace isotone
