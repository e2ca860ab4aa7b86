// Files: read-only maps, whole text files with a size limit, and writing aside with a rename, so that what was saved
// before stays whole whatever happens. Every error names the path and what the system said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isotone {

/// A regular file mapped read-only for the life of the object. An empty file gives an empty span.
/// The file must not be shortened by somebody else meanwhile (the system ends a process that reads past the new end);
/// files replaced by rename, as everything here does, are safe.
class MappedFile {
 public:
  /// Throws Error when `path` does not exist, is no regular file, or cannot be read.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  /// Asks the system to read the whole file ahead (a hint; never fails).
  void prefetch() const;

 private:
  std::string path_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

inline constexpr std::size_t kDefaultTextLimit = std::size_t{256} << 20;

/// The whole file as bytes; throws Error when it is missing or larger than `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes = kDefaultTextLimit);

/// A file written aside under a temporary name in the same folder; `commit` syncs it and renames it to `path`.
/// Destroyed without `commit` (an error, an exception) it removes the temporary file and leaves `path` as it was.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends; throws Error (full disk, quota, ...) naming `path`.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Bytes written so far.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  /// Syncs the file, renames it to its final name, syncs the folder.
  void commit();

 private:
  std::string path_;
  std::string aside_;
  int fd_ = -1;
  std::uint64_t position_ = 0;
};

/// A file of which several threads or processes write a part each, at its place. Created where it is not there; what
/// others wrote stays. To appear whole or not at all it must lie in an AsideFolder.
class SharedFile {
 public:
  explicit SharedFile(std::string path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// Throws Error (full disk, quota, ...) naming the path.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// What was written here is on the disk afterwards.
  void sync();

 private:
  std::string path_;
  int fd_ = -1;
};

/// Replaces `path` with `text` in one step (AtomicFile).
void write_file_atomic(const std::string& path, std::string_view text);

/// A folder filled under a temporary name beside its final place; `commit` renames it. An existing folder at the final
/// place is exchanged in one step where the file system can, and removed afterwards. Destroyed without `commit`, it
/// removes what was written.
class AsideFolder {
 public:
  explicit AsideFolder(std::string path);
  ~AsideFolder();
  AsideFolder(const AsideFolder&) = delete;
  AsideFolder& operator=(const AsideFolder&) = delete;

  /// Where to write for now.
  [[nodiscard]] const std::string& aside() const { return aside_; }
  void commit();

 private:
  std::string path_;
  std::string aside_;
  bool committed_ = false;
};

/// True of names that AtomicFile and AsideFolder write under: a process that was killed may leave such a file or folder
/// behind. Whoever lists a folder for finished things skips them; whoever owns the folder may remove them.
bool is_aside_name(std::string_view name);

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
/// Size in bytes of a regular file; throws Error otherwise.
std::uint64_t file_size(const std::string& path);
/// When the file was last changed, nanoseconds since 1970.
std::int64_t modified_ns(const std::string& path);
/// Creates the folder and its parents; nothing happens where it exists.
void make_folders(const std::string& path);
/// Names (not paths) in a folder, sorted; "." and ".." left out.
std::vector<std::string> list_folder(const std::string& path);
/// Removes a file or a whole folder; nothing happens where it does not exist.
void remove_all(const std::string& path);
/// Removes a folder under another name (is_aside_name), so that a process killed meanwhile leaves nothing half under
/// this one.
void remove_aside(const std::string& path);
/// `folder` and `name` joined with one "/".
std::string join_path(std::string_view folder, std::string_view name);

}  // namespace isotone
