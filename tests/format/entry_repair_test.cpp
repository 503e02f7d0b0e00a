// Pools of layout `log` that are damaged, and repaired: one flipped bit of anything but the pool's
// header, and of values, costs nothing; whatever else is damaged, a repair ends, no key gets
// another's value, and an older one of its own only where the report says so.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "store/gphash/device_access.hpp"
#include "support/held_records.hpp"
#include "support/store_driver.hpp"
#include "support/whole_file.hpp"
#include "wal/entry_damage.hpp"

namespace perdure::test {
namespace {

struct Sizes {
  char const* name;
  std::uint32_t key_bytes, value_bytes;
};
constexpr Sizes kSizes[] = {{"K8V16", 8, 16}, {"K16V16", 16, 16}, {"K28V16", 28, 16},
                            {"K8Any", 8, 0},  {"K24Any", 24, 0},  {"K40V16", 40, 16},
                            {"AnyAny", 0, 0}};
void PrintTo(Sizes const& sizes, std::ostream* out) { *out << sizes.name; }

using Contents = std::map<Bytes, Bytes>;

class EntryRepairs : public ::testing::TestWithParam<Sizes> {
 protected:
  static constexpr std::uint64_t kKeys = 40;

  EntryRepairs() {
    config_.layout = Layout::log;
    config_.key_bytes = GetParam().key_bytes;
    config_.value_bytes = GetParam().value_bytes;
    auto store = Store::create(path_, config_.create(kKeys), config_.open());
    must(store.status());
    for (std::uint64_t batch = 0; batch < 4; ++batch) put_each(*store, batch + 1, batch);
    erase(*store, {1, 7, 13});
    auto transaction = store->begin({1000, true});
    must(transaction.status());
    put_each(*store, 3, 10, &*transaction);
    erase(*store, {6}, &*transaction);
    must(transaction->commit());
    if (config_.key_bytes != 0 && config_.value_bytes != 0) in_a_session(*store, 30);
    put_each(*store, 5, 20);
    copy_as_if_killed(path_, scratch_.file("killed"));
    must(store->close());
    whole_ = whole_file(path_);
    fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~EntryRepairs() override { ::close(fd_); }

  static void must(Status const& s) {
    if (!s.ok()) throw std::runtime_error(s.message());
  }
  void put_each(Store& store, std::uint64_t step, std::uint64_t version,
                Transaction* transaction = nullptr) {
    std::vector<Bytes> keys, values;
    for (std::uint64_t k = 0; k < kKeys; k += step) {
      keys.push_back(config_.key(k));
      values.push_back(config_.value(k, version));
      held_[keys.back()] = values.back();
      had_[keys.back()].insert(values.back());
    }
    CallOptions how;
    how.transaction = transaction;
    must(store.put(Packed(keys, config_.key_bytes).column(),
                   Packed(values, config_.value_bytes).column(), {}, how));
  }
  /// Puts every seventh key, and erases one of those; some cells of the session stay empty.
  void in_a_session(Store& store, std::uint64_t version) {
    std::vector<Bytes> keys, values;
    std::vector<OpKind> kinds;
    for (std::uint64_t k = 0; k < kKeys; k += 7) {
      keys.push_back(config_.key(k));
      values.push_back(config_.value(k, version));
      kinds.push_back(OpKind::put);
      held_[keys.back()] = values.back();
      had_[keys.back()].insert(values.back());
    }
    held_.erase(keys.back());
    keys.push_back(keys.back());
    values.push_back(values.back());
    kinds.push_back(OpKind::erase);
    auto session = DeviceAccess::open(store, {10, 3});
    must(session.status());
    Packed const k(keys, config_.key_bytes), v(values, config_.value_bytes);
    std::vector<std::byte> out(keys.size() * config_.value_bytes);
    std::vector<KeyStatus> statuses(keys.size());
    std::vector<std::uint64_t> began(keys.size()), ended(keys.size());
    must(DeviceAccess::run(*session,
                           {k.column(),
                            v.column(),
                            {out.data(), config_.value_bytes, keys.size(), MemorySpace::host},
                            kinds,
                            false,
                            1,
                            statuses,
                            began,
                            ended,
                            nullptr}));
    must(session->end());
  }
  void erase(Store& store, std::vector<std::uint64_t> const& numbers,
             Transaction* transaction = nullptr) {
    std::vector<Bytes> keys;
    for (std::uint64_t const k : numbers) {
      keys.push_back(config_.key(k));
      held_.erase(keys.back());
    }
    CallOptions how;
    how.transaction = transaction;
    must(store.erase(Packed(keys, config_.key_bytes).column(), {}, how));
  }

  void write(std::string const& bytes) const {
    ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes.size())), 0);
    ASSERT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  static void flip(std::string& bytes, std::size_t byte, unsigned bit) {
    bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
  }
  /// Superblocks that begin with that magic.
  [[nodiscard]] std::vector<std::size_t> superblocks(std::uint32_t magic) const {
    std::vector<std::size_t> found;
    for (std::size_t at = pm::kMinSuperblock; at < whole_.size(); at += pm::kMinSuperblock)
      if (std::memcmp(&whole_[at], &magic, sizeof magic) == 0) found.push_back(at);
    return found;
  }
  [[nodiscard]] std::size_t segment() const { return superblocks(wal::kSegmentMagic).at(0); }
  /// Behind the segment's last byte that is not zero.
  [[nodiscard]] std::size_t end_of_log() const {
    std::size_t end = segment() + pm::kMinSuperblock;
    while (whole_[end - 1] == 0) --end;
    return (end + 15) / 16 * 16;
  }
  /// Everything in use but the pool's header, values and the undo log.
  [[nodiscard]] std::vector<std::size_t> words() const {
    std::vector<std::size_t> all;
    auto const add = [&](std::size_t from, std::size_t bytes) {
      for (std::size_t at = from; at < from + bytes; at += 8) all.push_back(at);
    };
    for (std::size_t const root : pm::kRootOffset) add(root, 32 + 4 * 32);
    add(pm::kEpochOffset, 8);
    add(pm::kClosingNoteOffset, sizeof(pm::ClosingNote));
    add(segment(), end_of_log() - segment());
    for (std::size_t const at : superblocks(pm::kSuperblockMagic)) add(at, 64);
    return all;
  }

