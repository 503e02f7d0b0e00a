// Pools that were closed in order, and one or two bits of them flipped: every call answers what it
// would have answered, or opening, a get, a scan or `verify` says that the pool is damaged. And it
// goes on saying so: opening such a pool for writing, and closing it, makes nothing look whole. A
// repair that was asked for names what it did until somebody acknowledges that. Which bytes: a
// sample of each kind of word; in the tests whose names say InEvery, all but those of gaps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <iostream>
#include <random>
#include <set>

#include "../dash/dash_image.hpp"

namespace perdure::test {
namespace {

struct Kind {
  char const* name;
  Index index;
  Layout layout;
  bool variable;
  std::uint32_t value_bytes = 16;
  [[nodiscard]] bool dash() const { return index != Index::gphash; }
};
constexpr Kind kKinds[] = {
    {"WordFixed", Index::gphash, Layout::word, false},
    {"WordVariable", Index::gphash, Layout::word, true},
    {"InPlaceFixed", Index::gphash, Layout::in_place, false},
    {"InPlaceVariable", Index::gphash, Layout::in_place, true},
    {"ExtendibleSlots", Index::dash_eh, Layout::word, false, 8},
    {"ExtendibleFixed", Index::dash_eh, Layout::word, false},
    {"ExtendibleVariable", Index::dash_eh, Layout::word, true},
    {"LinearSlots", Index::dash_lh, Layout::word, false, 8},
    {"LinearFixed", Index::dash_lh, Layout::word, false},
    {"LinearVariable", Index::dash_lh, Layout::word, true},
};
constexpr std::uint64_t kRecords = 40, kAbsent = 40;

struct Flip {
  std::uint64_t byte;
  unsigned bit;
};

/// What a stranger sees of a pool.
struct Seen {
  bool refused = false;  // to open
  bool told = false;  // somebody said that it is damaged
  bool right = true;  // all that was answered is what it was
};

class Flips : public ::testing::TestWithParam<Kind> {
 protected:
  static constexpr std::uint64_t kPage = 4096;

  Flips() {
    Kind const& kind = GetParam();
    CreateOptions create;
    create.key_bytes = kind.variable ? 0 : 8;
    create.value_bytes = kind.variable ? 0 : kind.value_bytes;
    create.layout = kind.layout;
    create.index = kind.index;
    create.expected_records = kind.dash() ? 1 : kRecords;
    auto store = Store::create(path_.str(), create, alone());
    must(store.status());
    for (std::uint64_t i = 0; i < kRecords; ++i) contents_[key(i)] = value(i);
    must(put_all(*store, contents_));
    // Some records change once more, so that words have been overwritten, and records have been
    // freed.
    Contents again;
    for (std::uint64_t i = 0; i < kRecords; i += 5)
      again[key(i)] = contents_[key(i)] = value(i + 1000);
    must(put_all(*store, again));
    must(store->close());
    store = Store::open(path_.str(), alone());  // and once more, for a pool that was opened before
    must(store.status());
    must(store->close());
    whole_.emplace(read_file(path_.str()));
    for (auto const& [k, v] : contents_) keys_.push_back(k);
    for (std::uint64_t i = 0; i < kAbsent; ++i) keys_.push_back(key(kRecords + i));
    for (std::uint64_t at = 0; at < whole_->bytes.size(); at += kPage) {
      auto const page = std::span(whole_->bytes).subspan(at, kPage);
      bool const zero =
          std::all_of(page.begin(), page.end(), [](std::byte b) { return b == std::byte{0}; });
      if (!zero || at < 8 * kPage) pages_.push_back(at);
    }
    fd_ = ::open(path_.str().c_str(), O_RDWR | O_CLOEXEC);
  }
  ~Flips() override { ::close(fd_); }

  static void must(Status const& s) {
    if (!s.ok()) throw std::runtime_error(s.message());
  }
  static OpenOptions alone() {
    OpenOptions options;
    options.threads = 1;
    return options;
  }
  [[nodiscard]] static std::string key(std::uint64_t i) {
    return GetParam().variable ? "key-" + std::to_string(i * i) : u64_text(i * 0x9e3779b97f4a7c15u);
  }
  [[nodiscard]] static std::string value(std::uint64_t i) {
    if (GetParam().variable) return std::string(i % 37, static_cast<char>('a' + i % 26));
    return (u64_text(i) + u64_text(~i)).substr(0, GetParam().value_bytes);
  }

