// Files: maps, limits, writing aside, and errors that name the path and the cause.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/hash.h"

namespace isotone {
namespace {

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string pattern = ::testing::TempDir() + "/isotone_file_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { remove_all(folder_); }
  [[nodiscard]] std::string at(const std::string& name) const { return join_path(folder_, name); }

  static std::string message(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& e) {
      return e.what();
    }
    return "(no error)";
  }

  std::string folder_;
};

TEST_F(FileTest, WritesAndMaps) {
  write_file_atomic(at("a"), "hello");
  EXPECT_EQ(read_text_file(at("a")), "hello");
  EXPECT_EQ(file_size(at("a")), 5U);
  const MappedFile map(at("a"));
  ASSERT_EQ(map.size(), 5U);
  EXPECT_EQ(map.bytes()[1], std::byte{'e'});
  MappedFile moved(MappedFile(at("a")));
  EXPECT_EQ(moved.size(), 5U);
  EXPECT_EQ(list_folder(folder_), std::vector<std::string>{"a"});
}

TEST_F(FileTest, EmptyFile) {
  write_file_atomic(at("empty"), "");
  EXPECT_EQ(MappedFile(at("empty")).bytes().size(), 0U);
  EXPECT_EQ(read_text_file(at("empty")), "");
}

TEST_F(FileTest, MissingFolderAndPipe) {
  EXPECT_EQ(message([&] { MappedFile m(at("none")); }),
            at("none") + ": cannot open for reading: No such file or directory; check the path");
  EXPECT_EQ(message([&] { MappedFile m(folder_); }), folder_ + ": is a folder, a file was expected");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(message([&] { read_text_file(at("pipe")); }), at("pipe") + ": is not a regular file");
}

TEST_F(FileTest, TextLimit) {
  write_file_atomic(at("a"), "12345");
  EXPECT_EQ(read_text_file(at("a"), 5), "12345");
  EXPECT_EQ(message([&] { read_text_file(at("a"), 4); }), at("a") + ": has 5 bytes, more than the limit of 4");
}

TEST_F(FileTest, UncommittedLeavesTheOldOne) {
  write_file_atomic(at("a"), "old");
  {
    AtomicFile file(at("a"));
    file.write("new, half written");
    EXPECT_EQ(file.position(), 17U);
    EXPECT_EQ(read_text_file(at("a")), "old");
  }
  EXPECT_EQ(read_text_file(at("a")), "old");
  EXPECT_EQ(list_folder(folder_).size(), 1U);
}

TEST_F(FileTest, MapKeepsTheOldBytesAfterReplacement) {
  write_file_atomic(at("a"), "old");
  const MappedFile map(at("a"));
  write_file_atomic(at("a"), "newer");
  EXPECT_EQ(map.bytes()[0], std::byte{'o'});
}

TEST_F(FileTest, FailedWriteIsNamedAndLeavesNothing) {
  // A limit on file sizes fails a write in the middle, as a full disk does, for every user.
  write_file_atomic(at("a"), "old");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 65536;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text = message([&] { write_file_atomic(at("a"), std::string(1 << 20, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(text, at("a") + ": cannot write: File too large");
  EXPECT_EQ(read_text_file(at("a")), "old");
  EXPECT_EQ(list_folder(folder_).size(), 1U);
}

TEST_F(FileTest, FolderThatCannotBeWrittenIsNamed) {
  // A file in place of a folder fails for every user, root included.
  write_file_atomic(at("a"), "x");
  EXPECT_EQ(message([&] { write_file_atomic(at("a/b"), "y"); }), at("a/b") + ": cannot create: Not a directory");
  EXPECT_EQ(message([&] { write_file_atomic(at("none/b"), "y"); }),
            at("none/b") + ": cannot create: No such file or directory; check the path");
  if (::geteuid() != 0) {
    ::chmod(folder_.c_str(), 0500);
    EXPECT_NE(message([&] { write_file_atomic(at("c"), "y"); }).find("Permission denied; check the permissions"),
              std::string::npos);
    ::chmod(folder_.c_str(), 0700);
  }
}

TEST_F(FileTest, AsideFolderReplacesOrVanishes) {
  {
    AsideFolder folder(at("model/"));
    write_file_atomic(join_path(folder.aside(), "f"), "1");
    EXPECT_FALSE(path_exists(at("model")));
    ASSERT_EQ(list_folder(folder_).size(), 1U);
    EXPECT_TRUE(is_aside_name(list_folder(folder_)[0]));
    EXPECT_FALSE(is_aside_name("model"));
    folder.commit();
  }
  EXPECT_EQ(read_text_file(at("model/f")), "1");
  {
    AsideFolder folder(at("model"));
    write_file_atomic(join_path(folder.aside(), "g"), "2");
  }
  EXPECT_EQ(list_folder(at("model")), std::vector<std::string>{"f"});
  AsideFolder folder(at("model"));
  write_file_atomic(join_path(folder.aside(), "g"), "2");
  folder.commit();
  EXPECT_EQ(list_folder(at("model")), std::vector<std::string>{"g"});
  EXPECT_EQ(list_folder(folder_).size(), 1U);
}

TEST_F(FileTest, ManyWritersLeaveOneWholeFile) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        write_file_atomic(at("a"), std::string(1000, static_cast<char>('a' + i)));
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  const std::string text = read_text_file(at("a"));
  EXPECT_EQ(text, std::string(1000, text[0]));
  EXPECT_EQ(list_folder(folder_).size(), 1U);
}

TEST_F(FileTest, RemovedAsideLeavesNothing) {
  make_folders(at("old/inner"));
  write_file_atomic(at("old/inner/a"), "x");
  remove_aside(at("old/"));
  EXPECT_TRUE(list_folder(folder_).empty());
  EXPECT_NE(message([&] { remove_aside(at("old")); }).find("old: cannot remove"), std::string::npos);
}

TEST_F(FileTest, OneHolderOfALock) {
  std::optional<FolderLock> first(std::in_place, folder_);
  ASSERT_TRUE(first->held());
  const std::string refused = message([&] { const FolderLock second(folder_); });
  EXPECT_NE(refused.find(fmt::format("process {} on ", ::getpid())), std::string::npos) << refused;
  EXPECT_NE(refused.find("is writing here"), std::string::npos) << refused;
  first.reset();
  EXPECT_TRUE(FolderLock(folder_).held()) << "given back";
}

TEST_F(FileTest, AKilledHolderLocksNobodyOut) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const FolderLock held(folder_);
    static_cast<void>(::write(ready[1], "x", 1) == 1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_NE(message([&] { const FolderLock mine(folder_); }), "(no error)");
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(FolderLock(folder_).held());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(FileTest, ALockThatCannotBeOpenedIsNamed) {
  EXPECT_NE(message([&] { const FolderLock lock(at("nowhere")); }).find("run.lock"), std::string::npos);
}

TEST(Hash, KnownValues) {
  EXPECT_EQ(sha256_hex(std::string_view("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string_view("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  hash.update("a").update("bc");
  EXPECT_EQ(hash.hex(), sha256_hex(std::string_view("abc")));
  EXPECT_EQ(hash.hex(), sha256_hex(std::string_view("")));  // starts over
  EXPECT_EQ(xxh3_64(std::string_view("")), 0x2d06800538d394c2ULL);
  EXPECT_NE(xxh3_64(std::string_view("a")), xxh3_64(std::string_view("a"), 1));
}

}  // namespace
}  // namespace isotone