  [[nodiscard]] Contents contents(Store& store) const { return scan_all(store, 1000); }
  ::testing::AssertionResult is_right(Store& store) {
    if (!right_) right_.emplace(held_);
    return right_->are_those_of(store);
  }
  [[nodiscard]] OpenOptions repairing() const {
    OpenOptions options = config_.open();
    options.repair = true;
    return options;
  }
  /// Refused, and left alone; or nothing that is asked for is damaged.
  void expect_told_or_right(std::string const& damaged) {
    auto store = Store::open(path_, config_.open());
    if (store) {
      EXPECT_TRUE(is_right(*store));
      return must(store->close());
    }
    EXPECT_EQ(store.status().code(), Code::corrupt) << store.status().message();
    EXPECT_NE(store.status().message().find("restore"), std::string::npos)
        << store.status().message();
    EXPECT_EQ(whole_file(path_), damaged) << "a refused pool was changed";
    ++refused_;
  }
  void expect_nothing_lost() {
    auto store = Store::open(path_, repairing());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(is_right(*store));
    EXPECT_EQ(store->recovery().dropped, 0u);
    bool const repaired = store->recovery().repaired;
    auto found = store->verify();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->fault_count != 0, repaired);
    must(store->acknowledge_repair());
    must(store->close());
    expect_sound();
  }
  /// As an opening finds it that was not asked to repair.
  void expect_sound() {
    auto store = Store::open(path_, config_.open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(is_right(*store));
    auto found = store->verify();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->fault_count, 0u) << (found->faults.empty() ? "" : found->faults[0]);
    must(store->close());
  }
  void expect_mended(std::size_t byte, unsigned bit) {
    SCOPED_TRACE("bit " + std::to_string(bit) + " of byte " + std::to_string(byte));
    std::string damaged = whole_;
    flip(damaged, byte, bit);
    write(damaged);
    int const before = refused_;
    expect_told_or_right(damaged);
    if (refused_ == before) write(damaged);
    expect_nothing_lost();
  }

