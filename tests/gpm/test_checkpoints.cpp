// libGPM's checkpoints, plain files and durable memory on the host's threads. Invariant tested:
// what fails, or finds a damaged newest checkpoint, leads to the one before it, whole.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>

#include "perdure/gpm.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

using Checkpoint = gpm::Checkpoint<gpm::Cpu>;
using Bytes8 = std::vector<std::uint8_t>;

Bytes8 counted(std::size_t bytes, std::uint8_t from) {
  Bytes8 data(bytes);
  std::iota(data.begin(), data.end(), from);
  return data;
}

class Checkpoints : public testing::Test {
 protected:
  /// A file is one checkpoint's at a time: a fixture has one.
  Checkpoint& make(std::uint64_t bytes, std::uint32_t elements, std::uint32_t groups,
                   gpm::Path path = gpm::Path::gpm) {
    checkpoint_.reset();
    auto made = Checkpoint::create(grid_, path_, bytes, elements, groups, {path, 1});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return checkpoint_.emplace(std::move(made.value()));
  }
  Checkpoint& reopened(gpm::Path path = gpm::Path::gpm) {
    checkpoint_.reset();
    auto made = Checkpoint::open(grid_, path_, {path, 1});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return checkpoint_.emplace(std::move(made.value()));
  }
  Status refused() { return checkpoint_.reset(), Checkpoint::open(grid_, path_).status(); }
  void overwrite(std::uint64_t at, std::string const& bytes) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  /// What group 0 restores into memory of so many bytes.
  Bytes8 restored(std::size_t bytes, std::uint64_t& word) {
    Bytes8 data(bytes);
    Checkpoint& again = reopened();
    EXPECT_TRUE(again.add(data.data(), bytes, 0).ok());
    auto const found = again.restore(0);
    EXPECT_TRUE(found.ok()) << found.status().message();
    word = found.ok() ? found.value() : 0;
    return data;
  }

  ScratchDir dir_;
  std::string path_ = dir_.file("checkpoint");
  gpm::Cpu grid_{2};
  std::optional<Checkpoint> checkpoint_;
};

TEST_F(Checkpoints, OddSizesAndAddressesComeBackWhole) {
  constexpr std::size_t kSizes[] = {1, 3, 4, 7, 8, 127, 128, 129, 1000, 70001};
  for (std::size_t skew = 0; skew < 8; ++skew) {
    std::vector<Bytes8> data;
    Checkpoint& checkpoint = make(80000, std::size(kSizes), 1);
    for (std::size_t const size : kSizes) {
      data.push_back(counted(size + skew, static_cast<std::uint8_t>(size)));
      ASSERT_TRUE(checkpoint.add(data.back().data() + skew, size, 0).ok());
    }
    ASSERT_TRUE(checkpoint.checkpoint(0, 9).ok());
    auto const before = data;
    for (Bytes8& one : data)
      std::fill(one.begin() + static_cast<std::ptrdiff_t>(skew), one.end(), std::uint8_t{0xee});
    EXPECT_EQ(checkpoint.restore(0).value(), 9u);
    EXPECT_EQ(data, before) << skew;
  }
}

TEST_F(Checkpoints, GroupsAreIndependent) {
  Checkpoint& checkpoint = make(64, 2, 3);
  Bytes8 one = counted(8, 1), two = counted(24, 2);
  ASSERT_TRUE(checkpoint.add(one.data(), one.size(), 0).ok());
  ASSERT_TRUE(checkpoint.add(two.data(), two.size(), 2).ok());
  ASSERT_TRUE(checkpoint.checkpoint(0, 5).ok());
  EXPECT_EQ(checkpoint.restore(2).status().code(), Code::not_found);
  ASSERT_TRUE(checkpoint.checkpoint(2, 6).ok());
  std::iota(one.begin(), one.end(), std::uint8_t{100});  // in place: it is registered
  std::iota(two.begin(), two.end(), std::uint8_t{200});  // in place: it is registered
  ASSERT_TRUE(checkpoint.checkpoint(0, 7).ok());
  EXPECT_EQ(checkpoint.restore(2).value(), 6u);
  EXPECT_EQ(two, counted(24, 2));
  EXPECT_EQ(checkpoint.restore(0).value(), 7u);
  EXPECT_EQ(one, counted(8, 100));
}

