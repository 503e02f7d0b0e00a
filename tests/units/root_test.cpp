// The root as a directory: its verbs against a map, its limits, and that a copy counts only as it
// was written, whatever became of its bytes.
#include "pm/root.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "index/gphash/root_levels.hpp"
#include "pm/record_numbers.hpp"
#include "units/memfd_pool.hpp"

namespace perdure::pm {
namespace {

using Model = std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>;
using Page = std::vector<std::byte>;

std::string name_of(std::uint64_t n) { return "entry." + std::to_string(n); }

void expect_same(Root const& root, Model const& model) {
  ASSERT_EQ(root.entries, model.size());
  for (auto const& [name, held] : model) {
    RootEntry const* const entry = root.find(name);
    ASSERT_NE(entry, nullptr) << name;
    ASSERT_EQ(std::pair(entry->offset, entry->value), held);
    ASSERT_EQ(entry->text(), name);
  }
  ASSERT_EQ(names_fault(root), "");
  RootEntry const none{};
  for (std::uint32_t i = root.entries; i < kMaxRootEntries; ++i)
    ASSERT_EQ(std::memcmp(&root.entry[i], &none, sizeof none), 0);
}

Page written(Root root) {
  Page page(4096, std::byte{0xa5});
  write_root(page.data(), root);
  return page;
}

Root root_of(std::uint32_t entries) {
  Root root{};
  root.sequence = 7;
  root.superblocks = 3;
  for (std::uint32_t i = 0; i < entries; ++i) root.set(name_of(i), i << 20, i * 3);
  return root;
}

TEST(Root, IsWhatAMapWouldBe) {
  std::mt19937_64 random(1);
  for (std::uint64_t const names : {3u, 40u, kMaxRootEntries}) {
    Root root = root_of(0);
    Model model;
    for (int step = 0; step < 3000; ++step) {
      std::string const name = name_of(random() % names);
      if (random() % 3 == 0) {
        root.remove(name);
        model.erase(name);
      } else {
        model[name] = {random(), random()};
        root.set(name, model[name].first, model[name].second);
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(root, model));
      ASSERT_EQ(root.find("entry"), nullptr) << "of a name that begins like one";
      if (step % 16 != 0) continue;
      auto const read = read_root(written(root).data());
      ASSERT_TRUE(read.has_value());
      ASSERT_NO_FATAL_FAILURE(expect_same(*read, model));
    }
  }
}

TEST(Root, HasRoomForSoManyAndForNamesOfFifteenBytes) {
  Root root = root_of(kMaxRootEntries);
  EXPECT_EQ(root.bytes(), sizeof(Root));
  root.set(name_of(5), 1, 2);
  EXPECT_EQ(root.entries, kMaxRootEntries);
  auto const one_more = [&] { root.set("one.more", 0, 0); };
  EXPECT_DEATH(one_more(), "kMaxRootEntries");
  Root other = root_of(0);
  other.set("fifteen.letters", 1, 2);
  EXPECT_EQ(other.find("fifteen.letters")->text(), "fifteen.letters");
  EXPECT_DEATH(other.set("sixteen..letters", 1, 2), "name.size");
  EXPECT_DEATH(other.set("", 1, 2), "name.empty");
}

TEST(Root, WritesWhatIsInUseAndNoMore) {
  for (std::uint32_t const entries : {0u, 1u, 5u}) {
    Root const root = root_of(entries);
    Page const page = written(root);
    EXPECT_EQ(root.bytes(), 32 + 32 * entries);
    for (std::size_t i = root.bytes(); i < page.size(); ++i) ASSERT_EQ(page[i], std::byte{0xa5});
  }
}

TEST(Root, AFlippedBitSpoilsACopyUnlessNothingReadsIt) {
  Root const root = root_of(4);
  Page page = written(root);
  for (std::size_t at = 0; at < root.bytes() + 64; ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      page[at] ^= static_cast<std::byte>(1u << bit);
      EXPECT_EQ(read_root(page.data()).has_value(), at >= root.bytes()) << at;
      page[at] ^= static_cast<std::byte>(1u << bit);
    }
  }
}

/// Words of the one and of the other, as a crash may leave them: it counts as neither, but where
/// they are all of one.
TEST(Root, ATornCopyDoesNotCount) {
  std::mt19937_64 random(2);
  std::pair<std::uint32_t, std::uint32_t> const sizes[] = {{3, 3}, {3, 4}, {4, 2}};
  for (auto const& [before, after] : sizes) {
    Root next = root_of(after);
    next.sequence += 2;
    next.set(name_of(0), 9u << 20, 77);
    Page const old = written(root_of(before)), fresh = written(next);
    std::size_t const words = next.bytes() / 8;
    for (int round = 0; round < 20000; ++round) {
      std::uint64_t const mask = round < 64 ? (std::uint64_t{1} << round) - 1 : random();
      Page page = old;
      for (std::size_t w = 0; w < words; ++w)
        if ((mask >> w & 1) != 0) std::memcpy(&page[w * 8], &fresh[w * 8], 8);
      auto const is = [&](Page const& one, std::size_t bytes) {
        return std::memcmp(page.data(), one.data(), bytes) == 0;
      };
      bool const whole = is(old, root_of(before).bytes()) || is(fresh, next.bytes());
      ASSERT_EQ(read_root(page.data()).has_value(), whole) << mask;
    }
  }
}

TEST(Root, TellsNamesThatAreNone) {
  auto const fault = [](auto spoil) {
    Root root = root_of(3);
    spoil(root);
    return names_fault(root);
  };
  EXPECT_EQ(fault([](Root&) {}), "");
  EXPECT_EQ(fault([](Root& r) { r.entry[2].name = r.entry[0].name; }),
            "the root names \"entry.0\" twice");
  std::string const none = "an entry of the root has no whole name";
  EXPECT_EQ(fault([](Root& r) { r.entry[1].name = {}; }), none);
  EXPECT_EQ(fault([](Root& r) { r.entry[1].name.fill('x'); }), none);
  EXPECT_EQ(fault([](Root& r) { r.entry[1].name[12] = 'x'; }), none);
  EXPECT_EQ(fault([](Root& r) { r.entry[1].name[2] = ' '; }), none);
  EXPECT_EQ(fault([](Root& r) { r.entry[1].name[2] = '\x80'; }), none);
}

TEST(Root, NamesThatNobodyKnowsAreRefused) {
  Root const root = root_of(3);
  EXPECT_TRUE(check_names("p", root, [](std::string_view) { return true; }).ok());
  Status const s = check_names("p", root, [](std::string_view name) { return name != "entry.1"; });
  EXPECT_EQ(s.code(), Code::corrupt);
  EXPECT_NE(s.message().find("pool p: its root names \"entry.1\", which this build does not know"),
            std::string::npos)
      << s.message();
}

TEST(Root, IsPublishedInBothCopies) {
  Pool pool = make_pool(2);
  Root next = pool.root();
  next.set("here", kMinSuperblock, 5);
  pool.publish_root(next);
  for (std::uint64_t const at : kRootOffset) {
    auto const copy = read_root(pool.base() + at);
    ASSERT_TRUE(copy.has_value());
    ASSERT_NE(copy->find("here"), nullptr);
    EXPECT_EQ(copy->find("here")->value, 5u);
  }
}

TEST(RecordNumbers, AreLeasedUpwards) {
  Pool pool = make_pool(2);
  EXPECT_EQ(leased_numbers(pool), 0u);
  for (std::uint64_t const most : {10u, 11u, 500u}) {
    lease_numbers(pool, most);
    EXPECT_EQ(leased_numbers(pool), most);
    EXPECT_EQ(pool.root().entries, 1u);
  }
  EXPECT_DEATH(lease_numbers(pool, 500), "leased_numbers");
}

/// The levels of a table through growths, wider levels and growths that are given up.
TEST(RootLevels, AreReadAsTheyWerePut) {
  std::mt19937_64 random(3);
  for (std::uint32_t live = 1; live <= 4; ++live) {
    Root root = root_of(2);  // other owners' entries
    std::vector<gphash::Level> levels;
    for (std::uint32_t i = 0; i < live; ++i)
      levels.push_back({Offset{(random() % 1000) << 20}, 0, live - 1 - i});
    bool retires = false;
    for (int step = 0; step < 200; ++step) {
      std::uint32_t const top = levels[0].log2_buckets;
      if (retires) {
        if (random() % 3 == 0)
          levels.erase(levels.begin());  // given up
        else if (random() % 2 == 0 && top < gphash::kMaxTop)
          levels[0].log2_buckets = top + 1;
        else
          levels.pop_back();
        retires = levels.size() > live;
      } else if (top < gphash::kMaxTop) {
        levels.insert(levels.begin(), {Offset{(random() % 1000) << 20}, 0, top + 1});
        retires = true;
      }
      gphash::put_levels(root, levels, retires);
      auto read = gphash::read_levels(root, live);
      ASSERT_TRUE(read.ok()) << read.status().message();
      ASSERT_EQ(read->retires, retires);
      ASSERT_EQ(read->levels.size(), levels.size());
      for (std::size_t i = 0; i < levels.size(); ++i)
        ASSERT_TRUE(gphash::same_level(read->levels[i], levels[i]));
      ASSERT_EQ(root.entries, 2 + levels.size());
      ASSERT_FALSE(gphash::read_levels(root, live + 1).ok());
    }
  }
  EXPECT_TRUE(gphash::is_level_name("gphash.level.0") && gphash::is_level_name("gphash.level.40"));
  for (char const* const other :
       {"gphash.level.41", "gphash.level.", "gphash.level.04", "gphash.level.00", "gphash.level.4x",
        "gphash.level.-4", "gphash.level.4294967300", "gphash.level", "level.4", "undo"})
    EXPECT_FALSE(gphash::is_level_name(other)) << other;
}

}  // namespace
}  // namespace perdure::pm