  /// The pool with some part of its log damaged beyond a bit or two.
  [[nodiscard]] std::string spoilt(std::size_t how) {
    std::string bytes = whole_;
    std::size_t const from = segment() + (how % 7 == 0 ? 0 : sizeof(wal::SegmentHeader)),
                      size = end_of_log() - from;
    std::size_t const at = from + draw_() % size;
    switch (how % 4) {
      case 0:
        for (std::size_t i = 0, n = 3 + draw_() % 30; i < n; ++i)
          flip(bytes, from + draw_() % size, static_cast<unsigned>(draw_() % 8));
        break;
      case 1:
        for (std::size_t i = 0, n = 3 + draw_() % 6; i < n; ++i)
          flip(bytes, std::min(at + draw_() % 16, from + size - 1),
               static_cast<unsigned>(draw_() % 8));
        break;
      case 2:
        std::fill_n(&bytes[at / 64 * 64], std::min<std::size_t>(64, from + size - at), 0);
        break;
      default:
        for (std::size_t i = at; i < std::min(at + 200, from + size); ++i)
          bytes[i] = static_cast<char>(draw_());
    }
    return bytes;
  }
  /// A repair that says what it did, and leaves no key another's value. How many records have what
  /// they had; nothing where it refused.
  std::optional<std::size_t> expect_told() {
    std::string const damaged = whole_file(path_);
    auto store = Store::open(path_, repairing());
    if (!store) {
      EXPECT_EQ(store.status().code(), Code::corrupt) << store.status().message();
      EXPECT_EQ(whole_file(path_), damaged) << "a refused repair changed the pool";
      return std::nullopt;
    }
    Contents const left = contents(*store);
    std::size_t same = 0;
    for (auto const& [key, value] : left) {
      auto const had = had_.find(key);
      if (had == had_.end()) {
        ADD_FAILURE() << "a key that was never there";
        continue;
      }
      EXPECT_TRUE(had->second.contains(value)) << "a value that the key never had";
      auto const now = held_.find(key);
      same += now != held_.end() && now->second == value ? 1 : 0;
    }
    if (left != held_) {
      bool said = false;
      for (std::string const& line : store->recovery().changes)
        said |= line.find("may have") != std::string::npos;
      EXPECT_TRUE(said) << "records differ, and nobody says so";
    }
    must(store->acknowledge_repair());
    must(store->close());
    store = Store::open(path_, config_.open());
    EXPECT_TRUE(store.ok()) << store.status().message();
    if (!store) return same;
    EXPECT_EQ(contents(*store), left);
    auto found = store->verify();
    EXPECT_TRUE(found.ok() && found->fault_count == 0)
        << (found.ok() && !found->faults.empty() ? found->faults[0] : "");
    must(store->close());
    return same;
  }
  /// The file with all words of the log that a repair changes, and nothing else; empty where there
  /// is nothing to repair, or no way to.
  [[nodiscard]] std::string after_words_of_repair() {
    {
      auto pool = pm::Pool::open(path_, {false, false, false});
      must(pool.status());
      exec::Workers workers(1);
      wal::EntryDamage damage(*pool, workers,
                              [](std::byte const*) { return wal::EntryDamage::Word::doubtful; });
      if (!damage.look().ok() || damage.lines().empty()) return {};
      pm::Repairs(*pool).add(damage.lines());
      damage.apply();
      pool->close();
    }
    return whole_file(path_);
  }

  ScratchDir scratch_;
  std::string path_ = scratch_.file("pool");
  Config config_;
  Contents held_;
  std::optional<HeldRecords> right_;  // held_ once all is there, for is_right()
  std::map<Bytes, std::set<Bytes>> had_;  // values that a key ever had
  std::string whole_;
  int fd_ = -1, refused_ = 0;
  std::mt19937_64 draw_{20261129u +
                        static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed())};
};