  // --- Bytes worth flipping
  // -------------------------------------------------------------------------------------

  using Places = std::vector<std::uint64_t>;
  static void add_bytes(Places& to, std::uint64_t at, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes; ++i) to.push_back(at + i);
  }
  static void add_words(Places& to, Places const& words) {
    for (std::uint64_t const at : words) add_bytes(to, at, 8);
  }
  [[nodiscard]] std::vector<Places> groups() const {
    std::vector<Places> all(1);
    add_bytes(all[0], 0, sizeof(pm::PoolHeader));
    for (std::uint64_t const root : pm::kRootOffset)
      add_bytes(all[0], root, whole_->root_bytes(root));
    add_bytes(all.emplace_back(), pm::kEpochOffset, 8);
    add_bytes(all.emplace_back(), pm::kClosingNoteOffset, sizeof(pm::ClosingNote));
    add_bytes(all.emplace_back(), pm::kRepairNoteOffset, sizeof(pm::RepairNote));
    Places& headers = all.emplace_back();
    std::uint64_t const superblock = whole_->header().superblock_bytes;
    for (std::uint64_t at = superblock; at < whole_->bytes.size(); at += superblock)
      add_bytes(headers, at, 64);
    GetParam().dash() ? add_dash(all) : add_gphash(all);
    Places& rest = all.emplace_back();
    for (std::uint64_t const page : pages_) add_bytes(rest, page, kPage);
    std::erase_if(all, [](Places const& group) { return group.empty(); });
    return all;
  }
  /// Words of all groups but the last, and of lines that are not zeros: the rest are gaps, of which
  /// the sample has some.
  [[nodiscard]] std::vector<std::uint64_t> words() const {
    constexpr std::uint64_t kLine = 64;
    std::vector<Places> all = groups();
    all.pop_back();
    std::set<std::uint64_t> found;
    for (Places const& group : all)
      for (std::uint64_t const at : group) found.insert(at / 8 * 8);
    for (std::uint64_t const page : pages_) {
      for (std::uint64_t at = page; at < page + kPage; at += kLine) {
        auto const line = std::span(whole_->bytes).subspan(at, kLine);
        if (std::all_of(line.begin(), line.end(), [](std::byte b) { return b == std::byte{0}; }))
          continue;
        for (std::uint64_t word = at; word < at + kLine; word += 8) found.insert(word);
      }
    }
    return {found.begin(), found.end()};
  }
  void add_gphash(std::vector<Places>& all) const {
    Places taken, empty, addresses, keys, records;
    for (auto const& slot : whole_->slots()) {
      add_bytes(whole_->taken(slot) ? taken : empty, slot.word_offset, 8);
      if (!whole_->taken(slot)) continue;
      if (slot.address_offset != slot.word_offset) add_bytes(addresses, slot.address_offset, 8);
      if (slot.key_offset != 0) add_bytes(keys, slot.key_offset, 8);
      add_bytes(records, whole_->record(slot), 16);
      pm::RecordShape const shape(whole_->header());
      if (shape.split()) add_bytes(records, shape.head(Offset{whole_->record(slot)}).bytes, 16);
    }
    for (Places& group :
         {std::ref(taken), std::ref(empty), std::ref(addresses), std::ref(keys), std::ref(records)})
      all.push_back(std::move(group));
  }
  void add_dash(std::vector<Places>& all) const {
    DashWords const words(*whole_);
    add_bytes(all.emplace_back(), whole_->dash_index(), 64);
    for (auto const* const some : {&words.index, &words.directory, &words.headers, &words.states,
                                   &words.hints, &words.slots, &words.records, &words.links})
      add_words(all.emplace_back(), *some);
  }

  // --- Looking
  // -----------------------------------------------------------------------------------------------

