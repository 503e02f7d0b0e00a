// Copies of files that somebody else is writing.
#include "pm/copied_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

namespace perdure::test {
namespace {

using pm::CopiedFile;

constexpr std::size_t kLine = 64;
constexpr std::size_t kLines = std::size_t{1} << 15;

class CopiedFiles : public ::testing::Test {
 protected:
  ~CopiedFiles() override { ::unlink(path_.c_str()); }
  std::string const path_ = "/dev/shm/perdure-copied-" + std::to_string(::getpid());
};

TEST_F(CopiedFiles, HaveTheFilesBytes) {
  std::string text(4200, '\0');
  text.replace(100, 9, "some text");
  text += "end";
  std::ofstream(path_, std::ios::binary) << text;
  auto copy = CopiedFile::copy("file", path_);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  ASSERT_EQ(copy->bytes().size(), text.size());
  EXPECT_EQ(std::memcmp(copy->bytes().data(), text.data(), text.size()), 0);
  copy->bytes()[0] = std::byte{1};  // ours alone
  EXPECT_EQ(pm::first_bytes("file", path_, 109).value(), text.substr(0, 109));
  EXPECT_EQ(pm::first_bytes("file", path_, 10'000).value(), text);
  std::ofstream(path_, std::ios::binary | std::ios::trunc);
  EXPECT_TRUE(CopiedFile::copy("file", path_).value().bytes().empty());
  ::unlink(path_.c_str());
  EXPECT_EQ(CopiedFile::copy("file", path_).status().code(), Code::not_found);
}

/// Each line is written after those before it, while the file is copied again and again.
TEST_F(CopiedFiles, HaveNoLineWithoutThoseBeforeIt) {
  constexpr std::size_t kBytes = kLine * kLines;
  std::ofstream(path_, std::ios::binary) << std::string(kBytes, '\0');
  int const fd = ::open(path_.c_str(), O_RDWR);
  auto* const at =
      static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(at, MAP_FAILED);
  close(fd);
  int partial = 0;
  // Ten passes, and more until a copy came between two stores.
  for (int pass = 0; (pass < 10 || (partial == 0 && pass < 1000)) && !HasFailure(); ++pass) {
    std::memset(at, 0, kBytes);
    std::atomic<bool> done = false;
    std::thread writer([&] {
      for (std::size_t i = 0; i < kLines; ++i) {
        std::atomic_ref(reinterpret_cast<std::uint64_t&>(at[i * kLine])).store(1);
        for (int n = 0; n < 10; ++n) __builtin_ia32_pause();
      }
      done = true;
    });
    while (!done) {
      auto copy = CopiedFile::copy("file", path_);
      ASSERT_TRUE(copy.ok());
      std::size_t lines = 0, end = 0;
      for (std::size_t i = 0; i < kLines; ++i) {
        if (copy->bytes()[i * kLine] == std::byte{0}) continue;
        ++lines;
        end = i + 1;
      }
      partial += lines > 0 && lines < kLines ? 1 : 0;
      EXPECT_EQ(lines, end);
    }
    writer.join();
  }
  EXPECT_GT(partial, 0);
  munmap(at, kBytes);
}

}  // namespace
}  // namespace perdure::test
