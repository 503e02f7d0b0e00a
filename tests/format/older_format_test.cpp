// What builds of format versions 2 (GPHash) and 3 (Dash) wrote, in golden/older: their pools are
// refused and left as they are, and the refusal names the way out; their snapshots, and the images
// of durability power, become pools of this version that say what they said before.
#include <gtest/gtest.h>

#include <functional>

#include "golden.hpp"
#include "pm/dense.hpp"
#include "pm/pool.hpp"
#include "pm/record_numbers.hpp"
#include "support/folders.hpp"
#include "wal/log_format.hpp"
#include "wal/undo_log.hpp"

namespace perdure::test {
namespace {

Bytes older(std::string const& name) {
  return from_sparse(read_file(std::string(PERDURE_GOLDEN_FOLDER) + "/older/" + name + ".sparse"));
}

/// The pool in a snapshot.
Image pool_in(std::string const& name) {
  Bytes const file = older(name);
  auto const bytes = static_cast<std::ptrdiff_t>(Image(file).at<wal::ImageHeader>(0).bytes);
  auto const begin = file.begin() + static_cast<std::ptrdiff_t>(wal::kBlock);
  return Image(Bytes(begin, begin + bytes));
}

Result<pm::Pool> converted(Image const& image) {
  return pm::Pool::create_from("memfd:older", image.bytes.size(), {}, {},
                               [&](std::span<std::byte> into) {
                                 std::ranges::copy(image.bytes, into.begin());
                                 return Status{};
                               });
}

Contents const kFixed = golden_contents(kGolden[0]);
Contents const kVariable = golden_contents(kGolden[1]);

bool says(Status const& status, std::string const& what) {
  return status.message().find(what) != std::string::npos;
}

void expect_whole(Store& store, Contents const& contents) {
  EXPECT_TRUE(scan_all(store) == contents);
  auto const verified = store.verify();
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified.value().fault_count, 0u);
  EXPECT_EQ(verified.value().records, contents.size());
}

TEST(OlderFormat, PoolsAreRefusedWithTheWayOut) {
  for (auto const& [name, version] : {std::pair{"word_pool", "2"}, {"dash_eh_pool", "3"}}) {
    SCOPED_TRACE(name);
    PoolPath path;
    Bytes const before = older(name);
    write_file(path.str(), before);
    OpenOptions reading, repairing;
    reading.read_only = true;
    repairing.repair = true;
    for (OpenOptions const& options : {OpenOptions{}, reading, repairing}) {
      Status const s = Store::open(path.str(), options).status();
      EXPECT_EQ(s.code(), Code::corrupt);
      EXPECT_TRUE(says(s, path.str() + " has format version " + version +
                              "; this build reads version 4, and snapshots of version " + version))
          << s.message();
      EXPECT_TRUE(says(s, "perdure snapshot") && says(s, "perdure restore")) << s.message();
    }
    EXPECT_EQ(read_file(path.str()), before);
  }
}

TEST(OlderFormat, ASnapshotWithStepsBecomesAPool) {
  PoolPath snapshot, path;
  write_file(snapshot.str(), older("word_snapshot"));
  {
    auto store = Store::restore(snapshot.str(), path.str());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(store->recovery().clean);
    expect_whole(*store, kFixed);
    std::vector<std::uint32_t> weights(64), expected(64);
    for (std::uint32_t i = 0; i < 64; ++i) expected[i] = i;
    ASSERT_TRUE(
        store->register_dense({{"weights", reinterpret_cast<std::byte*>(weights.data()), 64 * 4}})
            .ok());
    auto const step = store->restore_step();
    ASSERT_TRUE(step.ok()) << step.status().message();
    EXPECT_EQ(step.value(), std::uint64_t{7});
    EXPECT_EQ(weights, expected);
    CallOptions atomic;
    atomic.atomic = true;
    Strings keys(8), values(16);
    keys.add(kFixed.begin()->first), values.add(kFixed.begin()->second);
    ASSERT_TRUE(store->put(keys.column(), values.column(), {}, atomic).ok());
    ASSERT_TRUE(store->close().ok());
  }
  EXPECT_EQ(Image(read_file(path.str())).header().format_version, 4u);
  auto store = Store::open(path.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->recovery().clean);
  expect_whole(*store, kFixed);
}

TEST(OlderFormat, ASnapshotOfADashPoolBecomesAPool) {
  PoolPath snapshot, path;
  write_file(snapshot.str(), older("dash_lh_snapshot"));
  {
    auto store = Store::restore(snapshot.str(), path.str());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(store->recovery().clean);
    expect_whole(*store, kVariable);
    ASSERT_TRUE(store->close().ok());
  }
  auto store = Store::open(path.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  expect_whole(*store, kVariable);
}

/// A log directory whose process was killed: 60 records in its image, and in its log 40 more, then
/// the erasure of the first three keys.
class OlderPower : public ::testing::Test {
 protected:
  OlderPower() {
    std::filesystem::create_directories(disk_.path);
    write_file(disk_.file("redo.log"), older("power_redo_log"));
    for (char const* const name : {"checkpoint", "image-a", "image-b"})
      write_file(disk_.file(name), older(std::string("power_") + name));
    contents_ = kFixed;
    for (std::uint64_t i = 0; i < 3; ++i) contents_.erase(u64_text(i * 0x9e3779b97f4a7c15u));
    options_.log_dir = disk_.path;
  }
  DiskDir const disk_{"older-log"};
  PoolPath path_;
  Contents contents_;
  OpenOptions options_;
};

TEST_F(OlderPower, IsMadeAnewFromItsLogDirectory) {
  for (bool const there : {true, false}) {
    SCOPED_TRACE(there);
    if (there) write_file(path_.str(), older("power_pool"));
    {
      auto store = Store::open(path_.str(), options_);
      ASSERT_TRUE(store.ok()) << store.status().message();
      EXPECT_EQ(store->recovery().replayed, 2u);
      EXPECT_FALSE(store->recovery().lost_acknowledged);
      expect_whole(*store, contents_);
    }
    auto store = Store::open(path_.str(), options_);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->recovery().replayed, 0u) << "the close left an image of this version";
    expect_whole(*store, contents_);
    ASSERT_TRUE(store->close().ok());
    EXPECT_EQ(Image(read_file(path_.str())).header().format_version, 4u);
    if (!there) return;
    ::unlink(path_.str().c_str());
    write_file(disk_.file("redo.log"), older("power_redo_log"));
    for (char const* const name : {"checkpoint", "image-a", "image-b"})
      write_file(disk_.file(name), older(std::string("power_") + name));
  }
}

TEST_F(OlderPower, WithoutItsLogDirectoryItIsRefused) {
  Bytes const before = older("power_pool");
  write_file(path_.str(), before);
  Status const s = Store::open(path_.str()).status();
  EXPECT_EQ(s.code(), Code::corrupt);
  EXPECT_TRUE(says(s, "format version 2; this build reads version 4: name its log_dir"))
      << s.message();
  EXPECT_EQ(read_file(path_.str()), before);
}

// The names stand as text where older roots are read: they are those of their owners.
TEST(OlderFormat, EntriesHaveTheirOwnersNamesAndTheNoteOfTheCloseCounts) {
  Image const image = pool_in("word_snapshot");
  auto pool = converted(image);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  pm::Root const& root = pool->root();
  EXPECT_EQ(root.entries, 5u);
  auto levels = gphash::read_levels(root, 2);
  ASSERT_TRUE(levels.ok());
  EXPECT_FALSE(levels.value().retires);
  EXPECT_EQ(levels.value().levels[0].log2_buckets, 5u);
  EXPECT_EQ(levels.value().levels[0].base.bytes, 6u << 20);
  EXPECT_EQ(levels.value().levels[1].log2_buckets, 4u);
  EXPECT_EQ(levels.value().levels[1].base.bytes, 1u << 20);
  EXPECT_EQ(pm::leased_numbers(*pool), std::uint64_t{1} << 20);
  ASSERT_NE(root.find(wal::kUndoRoom), nullptr);
  EXPECT_EQ(root.find(wal::kUndoRoom)->offset, 3u << 20);
  EXPECT_EQ(root.find(wal::kUndoRoom)->value, 128u);
  ASSERT_NE(root.find(pm::kDenseRoom), nullptr);
  EXPECT_EQ(root.find(pm::kDenseRoom)->offset, 5u << 20);
  EXPECT_EQ(root.find(pm::kDenseRoom)->value, 1u);
  EXPECT_EQ(root.sequence, 22u);
  EXPECT_EQ(root.clean, 1u);
  auto const note = pool->closing_note();
  ASSERT_TRUE(note.ok());
  EXPECT_TRUE(note.value().has_value());
  auto dash = converted(pool_in("dash_lh_snapshot"));
  ASSERT_TRUE(dash.ok()) << dash.status().message();
  ASSERT_NE(dash->root().find(dash::kIndexName), nullptr);
  EXPECT_TRUE(dash->closing_note().value().has_value());
}

/// Changes the root of version 2 at `at`, and its checksum.
template <class T>
void set_older(Image& image, std::uint64_t field, T value) {
  for (std::uint64_t const at : pm::kRootOffset) {
    image.set(at + field, value);
    image.set(at + 580, crc32c(0, image.bytes.data() + at, 580));
  }
}

TEST(OlderFormat, AGrowthUnderWayGoesOn) {
  Image image = pool_in("word_snapshot");
  set_older(image, 32, 1u);               // a level retires
  set_older(image, 40 + 32, 2u << 20);    // which lies here
  set_older(image, 40 + 32 + 8, 1u);      // and has two buckets
  auto pool = converted(image);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  auto levels = gphash::read_levels(pool->root(), 2);
  ASSERT_TRUE(levels.ok()) << levels.status().message();
  EXPECT_TRUE(levels->retires);
  EXPECT_EQ(levels->levels.at(2).base.bytes, 2u << 20);
  EXPECT_EQ(levels->levels.at(2).log2_buckets, 1u);
}

TEST(OlderFormat, OneCopyOfTheRootIsEnough) {
  for (std::uint64_t const at : pm::kRootOffset) {
    Image image = pool_in("word_snapshot");
    image.flip(at + 300, 3);
    auto pool = converted(image);
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    EXPECT_EQ(pool->root().entries, 5u);
    EXPECT_TRUE(pool->closing_note().value().has_value()) << "it speaks for either";
  }
}

TEST(OlderFormat, DamageIsRefusedAsInAPoolOfThisVersion) {
  struct Line {
    char const* name;
    std::function<void(Image&)> damage;
    char const* says;
  };
  Line const lines[] = {
      {"both roots torn",
       [](Image& i) {
         i.flip(4096 + 100);
         i.flip(8192 + 100);
       },
       "neither copy of the root"},
      {"more levels than the header says", [](Image& i) { set_older(i, 28, 3u); },
       "impossible levels"},
      {"levels without end", [](Image& i) { set_older(i, 28, ~0u); }, "impossible levels"},
      {"two retire", [](Image& i) { set_older(i, 32, 2u); }, "impossible levels"},
      {"two levels of one size", [](Image& i) { set_older(i, 40 + 16 + 8, 5u); },
       "impossible levels"},
      {"a level without end", [](Image& i) { set_older(i, 40 + 8, 99u); }, "impossible levels"},
      {"fewer superblocks than none", [](Image& i) { set_older(i, 8, std::uint64_t{0}); },
       "truncated"},
      {"a flipped bit in the header", [](Image& i) { i.flip(60); }, "format version 2"},
      {"Dash of a version that knows none",
       [](Image& i) {
         i.set(77, std::uint8_t{1});
         i.seal_header();
       },
       "format version 2"},
      {"a version that nobody reads",
       [](Image& i) {
         i.set(8, std::uint32_t{1});
         i.seal_header();
       },
       "format version 1; this build reads version 4: export it"},
      {"no whole head", [](Image& i) { i.bytes.resize(8192); }, "hold no pool header"},
  };
  for (Line const& line : lines) {
    SCOPED_TRACE(line.name);
    Image image = pool_in("word_snapshot");
    line.damage(image);
    auto const pool = converted(image);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.status().code(), Code::corrupt);
    EXPECT_TRUE(says(pool.status(), line.says)) << pool.status().message();
  }
}

}  // namespace
}  // namespace perdure::test