TEST_F(Checkpoints, WhatIsRegisteredWronglyIsNamed) {
  Checkpoint& checkpoint = make(256, 2, 1);
  Bytes8 data(400);
  EXPECT_EQ(checkpoint.checkpoint(0, 1).code(), Code::invalid_argument);  // nothing is registered
  EXPECT_EQ(checkpoint.restore(0).status().code(), Code::invalid_argument);
  EXPECT_EQ(checkpoint.add(nullptr, 8, 0).code(), Code::invalid_argument);
  EXPECT_EQ(checkpoint.add(data.data(), 0, 0).code(), Code::invalid_argument);
  EXPECT_EQ(checkpoint.add(data.data(), 8, 1).code(), Code::invalid_argument);
  EXPECT_EQ(checkpoint.checkpoint(1, 1).code(), Code::invalid_argument);
  EXPECT_EQ(checkpoint.restore(7).status().code(), Code::invalid_argument);
  Status const large = checkpoint.add(data.data(), 400, 0);
  EXPECT_EQ(large.code(), Code::no_space);
  EXPECT_NE(large.message().find("400 bytes"), std::string::npos) << large.message();
  ASSERT_TRUE(checkpoint.add(data.data(), 8, 0).ok());
  ASSERT_TRUE(checkpoint.add(data.data() + 8, 8, 0).ok());
  EXPECT_EQ(checkpoint.add(data.data() + 16, 8, 0).code(),
            Code::invalid_argument);  // one element too many
}

TEST_F(Checkpoints, ElementsOfAllTheBytesThatWereAskedForFit) {
  Bytes8 data = counted(256, 3);
  Bytes8 const before = data;
  Checkpoint& checkpoint = make(256, 4, 1);
  std::size_t at = 0;
  for (std::size_t const bytes : {1u, 1u, 1u, 253u}) {
    ASSERT_TRUE(checkpoint.add(data.data() + at, bytes, 0).ok());
    at += bytes;
  }
  ASSERT_TRUE(checkpoint.checkpoint(0, 1).ok());
  std::fill(data.begin(), data.end(), Bytes8::value_type{0});
  ASSERT_TRUE(checkpoint.restore(0).ok());
  EXPECT_EQ(data, before);
}

TEST_F(Checkpoints, SpareGroupsTakeRoomOnceTheyAreRegistered) {
  Checkpoint::Options options;
  options.spare = 3;
  auto made = Checkpoint::create(grid_, path_, 64 << 10, 1, 1, options);
  ASSERT_TRUE(made.ok()) << made.status().message();
  checkpoint_.emplace(std::move(made.value()));
  auto const small = std::filesystem::file_size(path_);
  std::vector<Bytes8> data, before;
  for (std::uint32_t group = 0; group < 4; ++group)
    data.push_back(counted(64 << 10, static_cast<std::uint8_t>(group)));
  before = data;
  for (std::uint32_t const group : {3u, 0u, 2u, 1u}) {
    ASSERT_TRUE(checkpoint_->add(data[group].data(), data[group].size(), group).ok());
    ASSERT_TRUE(checkpoint_->checkpoint(group, group).ok());
    EXPECT_GE(std::filesystem::file_size(path_),
              small + (group == 0 ? 0 : 2 * group * (64u << 10)));
  }
  for (Bytes8& each : data) std::fill(each.begin(), each.end(), Bytes8::value_type{0});
  Checkpoint& again = reopened();
  for (std::uint32_t group = 0; group < 4; ++group) {
    ASSERT_TRUE(again.add(data[group].data(), data[group].size(), group).ok());
    auto const word = again.restore(group);
    ASSERT_TRUE(word.ok()) << word.status().message();
    EXPECT_EQ(word.value(), group);
  }
  EXPECT_EQ(data, before);
}