TEST_P(EntryRepairs, OfOneBitLoseNothing) {
  std::vector<std::size_t> const all = words();
  ASSERT_GT(all.size(), 300u);
  std::size_t const n = volume(50);
  // Until half of them hit what an opening that does not repair refuses.
  for (std::size_t i = 0; (i < n || refused_ <= static_cast<int>(n / 2)) && i < 10 * n; ++i) {
    expect_mended(all[draw_() % all.size()] + draw_() % 8, static_cast<unsigned>(draw_() % 8));
    if (HasFailure()) break;
  }
  EXPECT_GT(refused_, static_cast<int>(n / 2));
}

TEST_P(EntryRepairs, OfOneBitInEveryByteLoseNothing) {
  for (std::size_t const word : words())
    for (std::size_t at = word; at < word + 8 && !HasFailure(); ++at)
      expect_mended(at, static_cast<unsigned>((at * 5 + at / 8) % 8));
}

/// Unless they spoil both copies of the root.
TEST_P(EntryRepairs, OfTwoBitsLoseNothing) {
  std::vector<std::size_t> const all = words();
  for (std::size_t i = 0; i < volume(30) && !HasFailure(); ++i) {
    std::size_t const a = all[draw_() % all.size()] + draw_() % 8;
    std::size_t const b = i % 2 == 0 ? all[draw_() % all.size()] + draw_() % 8
                                     : a / 32 * 32 + draw_() % 32;  // near the other
    SCOPED_TRACE("bytes " + std::to_string(a) + " and " + std::to_string(b));
    std::string damaged = whole_;
    flip(damaged, a, static_cast<unsigned>(draw_() % 4));
    flip(damaged, b, static_cast<unsigned>(4 + draw_() % 4));
    write(damaged);
    if (std::max(a, b) < pm::kEpochOffset &&
        Store::open(path_, repairing()).status().code() == Code::corrupt)
      continue;
    expect_nothing_lost();
  }
}

/// Many bits, lines of zeros, pages of anything.
TEST_P(EntryRepairs, OfAnythingElseSayWhatTheyDropped) {
  std::size_t kept = 0, opened = 0, n = 0;  // a few by chance say little: then as many as a release
  for (; (n < volume(60) || (n < 60 && opened * 10 <= n * 8)) && !HasFailure(); ++n) {
    SCOPED_TRACE("damage " + std::to_string(n));
    write(spoilt(n));
    if (auto const left = expect_told()) {
      ++opened;
      kept += *left;
    }
  }
  EXPECT_GT(opened * 10, n * 8) << "most that is damaged in the log can be repaired";
  EXPECT_GT(kept, 0u);
}

/// What is left of a repair that was killed: the lines, and any of its words.
TEST_P(EntryRepairs, ThatAreKilledAreDoneByTheNext) {
  for (std::size_t i = 0; i < volume(30) && !HasFailure(); ++i) {
    SCOPED_TRACE("damage " + std::to_string(i));
    std::string const damaged = spoilt(i);
    write(damaged);
    std::string const applied = after_words_of_repair();
    if (applied.empty()) continue;
    std::string half = damaged;
    for (std::size_t at = 0; at < half.size(); at += 8)
      if (std::memcmp(&half[at], &applied[at], 8) != 0 && draw_() % 2 == 0)
        std::memcpy(&half[at], &applied[at], 8);
    write(half);
    expect_told();
  }
}

/// What follows says that it is damage, and no end that a crash tore.
TEST_P(EntryRepairs, OfOneBitOfAKilledStoreLoseNothing) {
  std::string const killed = whole_file(scratch_.file("killed"));
  std::size_t const from = segment(), size = (end_of_log() - from) / 2;
  for (std::size_t i = 0; i < volume(30) && !HasFailure(); ++i) {
    std::size_t const byte = from + draw_() % size;
    SCOPED_TRACE("byte " + std::to_string(byte));
    std::string damaged = killed;
    flip(damaged, byte, static_cast<unsigned>(draw_() % 8));
    write(damaged);
    auto store = Store::open(path_, config_.open());
    if (store) {
      EXPECT_TRUE(is_right(*store));
      must(store->close());
      write(damaged);
    } else {
      EXPECT_NE(store.status().message().find("repair"), std::string::npos);
    }
    expect_nothing_lost();
  }
}

