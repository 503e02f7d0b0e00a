// The format on disk: committed pools open and hold what they held, the bytes stand where
// docs/format.md says, and whatever is not a whole pool is refused and left as it was.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string_view>

#include "golden.hpp"
#include "support/sanitized.hpp"

namespace perdure::test {
namespace {

Bytes golden_bytes(Golden const& golden) {
  return from_sparse(read_file(std::string(PERDURE_GOLDEN_FOLDER) + "/" + golden.name + ".sparse"));
}

std::vector<std::string> keys_of(Contents const& contents) {
  std::vector<std::string> keys;
  for (auto const& [key, value] : contents) keys.push_back(key);
  return keys;
}

pm::Root with_levels(Image const& image, std::vector<gphash::Level> const& levels) {
  pm::Root root = image.root();
  gphash::put_levels(root, levels, false);
  return root;
}

void move_level(Image& image, std::size_t level, std::uint64_t to) {
  auto levels = image.levels().levels;
  levels[level].base = Offset{to};
  image.publish(with_levels(image, levels));
}

void change_entry(Image& image, std::size_t entry,
                  std::function<void(pm::RootEntry&)> const& change) {
  pm::Root root = image.root();
  change(root.entry[entry]);
  image.publish(root);
}

/// Another number at a byte of the header, under a checksum that is right.
template <class T>
auto header_with(std::uint64_t at, T value) {
  return [=](Image& i) {
    i.set(at, value);
    i.seal_header();
  };
}

/// The root with such an entry.
auto root_naming(std::string_view name, std::uint64_t offset, std::uint64_t value) {
  return [=](Image& i) {
    pm::Root r = i.root();
    r.set(name, offset, value);
    i.publish(r);
  };
}

/// What is done to a pool's bytes, and what the refusal says of it.
struct Line {
  char const* name;
  std::function<void(Image&)> damage;
  char const* says;
};

class Format : public ::testing::TestWithParam<Golden> {
 protected:
  Format() { write_file(path_.str(), image_.bytes); }

  /// Opens, expects a refusal, and that the file is as it was.
  void refuse(Code code, std::string const& says, OpenOptions const& options = {}) const {
    Bytes const before = read_file(path_.str());
    auto store = Store::open(path_.str(), options);
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.status().code(), code) << store.status().message();
    EXPECT_NE(store.status().message().find(path_.str()), std::string::npos)
        << store.status().message();
    EXPECT_NE(store.status().message().find(says), std::string::npos) << store.status().message();
    EXPECT_EQ(read_file(path_.str()), before) << "a refused pool was changed";
  }

  void refuse_each(std::span<Line const> lines) const {
    for (Line const& line : lines) {
      SCOPED_TRACE(line.name);
      Image image = image_;
      line.damage(image);
      write_file(path_.str(), image.bytes);
      refuse(Code::corrupt, line.says);
    }
  }

  /// A record of an 8-byte key (none in it where it stands in the slot) and a 16-byte value, at
  /// byte `inside` of the superblock at `heap`.
  void expect_split(std::uint64_t inside, std::uint64_t heap, std::string const& key,
                    std::string const& value) const {
    std::uint64_t const head_bytes = key.empty() ? 8 : 16;
    std::uint64_t const group = (inside - 128) / (16 * (head_bytes + 16));
    std::uint64_t const begin = heap + 128 + group * 16 * (head_bytes + 16);
    std::uint64_t const i = (heap + inside - begin - 16 * head_bytes) / 16;
    ASSERT_LT(i, 16u);
    std::uint64_t const head = begin + i * head_bytes;
    EXPECT_EQ(image_.at<std::uint32_t>(heap + 4), head_bytes + 16);
    EXPECT_EQ(image_.text(head + 8, key.size()), key);
    EXPECT_EQ(image_.text(heap + inside, 16), value);
    std::uint32_t const front = crc32c(0, image_.bytes.data() + head + 4, 4 + key.size());
    EXPECT_EQ(image_.at<std::uint32_t>(head),
              crc32c(front, image_.bytes.data() + heap + inside, 16));
  }

