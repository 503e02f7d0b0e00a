// A crash test is a table: each line is a half state that a crash leaves behind (docs/format.md,
// "What each crash leaves behind"), made by editing the copy of an open pool, and the verdict of
// the next open. Invariant checked by every line: each acknowledged key is there with its value,
// verify() finds no fault that the line does not announce, and a second open is uneventful.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <functional>
#include <iterator>

#include "pm/record_numbers.hpp"
#include "pool_file.hpp"

namespace perdure::test {
namespace {

struct Verdict {
  std::uint64_t dropped = 0;
  std::uint64_t duplicates = 0;
  bool resumed = false;
  std::uint64_t faults = 0;  // that verify names
  bool clean = false;
};

struct Line {
  char const* name;
  std::function<void(Image&)> damage;
  Verdict verdict;
};

Contents acknowledged(bool variable, std::uint64_t records) {
  Contents contents;
  for (std::uint64_t i = 0; i < records; ++i) {
    std::string const value =
        "value " + std::to_string(i) + std::string(variable ? i % 40 : 0, '.');
    if (variable)
      contents["key " + std::to_string(i)] = value;
    else
      contents[u64_text(i)] = (value + std::string(16, '_')).substr(0, 16);
  }
  return contents;
}

CreateOptions small(Layout layout, bool variable) {
  CreateOptions o;
  o.key_bytes = variable ? 0 : 8;
  o.value_bytes = variable ? 0 : 16;
  o.expected_records = 40;
  o.layout = layout;
  return o;
}

/// The file as it stands while the store is open, every batch acknowledged: what a kill leaves.
Image open_pool(Layout layout, bool variable, Contents const& contents) {
  PoolPath path;
  auto store = Store::create(path.str(), small(layout, variable));
  if (!store) throw std::runtime_error(store.status().message());
  if (Status s = put_all(*store, contents); !s.ok()) throw std::runtime_error(s.message());
  return Image(read_file(path.str()));
}

/// What differs from the expectation; empty if nothing does.
std::string examine(Store& store, Contents const& contents, Verdict const& expected) {
  std::string wrong;
  auto const check = [&](char const* what, std::uint64_t found, std::uint64_t want) {
    if (found != want)
      wrong += std::string(what) + " is " + std::to_string(found) + ", not " +
               std::to_string(want) + "; ";
  };
  RecoveryReport const r = store.recovery();
  check("clean", r.clean, expected.clean);
  check("records", r.records, contents.size());
  check("dropped", r.dropped, expected.dropped);
  check("duplicates", r.duplicates, expected.duplicates);
  check("resize_resumed", r.resize_resumed, expected.resumed);
  check("why_dropped given", !r.why_dropped.empty(), expected.dropped > 0);
  if (scan_all(store) != contents) wrong += "a scan finds other contents; ";
  std::vector<std::string> keys;
  for (auto const& [key, value] : contents) keys.push_back(key);
  auto const got = get_all(store, keys);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (got[i].status != KeyStatus::ok || got[i].value != contents.at(keys[i]))
      wrong += "get differs; ";
  auto verified = store.verify();
  if (!verified) return wrong + verified.status().message();
  check("fault_count", verified->fault_count, expected.faults);
  check("verified records", verified->records, contents.size());
  return wrong;
}

/// Opens the image, examines it, writes to it, closes it, and opens it once more.
std::string judge(Image const& image, Contents contents, Verdict const& expected) {
  PoolPath path;
  write_file(path.str(), image.bytes);
  std::string wrong;
  {
    auto store = Store::open(path.str());
    if (!store) return store.status().message();
    wrong = examine(*store, contents, expected);
    Contents more;
    for (auto const& [key, value] : contents) more[key] = std::string(value.rbegin(), value.rend());
    if (Status s = put_all(*store, more); !s.ok()) return wrong + s.message();
    contents = more;
    if (Status s = store->close(); !s.ok()) return wrong + s.message();
  }
  auto store = Store::open(path.str());
  if (!store) return wrong + "second open: " + store.status().message();
  Verdict const uneventful{expected.faults, 0, false, expected.faults,
                           true};  // what leads astray stays
  std::string const then = examine(*store, contents, uneventful);
  return then.empty() ? wrong : wrong + "second open: " + then;
}

Image::Slot free_candidate(Image const& image, std::string const& key) {
  for (auto const& s : image.candidates(key))
    if (!image.taken(s)) return s;
  throw std::runtime_error("every candidate is taken");
}

Image::Slot any_free(Image const& image) {
  for (auto const& s : image.slots())
    if (!image.taken(s)) return s;
  throw std::runtime_error("no slot is free");
}

/// Some entry a second time, in another of its candidate slots: before the one it stands in, or
/// behind.
void copy_twice(Image& image, bool before) {
  for (auto const& from : image.slots()) {
    if (!image.taken(from)) continue;
    bool passed = false;
    for (auto const& to : image.candidates(image.key(from))) {
      passed |= to == from;
      if (passed == before || image.taken(to)) continue;
      image.copy_slot(from, to);
      return;
    }
  }
  throw std::runtime_error("no entry has a free candidate there");
}

/// The state in which begin_growth leaves the pool: a new, empty top level behind the file's end,
/// the bottom level retiring. Then as many of its entries are copied as `copy` says.
void half_resize(Image& image, std::function<bool(std::uint64_t)> const& copy) {
  std::uint64_t const superblock = image.header().superblock_bytes;
  pm::Root root = image.root();
  std::uint64_t const end = image.bytes.size();
  image.bytes.resize(end + superblock);
  auto levels = image.levels().levels;
  levels.insert(levels.begin(), {Offset{end}, 0, levels[0].log2_buckets + 1});
  gphash::put_levels(root, levels, true);
  root.superblocks = image.bytes.size() / superblock;
  image.publish(root);
  std::uint64_t moved = 0;
  std::uint64_t const retiring = levels.back().base.bytes;
  for (auto const& s : image.slots())
    if (s.level_offset == retiring && image.taken(s) && copy(moved++))
      image.copy_slot(s, free_candidate(image, image.key(s)));
}

/// Bytes of the root copy that the next publication overwrites, or of the newest one.
void tear_root(Image& image, bool newest) {
  std::uint64_t offset = image.root_offset();
  if (!newest) offset = pm::kRootOffset[0] + pm::kRootOffset[1] - offset;
  std::uint64_t const bytes = image.root_bytes(offset);
  for (std::uint64_t i = bytes / 2; i < bytes; ++i) image.set(offset + i, std::byte{0xa5});
}

std::uint64_t leased(Image const& image) {
  pm::Root const root = image.root();
  pm::RootEntry const* const numbers = root.find(pm::kRecordNumbers);
  return numbers == nullptr ? 0 : numbers->value;
}

std::uint64_t free_record(Image const& image) {
  // The record after the last one in use, in that superblock.
  std::uint64_t last = 0;
  for (auto const& s : image.slots())
    if (image.taken(s)) last = std::max(last, image.record(s));
  pm::RecordShape const shape(image.header());
  std::uint64_t const inside = last % shape.superblock_bytes;
  std::uint64_t const stride = image.at<pm::SuperblockHeader>(last - inside).record_bytes;
  std::uint64_t i = 0;
  if (!shape.index(stride, inside, i)) throw std::runtime_error("a slot leads to no record");
  return last - inside + shape.address(stride, i + 1);
}

std::vector<Line> killed_in_a_batch() {
  return {
      {"nothing happened but the kill", [](Image&) {}, {}},
      {"displacement: the copy stands before the original",
       [](Image& i) { copy_twice(i, true); },
       {.duplicates = 1}},
      {"displacement: the copy stands behind it",
       [](Image& i) { copy_twice(i, false); },
       {.duplicates = 1}},
      {"root: the older copy torn", [](Image& i) { tear_root(i, false); }, {}},
      {"record reserved and half written, unreachable",
       [](Image& i) {
         std::uint64_t const at = free_record(i);
         for (std::uint64_t b = 0; b < 20; ++b) i.set(at + b, std::byte{0x77});
       },
       {}},
      {"file longer than the root says",
       [](Image& i) { i.bytes.resize(i.bytes.size() + 3 * i.header().superblock_bytes); },
       {}},
      {"superblock header torn, of a superblock not yet in use",
       [](Image& i) {
         std::uint64_t const end = i.bytes.size();
         i.bytes.resize(end + i.header().superblock_bytes);
         pm::SuperblockHeader h{};
         h.magic = pm::kSuperblockMagic;
         h.record_bytes = 48;
         i.set(end, h);
       },
       {}},
  };
}

std::vector<Line> killed_in_a_growth() {
  return {
      {"resize: new level not yet named",
       [](Image& i) {
         std::uint64_t const end = i.bytes.size();
         i.bytes.resize(end + i.header().superblock_bytes);
         pm::Root r = i.root();
         r.superblocks = i.bytes.size() / i.header().superblock_bytes;
         i.publish(r);
       },
       {}},
      {"resize: named, none copied",
       [](Image& i) { half_resize(i, [](auto) { return false; }); },
       {.resumed = true}},
      {"resize: every other one copied",
       [](Image& i) { half_resize(i, [](auto n) { return n % 2 == 0; }); },
       {.resumed = true}},
      {"resize: all copied",
       [](Image& i) { half_resize(i, [](auto) { return true; }); },
       {.resumed = true}},
      {"resize: none copied, older root torn",
       [](Image& i) {
         half_resize(i, [](auto) { return false; });
         tear_root(i, false);
       },
       {.resumed = true}},
  };
}

std::vector<Line> damaged_by_no_crash() {
  return {
      {"not from a crash: a slot leads to no superblock",
       [](Image& i) {
         auto const s = any_free(i);
         std::uint64_t const nowhere = std::uint64_t{1} << 41;
         i.set(s.address_offset, i.in_place() ? nowhere : nowhere / 16 | std::uint64_t{5} << 40);
         if (i.in_place()) i.set(s.word_offset, std::uint64_t{12345});
       },
       {.dropped = 1, .faults = 1}},
      {"not from a crash: a slot leads between records",
       [](Image& i) {
         auto const s = any_free(i);
         pm::RecordShape const shape(i.header());
         std::uint64_t const free = free_record(i);
         std::uint64_t const between = shape.split() ? shape.head(Offset{free}).bytes : free + 16;
         i.set(s.address_offset, i.in_place() ? between : between / 16 | std::uint64_t{5} << 40);
         if (i.in_place()) i.set(s.word_offset, std::uint64_t{12345});
       },
       {.dropped = 1, .faults = 1}},
  };
}

class Crash : public ::testing::TestWithParam<std::pair<Layout, bool>> {
 protected:
  Contents const contents_ = acknowledged(GetParam().second, 40);
  Image const image_ = open_pool(GetParam().first, GetParam().second, contents_);
};

TEST_P(Crash, LeavesWhatTheTableSays) {
  for (auto const& lines : {killed_in_a_batch(), killed_in_a_growth(), damaged_by_no_crash()}) {
    for (Line const& line : lines) {
      Image image = image_;
      line.damage(image);
      EXPECT_EQ(judge(image, contents_, line.verdict), "") << line.name;
    }
  }
}

TEST_P(Crash, InsideAnInsertInPlaceDropsTheSlot) {
  if (GetParam().first == Layout::word) GTEST_SKIP() << "layout word publishes by one store";
  Image image = image_;
  image.set(any_free(image).word_offset, std::uint64_t{1});
  EXPECT_EQ(judge(image, contents_, {.dropped = 1}), "");
}

// A slot that says another fingerprint than its key's is found by no get: recovery, which reads no
// keys, cannot tell.
TEST_P(Crash, VerifyNamesASlotWhoseFingerprintIsNotItsKeys) {
  Image image = image_;
  image.flip(image.slot_of(contents_.begin()->first).word_offset + 7);
  PoolPath path;
  write_file(path.str(), image.bytes);
  auto store = Store::open(path.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  auto report = store->verify();
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->fault_count, 1u);
  EXPECT_NE(report->faults[0].find("fingerprint does not match the key"), std::string::npos)
      << report->faults[0];
}

// An atomic batch that would compute with a damaged value is refused, and what else it had written
// is undone.
TEST_P(Crash, AnAtomicBatchThatMeetsADamagedRecordTakesNoEffect) {
  if (GetParam().first == Layout::in_place) return;  // which has no atomic batches
  auto const sound = contents_.begin(), damaged = std::next(sound);
  Image image = image_;
  image.flip(image.value_offset(image.slot_of(damaged->first)));
  PoolPath path;
  write_file(path.str(), image.bytes);
  auto store = Store::open(path.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  Strings keys(store->stats().key_bytes), values(store->stats().value_bytes);
  for (auto const& [key, value] : {*sound, *damaged}) {
    keys.add(key);
    values.add(std::string(value.size(), '!'));
  }
  std::vector<OpKind> const kinds{OpKind::put, OpKind::update};
  std::vector<KeyStatus> statuses(2);
  CallOptions how;
  how.atomic = true;
  Status const s = store->apply({keys.column(), kinds, values.column(), Rmw::add, Element::u8, {}},
                                statuses, how);
  EXPECT_EQ(s.code(), Code::corrupt) << s.message();
  EXPECT_EQ(statuses[1], KeyStatus::corrupt);
  EXPECT_EQ(get_all(*store, {sound->first})[0].value, sound->second);
}

// Numbers of batches, which records carry, are leased by the root before they are used: none comes
// twice.
TEST_P(Crash, ABatchAfterAKillGoesOnAboveTheNumbersBefore) {
  std::uint64_t const before = leased(image_);
  EXPECT_GT(before, 0u) << "some batches were written";
  PoolPath path;
  write_file(path.str(), image_.bytes);
  auto store = Store::open(path.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE(put_all(*store, Contents{*contents_.begin()}).ok());
  EXPECT_GT(leased(Image(read_file(path.str()))), before);
}

// The newest root lost, the one before counts: here they differ only in their batch lease and
// marks.
TEST_P(Crash, WhileWritingTheRootFallsBackToTheOtherCopy) {
  Image image = image_;
  image.publish(image.root());
  tear_root(image, true);
  EXPECT_EQ(judge(image, contents_, {}), "");
}

TEST_P(Crash, RefusesAPoolWithoutRootOrHeader) {
  Image no_root = image_;
  tear_root(no_root, true);
  tear_root(no_root, false);
  Image no_header = image_;
  no_header.set(pm::kHeaderOffset, pm::PoolHeader{});
  for (bool const root : {true, false}) {
    Image const& image = root ? no_root : no_header;
    PoolPath path;
    write_file(path.str(), image.bytes);
    auto store = Store::open(path.str());
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.status().code(), Code::corrupt) << store.status().message();
    EXPECT_EQ(read_file(path.str()), image.bytes) << "a refused pool was changed";
    // Without its header nothing says that it was a pool.
    auto again = small(GetParam().first, GetParam().second);
    again.file.overwrite = true;
    again.file.force = !root;
    EXPECT_TRUE(Store::create(path.str(), again).ok());
  }
}

// A heap superblock whose header is lost takes its records along: each is counted, named, not
// followed.
TEST_P(Crash, CountsTheRecordsOfATornSuperblock) {
  Image image = image_;
  std::uint64_t const superblock = image.header().superblock_bytes;
  std::uint64_t const heap =
      image.record(image.slot_of(contents_.begin()->first)) / superblock * superblock;
  image.flip(heap + 4);
  Contents left;
  std::uint64_t lost = 0;
  for (auto const& s : image.slots()) {
    if (!image.taken(s)) continue;
    bool const gone = image.record(s) / superblock * superblock == heap;
    if (gone)
      ++lost;
    else
      left[image.key(s)] = contents_.at(image.key(s));
  }
  ASSERT_GT(lost, 0u);
  PoolPath path;
  write_file(path.str(), image.bytes);
  auto store = Store::open(path.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(examine(*store, left, {.dropped = lost, .faults = lost}), "");
}

// A kill of a live process, and not by hand.
TEST_P(Crash, OfAProcessThatLeftWithoutClosing) {
  PoolPath path;
  pid_t const child = ::fork();
  if (child == 0) {
    auto store = Store::create(path.str(), small(GetParam().first, GetParam().second));
    bool const ok = store.ok() && put_all(*store, contents_).ok();
    ::_exit(ok ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(judge(Image(read_file(path.str())), contents_, {}), "");
}

TEST_P(Crash, SecondOpenAfterACloseIsClean) {
  PoolPath path;
  write_file(path.str(), image_.bytes);
  ASSERT_TRUE(Store::open(path.str()).value().close().ok());
  auto store = Store::open(path.str(), {.read_only = true});
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(examine(*store, contents_, {.clean = true}), "");
}

// The canary: each of these must be found wrong, or the harness is asleep.
TEST_P(Crash, CanaryTheHarnessSeesALostRecord) {
  Image lost = image_;
  lost.clear_slot(lost.slot_of(contents_.begin()->first));
  EXPECT_NE(judge(lost, contents_, {}), "");
  Image rotten = image_;
  rotten.flip(rotten.value_offset(rotten.slot_of(contents_.begin()->first)));
  EXPECT_NE(judge(rotten, contents_, {}), "");
  Image retired = image_;  // a resize that forgot its retiring level
  half_resize(retired, [](auto) { return false; });
  pm::Root root = retired.root();
  auto const levels = retired.levels().levels;
  gphash::put_levels(root, std::span(levels).first(levels.size() - 1), false);
  retired.publish(root);
  EXPECT_NE(judge(retired, contents_, {}), "");
  Image unchanged = image_;
  EXPECT_NE(judge(unchanged, contents_, {.duplicates = 1}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Pools, Crash,
    ::testing::Values(std::pair{Layout::word, false}, std::pair{Layout::word, true},
                      std::pair{Layout::in_place, false}, std::pair{Layout::in_place, true}),
    [](auto const& one) {
      return std::string(one.param.first == Layout::word ? "word" : "in_place") +
             (one.param.second ? "_variable" : "_fixed");
    });

}  // namespace
}  // namespace perdure::test