TEST_F(Checkpoints, ASpareGroupThatWasCutOffIsTold) {
  Checkpoint::Options options;
  options.spare = 2;
  Bytes8 data = counted(64 << 10, 1);
  {
    auto made = Checkpoint::create(grid_, path_, data.size(), 1, 1, options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    ASSERT_TRUE(made->add(data.data(), data.size(), 1).ok());
    ASSERT_TRUE(made->checkpoint(1, 7).ok());
  }
  auto const bytes = std::filesystem::file_size(path_);
  ASSERT_TRUE(reopened().add(data.data(), data.size(), 1).ok());
  for (std::uint64_t const left : {bytes - 4096, bytes - (64u << 10)}) {
    checkpoint_.reset();
    std::filesystem::resize_file(path_, left);
    EXPECT_NE(refused().message().find("truncated"), std::string::npos) << refused().message();
  }
}

TEST_F(Checkpoints, ARestoreWantsWhatWasRegisteredAtTheCheckpoint) {
  Bytes8 data = counted(64, 1);
  {
    Checkpoint& checkpoint = make(256, 2, 1);
    ASSERT_TRUE(checkpoint.add(data.data(), 16, 0).ok());
    ASSERT_TRUE(checkpoint.add(data.data() + 16, 8, 0).ok());
    EXPECT_EQ(checkpoint.restore(0).status().code(), Code::not_found);
    ASSERT_TRUE(checkpoint.checkpoint(0, 1).ok());
  }
  Bytes8 const before = data;
  Checkpoint& fewer = reopened();
  ASSERT_TRUE(fewer.add(data.data(), 16, 0).ok());
  EXPECT_NE(fewer.restore(0).status().message().find("2 elements"), std::string::npos);
  Checkpoint& others = reopened();
  ASSERT_TRUE(others.add(data.data(), 8, 0).ok());
  ASSERT_TRUE(others.add(data.data() + 16, 8, 0).ok());
  EXPECT_NE(others.restore(0).status().message().find("element 0"), std::string::npos);
  EXPECT_EQ(data, before);
}

TEST_F(Checkpoints, BehindADamagedNewestHeaderIsTheOneBefore) {
  {
    Checkpoint& checkpoint = make(64, 1, 1);
    Bytes8 data = counted(40, 1);
    ASSERT_TRUE(checkpoint.add(data.data(), data.size(), 0).ok());
    ASSERT_TRUE(checkpoint.checkpoint(0, 1).ok());
    std::iota(data.begin(), data.end(), std::uint8_t{2});  // in place: it is registered
    ASSERT_TRUE(checkpoint.checkpoint(0, 2).ok());
  }
  std::uint64_t word = 0;
  EXPECT_EQ(restored(40, word), counted(40, 2));
  EXPECT_EQ(word, 2u);
  std::uint64_t const second = 4096 + gpm::gpm_lines(sizeof(gpm::GpmGroupHeader) + 8);
  overwrite(second + 8, "\x03");  // the word
  EXPECT_EQ(restored(40, word), counted(40, 1));
  EXPECT_EQ(word, 1u);
  overwrite(4096 + 128, "\x04");  // the size of the other one's element
  Bytes8 data(40);
  Checkpoint& again = reopened();
  ASSERT_TRUE(again.add(data.data(), data.size(), 0).ok());
  EXPECT_EQ(again.restore(0).status().code(), Code::not_found);
}

TEST_F(Checkpoints, ATornHeaderIsNotCompletedByTheNextOne) {
  Bytes8 data = counted(40, 1);
  Checkpoint& checkpoint = make(64, 1, 1);
  ASSERT_TRUE(checkpoint.add(data.data(), data.size(), 0).ok());
  ASSERT_TRUE(checkpoint.checkpoint(0, 1).ok());
  std::string whole(gpm::gpm_lines(sizeof(gpm::GpmGroupHeader) + 8), '\0');
  std::ifstream(path_, std::ios::binary)
      .seekg(4096)
      .read(whole.data(), static_cast<std::streamsize>(whole.size()));
  overwrite(4096 + 24, std::string(8, '\0'));  // torn: its count of bytes has not arrived
  std::iota(data.begin(), data.end(), std::uint8_t{2});  // in place: it is registered
  ASSERT_TRUE(checkpoint.checkpoint(0, 2).ok());
  overwrite(
      4096,
      whole.substr(
          0, 32));  // of the next one, what the two have in common alone has arrived; its check has
  std::uint64_t word = 7;
  Checkpoint& again = reopened();
  ASSERT_TRUE(again.add(data.data(), data.size(), 0).ok());
  auto const found = again.restore(0);
  EXPECT_FALSE(found.ok()) << (found.ok() ? found.value() : word);
}

TEST_F(Checkpoints, RefuseAFileThatIsDamagedForeignTruncatedOrNotThere) {
  EXPECT_EQ(refused().code(), Code::not_found);
  make(1 << 20, 1, 1);
  checkpoint_.reset();
  std::filesystem::resize_file(path_, 1 << 20);
  EXPECT_NE(refused().message().find("truncated"), std::string::npos) << refused().message();
  overwrite(24, "\x77");
  EXPECT_NE(refused().message().find("damaged header"), std::string::npos) << refused().message();
  overwrite(8, "\x09");
  EXPECT_EQ(refused().code(), Code::unsupported);
  overwrite(0, "PRDGLOG1");
  EXPECT_NE(refused().message().find("is no libGPM checkpoint"), std::string::npos)
      << refused().message();
  for (auto const& [bytes, elements, groups] :
       {std::tuple{0u, 1u, 1u}, {1u, 0u, 1u}, {1u, 1u, 0u}, {1u, 1u << 17, 1u}})
    EXPECT_EQ(Checkpoint::create(grid_, path_, bytes, elements, groups).status().code(),
              Code::invalid_argument);
}

class CheckpointPaths : public Checkpoints,
                        public testing::WithParamInterface<std::pair<gpm::Path, std::string_view>> {
};

INSTANTIATE_TEST_SUITE_P(Paths, CheckpointPaths, testing::ValuesIn(gpm::kGpmPaths),
                         [](auto const& made) {
                           std::string name(made.param.second);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(CheckpointPaths, RestoreTheSameBytes) {
  gpm::Path const path = GetParam().first;
  Bytes8 one = counted(1001, 1), two = counted(64, 9);
  {
    Checkpoint& checkpoint = make(2048, 2, 1, path);
    ASSERT_TRUE(checkpoint.add(one.data(), one.size(), 0).ok());
    ASSERT_TRUE(checkpoint.add(two.data(), two.size(), 0).ok());
    for (std::uint64_t word = 1; word <= 3; ++word) {
      one[5] = static_cast<std::uint8_t>(word);
      ASSERT_TRUE(checkpoint.checkpoint(0, word).ok());
    }
  }
  Bytes8 const before_one = one, before_two = two;
  std::fill(one.begin(), one.end(), std::uint8_t{0});
  std::fill(two.begin(), two.end(), std::uint8_t{0});
  Checkpoint& again = reopened(path);
  ASSERT_TRUE(again.add(one.data(), one.size(), 0).ok());
  ASSERT_TRUE(again.add(two.data(), two.size(), 0).ok());
  EXPECT_EQ(again.restore(0).value(), 3u);
  EXPECT_EQ(one, before_one);
  EXPECT_EQ(two, before_two);
}

struct Fill {
  static constexpr int kPhases = 1;
  using Shared = gpm::NoShared;
  using State = gpm::NoState;
  std::uint64_t* to;
  std::uint64_t items;
  template <int, class T>
  void run(T& thread, Shared&, State&) const {
    if (thread.global() >= items) return;
    thread.store(&to[thread.global()], thread.global() + 1);
    thread.persist();
  }
};

TEST_P(CheckpointPaths, MemoryIsThereAgainAfterACommit) {
  gpm::Path const path = GetParam().first;
  constexpr std::uint64_t kItems = 1000, kBytes = kItems * 8;
  std::string const file = dir_.file("memory");
  {
    auto memory = gpm::Memory<gpm::Cpu>::open(grid_, file, kBytes, {path, true, 1});
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    auto* const to = reinterpret_cast<std::uint64_t*>(memory->data());
    ASSERT_TRUE(grid_.launch(gpm::grid_of(kItems, 128), Fill{to, kItems}, memory->persist()).ok());
    ASSERT_TRUE(memory->commit(0, kBytes).ok());
    bool const by_kernels = path == gpm::Path::gpm || path == gpm::Path::gpm_eadr;
    EXPECT_EQ(memory->made_durable(), by_kernels ? 0 : kBytes);
  }
  {
    auto memory = gpm::Memory<gpm::Cpu>::open(grid_, file, kBytes, {path, false, 1});
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    auto const* const found = reinterpret_cast<std::uint64_t const*>(memory->data());
    for (std::uint64_t i = 0; i < kItems; ++i) ASSERT_EQ(found[i], i + 1);
  }
  auto const larger = gpm::Memory<gpm::Cpu>::open(grid_, file, 1 << 20, {path, false, 1});
  EXPECT_NE(larger.status().message().find("truncated"), std::string::npos)
      << larger.status().message();
  auto const missing = gpm::Memory<gpm::Cpu>::open(grid_, dir_.file("none"), 8, {path, false, 1});
  EXPECT_EQ(missing.status().code(), Code::not_found) << missing.status().message();
}

TEST(GpmFiles, ReadsAndWritesPastTheEndSayWhatFailed) {
  ScratchDir const dir;
  auto file = gpm::GpmFile::plain(dir.file("plain"), 100, true);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->bytes(), 3 * 4096u);
  std::byte bytes[8]{};
  EXPECT_TRUE(file->write_and_sync(8, bytes, sizeof bytes).ok());
  EXPECT_TRUE(file->read(8, bytes, sizeof bytes).ok());
  EXPECT_FALSE(file->read(1 << 20, bytes, sizeof bytes).ok());
  EXPECT_EQ(gpm::GpmFile::plain(dir.file("no/folder"), 8, true).status().code(), Code::not_found);
  EXPECT_FALSE(gpm::GpmFile::map(dir.file("no/folder"), 8, true, false).ok());
}

}  // namespace
}  // namespace perdure::test