/// It stays where it is, and gets and verify name it: the log says that it is the key's.
TEST_P(EntryRepairs, LeaveADamagedValueAlone) {
  auto const& [key, value] = *std::prev(held_.end());
  std::string damaged = whole_;
  std::size_t const at = damaged.rfind(value);
  ASSERT_NE(at, std::string::npos);
  flip(damaged, at + 3, 1);
  flip(damaged, end_of_log() - 30, 5);
  write(damaged);
  auto store = Store::open(path_, repairing());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(store->recovery().dropped, 0u);
  EXPECT_EQ(store->stats().records, held_.size());
  must(store->acknowledge_repair());
  auto found = store->verify();
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->fault_count, 1u);
  EXPECT_NE(found->faults[0].find("checksum"), std::string::npos) << found->faults[0];
  std::vector<KeyStatus> statuses(1);
  must(store->get_variable(Packed({key}, config_.key_bytes).column(), statuses).status());
  EXPECT_EQ(statuses[0], KeyStatus::corrupt);
  must(store->close());
}

/// Three segments and more: what is lost of one is told by the others.
class SegmentRepairs : public EntryRepairs {
 protected:
  SegmentRepairs() {
    auto store = Store::open(path_, config_.open());
    must(store.status());
    std::vector<Bytes> keys, values;
    std::uint64_t const many = (std::uint64_t{5} << 19) / wal::cell_bytes_for(config_.key_bytes);
    for (std::uint64_t k = 0; k < many; ++k) {
      keys.push_back(config_.key(k));
      values.push_back(config_.value(k, 30));
      held_[keys.back()] = values.back();
    }
    must(store->put(Packed(keys, config_.key_bytes).column(),
                    Packed(values, config_.value_bytes).column()));
    must(store->close());
    whole_ = whole_file(path_);
  }
  void expect_mended_all(std::string const& damaged) {
    write(damaged);
    expect_told_or_right(damaged);
    write(damaged);
    expect_nothing_lost();
  }
  /// Those with entries, one without, and the last.
  [[nodiscard]] std::vector<std::size_t> some_segments() const {
    std::vector<std::size_t> some = superblocks(wal::kSegmentMagic);
    constexpr std::size_t kSome = 4;
    if (some.size() > kSome + 1) some.erase(some.begin() + kSome, some.end() - 1);
    return some;
  }
};

TEST_P(SegmentRepairs, OfTheirHeadersAndLinksLoseNothing) {
  std::vector<std::size_t> const all = some_segments();
  ASSERT_GE(all.size(), 3u);
  for (std::size_t const at : all) {
    SCOPED_TRACE("segment at byte " + std::to_string(at));
    std::string damaged = whole_;
    flip(damaged, at + offsetof(wal::SegmentHeader, next) + 2, static_cast<unsigned>(draw_() % 8));
    expect_mended_all(damaged);
    flip(damaged, at + draw_() % 24, static_cast<unsigned>(draw_() % 8));
    expect_mended_all(damaged);
    damaged = whole_;
    std::fill_n(&damaged[at], offsetof(wal::SegmentHeader, next), 0);
    expect_mended_all(damaged);
    if (HasFailure()) return;
  }
}

/// Nobody but the closing note could say that the log goes on.
TEST_P(SegmentRepairs, OfALinkThatIsZeroLoseNothing) {
  for (std::size_t const at : some_segments()) {
    std::string damaged = whole_;
    std::uint64_t next = 0;
    std::memcpy(&next, &damaged[at + offsetof(wal::SegmentHeader, next)], sizeof next);
    if (std::popcount(next) > 2 || next == 0) continue;
    SCOPED_TRACE("segment at byte " + std::to_string(at));
    std::fill_n(&damaged[at + offsetof(wal::SegmentHeader, next)], sizeof next, 0);
    expect_mended_all(damaged);
  }
}

auto const kNameOf = [](auto const& one) { return std::string(one.param.name); };
INSTANTIATE_TEST_SUITE_P(Kinds, EntryRepairs, ::testing::ValuesIn(kSizes), kNameOf);
INSTANTIATE_TEST_SUITE_P(Kinds, SegmentRepairs, ::testing::Values(kSizes[0], kSizes[4]), kNameOf);

}  // namespace
}  // namespace perdure::test