  void write_at(std::uint64_t at, std::span<std::byte const> bytes) const {
    ASSERT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(bytes.size()));
  }
  void restore() const {
    ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(whole_->bytes.size())), 0);
    for (std::uint64_t const page : pages_)
      write_at(page, std::span(whole_->bytes).subspan(page, kPage));
  }
  void flip(std::span<Flip const> flips) const {
    Image image = *whole_;
    for (Flip const& f : flips) image.flip(f.byte, f.bit);
    for (Flip const& f : flips) write_at(f.byte, std::span(image.bytes).subspan(f.byte, 1));
  }
  void flip_back(std::span<Flip const> flips) const {
    for (Flip const& f : flips) write_at(f.byte, std::span(whole_->bytes).subspan(f.byte, 1));
  }
  [[nodiscard]] bool is_whole() const {
    Bytes page(kPage);
    bool same = true;
    for (std::uint64_t const at : pages_) {
      same &=
          ::pread(fd_, page.data(), kPage, static_cast<off_t>(at)) == static_cast<ssize_t>(kPage);
      same &= std::ranges::equal(page, std::span(whole_->bytes).subspan(at, kPage));
    }
    return same;
  }
  void note(Seen& seen, Status const& s) const {
    if (s.ok()) return;
    seen.told = true;
    EXPECT_EQ(s.code(), Code::corrupt) << s.message();
    EXPECT_NE(s.message().find(path_.str()), std::string::npos) << s.message();
    bool const way_out = s.message().find("restore") != std::string::npos ||
                         s.message().find("export") != std::string::npos;  // of another version
    EXPECT_TRUE(way_out) << s.message();
  }
  void get(Store& store, Seen& seen) const {
    Strings column(GetParam().variable ? 0 : 8);
    for (std::string const& k : keys_) column.add(k);
    std::vector<KeyStatus> statuses(keys_.size());
    auto values = store.get_variable(column.column(), statuses);
    note(seen, values.status());
    if (!values) return;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      seen.told |= statuses[i] == KeyStatus::corrupt;
      auto const there = contents_.find(keys_[i]);
      seen.right &=
          statuses[i] == (there != contents_.end() ? KeyStatus::ok : KeyStatus::not_found);
      if (statuses[i] == KeyStatus::ok && there != contents_.end())
        seen.right &= text_at(*values, i) == there->second;
    }
  }
  void scan(Store& store, Seen& seen) const {
    Contents found;
    for (ScanCursor cursor; !cursor.done;) {
      auto page = store.scan(cursor, 1000);
      note(seen, page.status());
      if (!page) return;
      for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i)
        seen.right &= found.emplace(text_at(page->keys, i), text_at(page->values, i)).second;
      cursor = page->next;
    }
    seen.right &= found == contents_;
  }
  [[nodiscard]] Seen look(OpenOptions const& options) const {
    Seen seen;
    auto store = Store::open(path_.str(), options);
    if (!store) {
      note(seen, store.status());
      seen.refused = true;
      return seen;
    }
    get(*store, seen);
    scan(*store, seen);
    seen.right &= store->stats().records == kRecords;
    auto report = store->verify();
    note(seen, report.status());
    if (report) seen.told |= report->fault_count != 0;
    if (report) seen.right &= report->records == kRecords;
    note(seen, store->close());
    return seen;
  }
  [[nodiscard]] static std::string text(std::span<Flip const> flips) {
    std::string text;
    for (Flip const& f : flips)
      text += "bit " + std::to_string(f.bit) + " of byte " + std::to_string(f.byte) + "; ";
    return text;
  }
  void examine(std::span<Flip const> flips) {
    SCOPED_TRACE(text(flips));
    OpenOptions reading = alone();
    reading.read_only = true;
    flip(flips);
    Seen const read = look(reading);
    EXPECT_TRUE(read.told || read.right) << "read-only, and nobody says so";
    Seen const written = look(alone());
    EXPECT_TRUE(written.told || written.right) << "nobody says so";
    if (written.refused) {
      flip_back(flips);
      EXPECT_TRUE(is_whole()) << "a refused pool was changed";
      flip(flips);
    }
    silent_ += (!read.told && !read.right) || (!written.told && !written.right);
    if (written.told) {
      Seen const later = look(reading);
      EXPECT_TRUE(later.told || later.right) << "opening and closing it made it look whole";
      silent_ += !later.told && !later.right;
      repair(flips.size() == 1);
    }
    restore();
  }
  /// A repair mends, or refuses; what it did is a fault until it is acknowledged. `whole`: then
  /// nothing is wrong any more; else a record by itself may be damaged.
  void repair(bool whole) {
    OpenOptions repairing = alone();
    repairing.repair = true;
    auto store = Store::open(path_.str(), repairing);
    if (!store) {
      EXPECT_EQ(store.status().code(), Code::corrupt) << store.status().message();
      return;
    }
    auto found = store->verify();
    ASSERT_TRUE(found.ok());
    if (!store->recovery().repaired)
      return static_cast<void>(store->close());  // a record alone is damaged
    bool named = store->recovery().dropped != 0;
    for (std::string const& line : store->recovery().changes)
      named |= line.find("may have changed") != std::string::npos;
    EXPECT_FALSE(store->recovery().changes.empty());
    EXPECT_NE(found->fault_count, 0u) << "a repair that nobody has acknowledged";
    must(store->close());
    ++repaired_;
    store = Store::open(path_.str(), alone());
    ASSERT_TRUE(store.ok()) << store.status().message();
    auto still = store->verify();
    ASSERT_TRUE(still.ok());
    EXPECT_NE(still->fault_count, 0u) << "a repair that nobody has acknowledged";
    must(store->acknowledge_repair());
    must(store->close());
    Seen const after = look(alone());
    EXPECT_FALSE(after.refused);
    EXPECT_TRUE(after.right || after.told || named)
        << "nothing was dropped, and nobody says what is wrong";
    EXPECT_FALSE(after.told && whole) << "acknowledged, and still not sound";
    mended_ += after.right;
  }

  PoolPath path_;
  Contents contents_;
  std::vector<std::string> keys_;
  std::optional<Image> whole_;
  Places pages_;
  int fd_ = -1;
  std::uint64_t silent_ = 0, repaired_ = 0, mended_ = 0;
  std::mt19937_64 draw_{20261124u +
                        static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed())};
};