  Image const image_{golden_bytes(GetParam())};
  Contents const contents_ = golden_contents(GetParam());
  PoolPath path_;
};

TEST_P(Format, GoldenPoolHoldsItsRecords) {
  for (bool const read_only : {true, false}) {
    OpenOptions options;
    options.read_only = read_only;
    auto store = Store::open(path_.str(), options);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(store->recovery().clean);
    EXPECT_EQ(store->recovery().records, kGoldenRecords);
    EXPECT_EQ(scan_all(*store), contents_);
    auto const got = get_all(*store, keys_of(contents_));
    std::size_t i = 0;
    for (auto const& [key, value] : contents_) {
      EXPECT_EQ(got[i].status, KeyStatus::ok);
      EXPECT_EQ(got[i++].value, value);
    }
    auto verified = store->verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_EQ(verified->fault_count, 0u);
    EXPECT_EQ(verified->records, kGoldenRecords);
  }
}

// The numbers here are the document's, not the structs'.
TEST_P(Format, BytesStandWhereTheDocumentSays) {
  bool const in_place = GetParam().layout == Layout::in_place;
  bool const variable = GetParam().variable;
  EXPECT_EQ(image_.text(0, 8), "PERDURE\n");
  EXPECT_EQ(image_.at<std::uint32_t>(8), 4u);
  EXPECT_EQ(image_.at<std::uint32_t>(12), 1u);
  EXPECT_EQ(image_.at<std::uint64_t>(40), 1u << 20);
  EXPECT_EQ(image_.at<std::uint32_t>(56), variable ? 0u : 8u);
  EXPECT_EQ(image_.at<std::uint32_t>(60), variable ? 0u : 16u);
  EXPECT_EQ(image_.at<std::uint8_t>(72), in_place ? 1 : 0);
  EXPECT_EQ(image_.at<std::uint32_t>(124), crc32c(0, image_.bytes.data(), 124));
  std::uint64_t const a = 4096, b = 8192;
  EXPECT_EQ(image_.at<std::uint64_t>(a) % 2, 0u);
  EXPECT_EQ(image_.at<std::uint64_t>(b) % 2, 1u);
  std::uint64_t const root = image_.at<std::uint64_t>(a) > image_.at<std::uint64_t>(b) ? a : b;
  EXPECT_EQ(image_.at<std::uint64_t>(root + 8) << 20, image_.bytes.size());
  EXPECT_EQ(image_.at<std::uint32_t>(root + 16), 1u);
  EXPECT_EQ(image_.at<std::uint32_t>(root + 20), 3u);
  std::uint32_t const head = crc32c(0, image_.bytes.data() + root, 28);
  EXPECT_EQ(image_.at<std::uint32_t>(root + 28),
            crc32c(head, image_.bytes.data() + root + 32, 3 * 32));
  EXPECT_EQ(image_.text(root + 32, 16), std::string("gphash.level.4\0\0", 16));
  EXPECT_EQ(image_.at<std::uint64_t>(root + 32 + 16) % (1u << 20), 0u);
  EXPECT_EQ(image_.at<std::uint64_t>(root + 32 + 24), 0u) << "it does not retire";
  EXPECT_EQ(image_.text(root + 64, 16), std::string("gphash.level.3\0\0", 16));
  EXPECT_EQ(image_.text(root + 96, 16), std::string("record.numbers\0\0", 16));
  EXPECT_EQ(image_.at<std::uint64_t>(root + 96 + 16), 0u);
  EXPECT_GT(image_.at<std::uint64_t>(root + 96 + 24), 0u);
  auto const slot = image_.slot_of(contents_.begin()->first);
  std::uint64_t const record = image_.record(slot);
  std::uint64_t const heap = record >> 20 << 20;
  EXPECT_EQ(image_.text(heap, 4), "PRSB");
  EXPECT_EQ(image_.text(heap + 8, 16), image_.text(16, 16));
  EXPECT_EQ(image_.at<std::uint32_t>(heap + 60), crc32c(0, image_.bytes.data() + heap, 60));
  std::string const& value = contents_.begin()->second;
  if (!variable)
    return expect_split(record - heap, heap, in_place ? std::string() : contents_.begin()->first,
                        value);
  std::uint64_t const key_bytes = image_.at<std::uint32_t>(record + 8);
  EXPECT_EQ(key_bytes, contents_.begin()->first.size());
  EXPECT_EQ(image_.at<std::uint32_t>(record + 4), value.size());
  EXPECT_EQ(image_.text(record + 24 + key_bytes, value.size()), value);
  EXPECT_EQ(image_.at<std::uint32_t>(record),
            crc32c(0, image_.bytes.data() + record + 4, 20 + key_bytes + value.size()));
}

TEST_P(Format, RefusesWhatIsNoWholePool) {
  Line const lines[] = {
      {"empty", [](Image& i) { i.bytes.clear(); }, "truncated"},
      {"one page", [](Image& i) { i.bytes.resize(4096); }, "truncated"},
      {"no multiple of a page", [](Image& i) { i.bytes.resize(i.bytes.size() - 1); }, "truncated"},
      {"header and roots alone", [](Image& i) { i.bytes.resize(12288); }, "truncated"},
      {"one superblock short", [](Image& i) { i.bytes.resize(i.bytes.size() - (1u << 20)); },
       "truncated"},
      {"all zeros", [](Image& i) { std::fill(i.bytes.begin(), i.bytes.end(), std::byte{0}); },
       "not a Perdure pool"},
      {"some other file",
       [](Image& i) { i.set(0, std::array{'S', 'Q', 'L', 'i', 't', 'e', ' ', '3'}); },
       "not a Perdure pool"},
      {"a short text",
       [](Image& i) {
         i.set(0, std::array{'D', 'e', 'a', 'r', ' ', 'S', 'i', 'r'});
         i.bytes.resize(100);
       },
       "not a Perdure pool"},
  };
  refuse_each(lines);
}

TEST_P(Format, RefusesAHeaderThatCannotBe) {
  Line const lines[] = {
      {"format version 1", header_with(8, std::uint32_t{1}), "format version 1"},
      {"format version 5", header_with(8, std::uint32_t{5}),
       "format version 5; this build reads version 4"},
      {"format version 3, whose pools have another index", header_with(8, std::uint32_t{3}),
       "format version 3"},
      {"another hash", header_with(12, std::uint32_t{9}), "hash 9"},
      {"superblocks of three bytes", header_with(40, std::uint64_t{3}), "impossible"},
      {"a shape too wide", header_with(76, std::uint8_t{64}), "impossible"},
      {"both roots torn",
       [](Image& i) {
         i.flip(4096 + 50);
         i.flip(8192 + 50);
       },
       "neither copy of the root"},
  };
  refuse_each(lines);
}

TEST_P(Format, RefusesARootThatCannotBeTrue) {
  Line const lines[] = {
      {"a level outside the file", [](Image& i) { move_level(i, 1, i.bytes.size()); },
       "a level that cannot be there"},
      {"a level over the header", [](Image& i) { move_level(i, 0, 0); },
       "a level that cannot be there"},
      {"a level longer than the file",
       [](Image& i) {
         auto levels = i.levels().levels;
         levels[0].log2_buckets = 40;
         i.publish(with_levels(i, levels));
       },
       "a level that cannot be there"},
      {"a root of no superblocks",
       [](Image& i) {
         pm::Root r = i.root();
         r.superblocks = 0;
         i.publish(r);
       },
       "truncated"},
      {"two levels in one place",
       [](Image& i) { move_level(i, 1, i.levels().levels[0].base.bytes); },
       "a level that cannot be there"},
      {"more levels than the header says",
       [](Image& i) {
         auto levels = i.levels().levels;
         levels.push_back({levels[0].base, 0, 0});
         i.publish(with_levels(i, levels));
       },
       "impossible levels"},
      {"fewer levels", [](Image& i) { i.publish(with_levels(i, {i.levels().levels[0]})); },
       "impossible levels"},
      {"a level retires that is not the lowest",
       [](Image& i) { change_entry(i, 0, [](pm::RootEntry& e) { e.value = 1; }); },
       "impossible levels"},
      {"a level does something else",
       [](Image& i) { change_entry(i, 0, [](pm::RootEntry& e) { e.value = 2; }); },
       "impossible levels"},
  };
  refuse_each(lines);
}

TEST_P(Format, RefusesNamesInTheRootThatItDoesNotKnow) {
  Line const lines[] = {
      {"a name of a newer build", root_naming("memtable.log", 1u << 20, 1),
       "its root names \"memtable.log\", which this build does not know"},
      {"another index's name", root_naming("dash", 1u << 20, 0), "its root names \"dash\""},
      {"one name twice",
       [](Image& i) {
         change_entry(i, 1, [&](pm::RootEntry& e) { e.name = i.root().entry[0].name; });
       },
       "the root names \"gphash.level.4\" twice"},
      {"a name that does not end",
       [](Image& i) { change_entry(i, 2, [](pm::RootEntry& e) { e.name.fill('n'); }); },
       "no whole name"},
      {"a name of no letters",
       [](Image& i) { change_entry(i, 2, [](pm::RootEntry& e) { e.name = {}; }); },
       "no whole name"},
      {"a name with something behind it",
       [](Image& i) { change_entry(i, 2, [](pm::RootEntry& e) { e.name[15] = 'x'; }); },
       "no whole name"},
      {"a name that is no text",
       [](Image& i) { change_entry(i, 2, [](pm::RootEntry& e) { e.name[1] = '\xff'; }); },
       "no whole name"},
      {"more entries than a root can have",
       [](Image& i) {
         for (std::uint64_t const at : pm::kRootOffset) {
           i.set(at + offsetof(pm::Root, entries), pm::kMaxRootEntries + 1);
           i.seal_root(at);
         }
       },
       "neither copy of the root"},
  };
  refuse_each(lines);
}

TEST_P(Format, RefusesAnUndoLogThatCannotBeThere) {
  Line const lines[] = {
      {"an undo log over a level",
       [](Image& i) {
         pm::Root r = i.root();
         r.set("undo", i.levels().levels[0].base.bytes, 32);
         i.publish(r);
       },
       "an undo log that cannot be there"},
      {"an undo log outside the file",
       [](Image& i) {
         pm::Root r = i.root();
         r.set("undo", i.bytes.size(), 32);
         i.publish(r);
       },
       "an undo log that cannot be there"},
      {"an undo log whose size wraps",
       [](Image& i) {
         pm::Root r = i.root();
         r.set("undo", i.bytes.size() - (1u << 20), std::uint64_t{1} << 59);
         i.publish(r);
       },
       "an undo log that cannot be there"},
  };
  refuse_each(lines);
}

TEST_P(Format, RefusesAFlippedBitInEachByteOfTheHeader) {
  for (std::uint64_t at = 0; at < sizeof(pm::PoolHeader); at += kSanitized ? 5 : 1) {
    SCOPED_TRACE(at);
    Image image = image_;
    image.flip(at, static_cast<unsigned>(at % 8));
    write_file(path_.str(), image.bytes);
    refuse(Code::corrupt, "");
  }
}

// One copy of the root spoilt: the other counts, and no record is lost. Both: refused.
TEST_P(Format, OutlivesAFlippedBitInEachByteOfOneRoot) {
  Image image = image_;
  std::uint64_t const newest = image.root_offset();
  std::uint64_t const other = pm::kRootOffset[0] + pm::kRootOffset[1] - newest;
  for (std::uint64_t at = 0; at < image.root_bytes(newest); at += 7) {
    SCOPED_TRACE(at);
    image = image_;
    image.flip(newest + at, static_cast<unsigned>(at % 8));
    write_file(path_.str(), image.bytes);
    {
      auto store = Store::open(path_.str());
      ASSERT_TRUE(store.ok()) << store.status().message();
      EXPECT_EQ(scan_all(*store), contents_);
    }
    image.flip(other + at, static_cast<unsigned>(at % 8));
    write_file(path_.str(), image.bytes);
    refuse(Code::corrupt, "neither copy of the root");
  }
}

TEST_P(Format, NamesARecordWithAFlippedBitAndLeavesTheOthers) {
  Image image = image_;
  std::string victim;
  for (auto const& [key, value] : contents_)
    if (value.size() >= 16) victim = key;
  auto const slot = image.slot_of(victim);
  image.flip(image.value_offset(slot) + 3, 5);
  write_file(path_.str(), image.bytes);
  auto store = Store::open(path_.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  auto const keys = keys_of(contents_);
  auto const got = get_all(*store, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(got[i].status, keys[i] == victim ? KeyStatus::corrupt : KeyStatus::ok);
    EXPECT_TRUE(keys[i] == victim || got[i].value == contents_.at(keys[i]));
  }
  auto verified = store->verify();
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified->fault_count, 1u);
  EXPECT_NE(verified->faults.at(0).find("byte " + std::to_string(image.record(slot))),
            std::string::npos)
      << verified->faults.at(0);
  EXPECT_NE(verified->faults.at(0).find("checksum"), std::string::npos) << verified->faults.at(0);
}

TEST_P(Format, OneWriterOrManyReaders) {
  OpenOptions reading;
  reading.read_only = true;
  {
    auto writer = Store::open(path_.str());
    ASSERT_TRUE(writer.ok());
    refuse(Code::busy, "is open elsewhere");
    refuse(Code::busy, "open for writing elsewhere", reading);
    CreateOptions over;
    over.file.overwrite = true;
    EXPECT_EQ(Store::create(path_.str(), over).status().code(), Code::busy);
  }
  auto one = Store::open(path_.str(), reading);
  auto two = Store::open(path_.str(), reading);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(scan_all(*one), scan_all(*two));
  refuse(Code::busy, "open both read-only");
}

TEST_P(Format, RefusesToReadAnUncleanPoolThatItMayNotMend) {
  Image image = image_;
  pm::Root root = image.root();
  root.clean = 0;
  image.publish(root);
  write_file(path_.str(), image.bytes);
  OpenOptions reading;
  reading.read_only = true;
  refuse(Code::unsupported, "open it once for writing", reading);
}

TEST_P(Format, RefusesOtherSizesThanExpected) {
  OpenOptions keys, values;
  keys.expect.key_bytes = 12;
  values.expect.value_bytes = 20;
  refuse(Code::invalid_argument, "key_bytes", keys);
  refuse(Code::invalid_argument, "value_bytes", values);
}

INSTANTIATE_TEST_SUITE_P(Pools, Format, ::testing::ValuesIn(kGolden),
                         [](auto const& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace perdure::test