class FlipsOfGphash : public Flips {};
class FlipsOfDash : public Flips {};
class FlipsOfInPlace : public Flips {};
class FlipsOfWords : public Flips {};

TEST_P(Flips, OfOneBitAreTold) {
  for (Places const& group : groups()) {
    std::size_t const n = std::min<std::size_t>(group.size(), 12);
    for (std::size_t i = 0; i < n && !HasFailure(); ++i) {
      Flip const one[] = {{group[draw_() % group.size()], static_cast<unsigned>(draw_() % 8)}};
      examine(one);
    }
  }
  // Most of what one bit does is undone: the slots' and headers' sums say which it was.
  std::cout << "repairs " << repaired_ << ", nothing lost in " << mended_ << "\n";
  EXPECT_GT(repaired_, 0u);
  EXPECT_GE(mended_ * 4, repaired_ * 3);
}

/// Of one word, and of any two that the index or a record is made of.
TEST_P(Flips, OfTwoBitsAreTold) {
  std::vector<Places> const all = groups();
  for (std::size_t i = 0; i < 50 && !HasFailure(); ++i) {
    auto const some = [&] {
      Places const& group = all[draw_() % all.size()];
      return group[draw_() % group.size()];
    };
    std::uint64_t const a = some(), near = a / 8 * 8 + draw_() % 8, b = i % 2 == 0 ? near : some();
    unsigned const x = static_cast<unsigned>(draw_() % 8), y = static_cast<unsigned>(draw_() % 8);
    if (a == b && x == y) continue;
    Flip const two[] = {{a, x}, {b, y}};
    examine(two);
  }
}

/// A damaged header, or a damaged note of the last close, makes a repair look at all slots. It
/// exchanges no damaged record for an old version of it, one bit of an offset away, without saying
/// so.
TEST_P(FlipsOfGphash, OfARecordAndWhatMakesARepairLookAreTold) {
  std::uint64_t const superblock = whole_->header().superblock_bytes;
  std::set<std::uint64_t> homes;  // superblocks of records
  for (auto const& slot : whole_->slots())
    if (whole_->taken(slot)) homes.insert(whole_->record(slot) / superblock * superblock);
  for (auto const& slot : whole_->slots()) {
    if (!whole_->taken(slot) || HasFailure()) continue;
    std::uint64_t const record = whole_->record(slot), own = record / superblock * superblock;
    for (std::uint64_t const header : homes) {
      Flip const two[] = {{header + 27, 7}, {record + 6 + (header == own ? 2 : 0), 0}};
      examine(two);
    }
    for (std::uint64_t const of_record : {record + 6, slot.word_offset, slot.word_offset + 1}) {
      Flip const two[] = {{pm::kClosingNoteOffset + 63, 1}, {of_record, 7}};
      examine(two);
    }
  }
}

/// However many bits of it are set, a word is known to have been none by the sum. Then all other
/// words are known to be right, and no damaged record is dropped.
TEST_P(FlipsOfWords, OfAnEmptySlotAndARecordCostNoKey) {
  std::vector<Image::Slot> taken, empty;
  for (auto const& slot : whole_->slots()) (whole_->taken(slot) ? taken : empty).push_back(slot);
  for (int i = 0; i < 8 && !HasFailure(); ++i) {
    std::vector<Flip> flips{{whole_->record(taken[draw_() % taken.size()]) + 6, 7}};
    std::uint64_t const word = empty[draw_() % empty.size()].word_offset;
    for (std::uint64_t byte = word; byte < word + 8; ++byte)
      flips.push_back({byte, static_cast<unsigned>(draw_() % 8)});
    flip(flips);
    OpenOptions repairing = alone();
    repairing.repair = true;
    auto store = Store::open(path_.str(), repairing);
    must(store.status());
    EXPECT_EQ(store->recovery().dropped, 0u) << text(flips);
    EXPECT_EQ(store->stats().records, kRecords);
    must(store->close());
    restore();
  }
}

/// A key in a slot is put right by its state. Then the sum says which record another slot led to:
/// records of `in_place` do not say whose they are, and an older version may be one bit away.
TEST_P(FlipsOfInPlace, OfAKeyAndAnotherSlotsAddressArePutRight) {
  std::vector<Image::Slot> taken;
  for (auto const& slot : whole_->slots())
    if (whole_->taken(slot)) taken.push_back(slot);
  std::uint64_t examined = 0;
  for (std::size_t i = 0; i + 1 < taken.size() && !HasFailure(); ++i) {
    for (unsigned const bit : {4u, 5u, 6u}) {
      Flip const two[] = {{taken[i].address_offset, bit}, {taken[i + 1].key_offset + i % 8, bit}};
      examine(two);
      EXPECT_EQ(mended_, ++examined);
    }
  }
}

/// The note of the last close is damaged, but there was one: so segments have their sums, by which
/// a slot is put right.
TEST_P(FlipsOfDash, OfTheNoteAndASlotArePutRight) {
  DashWords const words(*whole_);
  std::uint64_t examined = 0;
  for (std::uint64_t const slot : words.slots) {
    if (HasFailure()) return;
    Flip const two[] = {{pm::kClosingNoteOffset + 51, 7}, {slot, 0}};
    examine(two);
    EXPECT_EQ(mended_, ++examined) << "byte " << slot;
  }
}

TEST_P(Flips, OfOneBitInEveryByteAreTold) {
  for (std::uint64_t const word : words())
    for (std::uint64_t at = word; at < word + 8 && !HasFailure(); ++at) {
      Flip const one[] = {{at, static_cast<unsigned>((at * 5 + at / 8) % 8)}};
      examine(one);
    }
}

TEST_P(Flips, OfTwoBitsInEveryWordAreTold) {
  for (std::uint64_t const word : words()) {
    if (HasFailure()) break;
    Flip const two[] = {{word + draw_() % 8, static_cast<unsigned>(draw_() % 4)},
                        {word + draw_() % 8, static_cast<unsigned>(4 + draw_() % 4)}};
    examine(two);
  }
}

auto const kName = [](auto const& one) { return std::string(one.param.name); };
INSTANTIATE_TEST_SUITE_P(Pools, Flips, ::testing::ValuesIn(kKinds), kName);
INSTANTIATE_TEST_SUITE_P(Pools, FlipsOfGphash, ::testing::ValuesIn(std::span(kKinds).first(4)),
                         kName);
INSTANTIATE_TEST_SUITE_P(Pools, FlipsOfWords, ::testing::ValuesIn(std::span(kKinds).first(2)),
                         kName);
INSTANTIATE_TEST_SUITE_P(Pools, FlipsOfInPlace,
                         ::testing::ValuesIn(std::span(kKinds).subspan(2, 1)), kName);
INSTANTIATE_TEST_SUITE_P(Pools, FlipsOfDash, ::testing::ValuesIn(std::span(kKinds).subspan(4)),
                         kName);

}  // namespace
}  // namespace perdure::test
