// Log directories and snapshots of small stores of durability power, and one or two bits of them
// flipped. An opening, or a restoring, gives every acknowledged batch back, or is refused, names
// file and byte, and changes nothing. A repair gives back what the store held after some batch, and
// verify tells of it until that is acknowledged. And the store lives on: what is acknowledged then
// is there after the next kill. The store was closed, or killed with batches in its log; both of
// its images are checkpoints with batches before and after them. Which bytes: a sample of each
// kind; in the tests whose names say InEvery, all but those of gaps.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "../crash/pool_file.hpp"
#include "support/memory_disk.hpp"
#include "wal/checkpoint.hpp"
#include "wal/log_format.hpp"

namespace perdure::wal::test {
namespace {

using namespace perdure::test;  // NOLINT: of files and contents

using Directory = std::map<std::string, perdure::test::Bytes>;
using Expected = std::vector<Contents>;  // after each batch

struct Kind {
  char const* name;
  Layout layout;
  bool variable;
  bool closed;
};
constexpr Kind kKinds[] = {{"WordFixedKilled", Layout::word, false, false},
                           {"WordFixedClosed", Layout::word, false, true},
                           {"InPlaceVariableKilled", Layout::in_place, true, false},
                           {"InPlaceVariableClosed", Layout::in_place, true, true}};
constexpr char const* kFiles[] = {"redo.log", "checkpoint", "image-a", "image-b"};

struct Flip {
  std::string file;
  std::uint64_t byte;
  unsigned bit;
};
/// Bytes of one kind, of one file.
struct Places {
  std::string file;
  std::vector<std::uint64_t> bytes;
};

void must(Status const& s) {
  if (!s.ok()) throw std::runtime_error(s.message());
}

OpenOptions alone() {
  OpenOptions options;
  options.threads = 1;
  return options;
}

class LogFlips : public testing::TestWithParam<Kind> {
 protected:
  /// Three lives, so that each image is a checkpoint with batches before and after it; then batches
  /// in the log.
  LogFlips() {
    CreateOptions create;
    create.key_bytes = GetParam().variable ? 0 : 8;
    create.value_bytes = GetParam().variable ? 0 : 16;
    create.layout = GetParam().layout;
    create.expected_records = 32;
    create.durability = Durability::power;
    create.log.dir = kDirectory;
    create.log.bytes = 1u << 20;
    auto store = Store::create(pool_.str(), create, alone());
    must(store.status());
    after_.emplace_back();
    for (int life = 0; life < 3; ++life) {
      if (life > 0) store = open(kDirectory);
      must(store.status());
      for (std::uint64_t batch = 0; batch < 4; ++batch) write(*store, batch);
      if (life < 2) must(store->close());
    }
    must(store->snapshot(kSnapshot));
    if (GetParam().closed) must(store->close());
    for (char const* const name : kFiles) whole_[name] = disk_.bytes_of(name_in(name));
    if (!GetParam().closed) must(store->close());
    whole_[kSnapshot] = disk_.bytes_of(kSnapshot);
  }

  // --- What is written
  // -------------------------------------------------------------------------------------------

  [[nodiscard]] static std::string key(std::uint64_t n) {
    return GetParam().variable ? "key-" + std::to_string(n * n) : u64_text(n);
  }
  [[nodiscard]] static std::string value(std::uint64_t n, std::size_t batch) {
    return std::string(GetParam().variable ? n % 40 : 16, static_cast<char>('a' + batch % 26));
  }
  /// Puts, and every fourth time an erasure; each batch changes what the store holds.
  void write(Store& store, std::uint64_t batch) {
    Contents next = after_.back();
    if (batch == 3) {
      Strings keys(GetParam().variable ? 0 : 8);
      auto const first = next.begin();
      keys.add(first->first);
      next.erase(first);
      must(store.erase(keys.column()));
    } else {
      Contents some;
      for (std::uint64_t n = batch * 5; n < batch * 5 + 9; ++n)
        some[key(n)] = value(n + 1, after_.size());
      must(put_all(store, some));
      for (auto const& [k, v] : some) next[k] = v;
    }
    after_.push_back(std::move(next));
  }

  // --- Bytes worth flipping
  // --------------------------------------------------------------------------------------

  static Places range(std::string const& file, std::uint64_t at, std::uint64_t bytes) {
    Places addresses{file, {}};
    for (std::uint64_t i = 0; i < bytes; ++i) addresses.bytes.push_back(at + i);
    return addresses;
  }
  [[nodiscard]] std::vector<std::uint64_t> groups_of_log() const {
    Image const log(whole_.at("redo.log"));
    std::vector<std::uint64_t> found;
    for (std::uint64_t at = kRingOffset; at + kBlock <= log.bytes.size();) {
      auto const header = log.at<GroupHeader>(at);
      if (header.magic != kGroupMagic) break;
      found.push_back(at);
      at += group_bytes(header.payload_bytes);
    }
    return found;
  }
  void add_image(std::vector<Places>& all, std::string const& file) const {
    auto const header = Image(whole_.at(file)).at<ImageHeader>(0);
    Image const pool(Bytes(whole_.at(file).begin() + kBlock, whole_.at(file).end()));
    all.push_back(range(file, 0, sizeof(ImageHeader)));
    all.push_back(range(file, kBlock + header.bytes, header.bytes / header.chunk_bytes * 4));
    all.push_back(range(file, kBlock, sizeof(pm::PoolHeader)));
    for (std::uint64_t const root : pm::kRootOffset)
      all.push_back(range(file, kBlock + root, pool.root_bytes(root)));
    Places rest{file, {}};
    for (std::uint64_t at = kBlock; at < kBlock + header.bytes; at += 64) {
      auto const line = std::span(whole_.at(file)).subspan(at, 64);
      if (std::all_of(line.begin(), line.end(), [](std::byte b) { return b == std::byte{0}; }))
        continue;
      for (std::uint64_t i = 0; i < 64; ++i) rest.bytes.push_back(at + i);
    }
    all.push_back(std::move(rest));
  }
  [[nodiscard]] std::vector<Places> of_directory() const {
    std::vector<Places> all{range("redo.log", 0, sizeof(LogHeader)),
                            range("redo.log", kBlock, sizeof(LogHeader)),
                            range("checkpoint", 0, sizeof(CheckpointRecord)),
                            range("checkpoint", kBlock, sizeof(CheckpointRecord))};
    for (std::uint64_t const at : groups_of_log()) {
      all.push_back(range("redo.log", at, sizeof(GroupHeader)));
      all.push_back(range("redo.log", at + sizeof(GroupHeader), 512));
      all.push_back(range("redo.log", at + 512, kBlock - 512));
    }
    add_image(all, "image-a");
    add_image(all, "image-b");
    return all;
  }
  [[nodiscard]] std::vector<Places> of_snapshot() const {
    std::vector<Places> all;
    add_image(all, kSnapshot);
    return all;
  }

  // --- Looking
  // -----------------------------------------------------------------------------------------------

  static std::string name_in(char const* file) { return std::string(kDirectory) + "/" + file; }
  void lay(Directory const& files) {
    for (char const* const name : kFiles) disk_.lay(name_in(name), files.at(name));
  }
  Result<Store> open(std::string const& directory, bool repair = false) const {
    OpenOptions options = alone();
    options.log_dir = directory;
    options.repair = repair;
    return Store::open(pool_.str(), options);
  }
  /// Names the file, and says what to do.
  static void check_refusal(Status const& s, std::string const& where) {
    EXPECT_EQ(s.code(), Code::corrupt) << s.message();
    EXPECT_NE(s.message().find(where), std::string::npos) << s.message();
    bool const way_out = s.message().find("restore") != std::string::npos ||
                         s.message().find("open it with the build") != std::string::npos;
    EXPECT_TRUE(way_out) << s.message();
  }
  static std::string text(std::span<Flip const> flips) {
    std::string text;
    for (Flip const& f : flips)
      text +=
          f.file + ": bit " + std::to_string(f.bit) + " of byte " + std::to_string(f.byte) + "; ";
    return text;
  }
  void flip(std::span<Flip const> flips) {
    for (Flip const& f : flips) whole_[f.file][f.byte] ^= static_cast<std::byte>(1u << f.bit);
  }
  /// Two bits of the last group of a killed store's log: nothing tells them from a write that the
  /// kill cut off.
  [[nodiscard]] bool may_be_a_torn_end(std::span<Flip const> flips) const {
    std::uint64_t const last = groups_of_log().back();
    return !GetParam().closed && std::ranges::count_if(flips, [&](Flip const& f) {
                                   return f.file == "redo.log" && f.byte >= last;
                                 }) > 1;
  }
  void examine(std::span<Flip const> flips) {
    SCOPED_TRACE(text(flips));
    bool const torn_end = may_be_a_torn_end(flips);
    flip(flips);
    lay(whole_);
    flip(flips);
    Directory const laid = files();
    auto store = open(kDirectory);
    if (!store) {
      check_refusal(store.status(), kDirectory);
      EXPECT_TRUE(files() == laid) << "a refusal changed a file";
      bool const lost = store.status().message().find("are lost") != std::string::npos;
      return lost && ++lost_ % 3 == 0 ? goes_on_without(laid) : void();
    }
    auto const held = scan_all(*store);
    ASSERT_TRUE(held.has_value());
    RecoveryReport const& found = store->recovery();
    EXPECT_FALSE(found.lost_acknowledged) << found.log_report;
    if (*held == after_.back()) return ++right_ % 3 == 0 ? lives_on(*store) : void();
    EXPECT_TRUE(torn_end && *held == after_[after_.size() - 2])
        << "lost, and nobody says so: " << found.log_report;
  }
  /// As a repair does, which is refused no more; its loss is told until that is acknowledged,
  /// whenever it is killed.
  void goes_on_without(Directory const& laid) {
    EXPECT_EQ(open(kDirectory).status().code(), Code::corrupt) << "refused once only";
    lay(laid);
    auto store = open(kDirectory, true);
    ASSERT_TRUE(store.ok()) << store.status().message();
    RecoveryReport const found = store->recovery();
    EXPECT_TRUE(found.lost_acknowledged && found.repaired && !found.clean &&
                !found.changes.empty());
    auto const held = scan_all(*store);
    ASSERT_TRUE(held.has_value());
    EXPECT_NE(std::find(after_.begin(), after_.end(), *held), after_.end())
        << "a mix: " << found.log_report;
    for (bool const acknowledged : {false, true}) {
      killed(*store);
      store = open(kDirectory);
      ASSERT_TRUE(store.ok()) << store.status().message();
      EXPECT_FALSE(store->recovery().lost_acknowledged) << store->recovery().log_report;
      EXPECT_TRUE(scan_all(*store) == held);
      EXPECT_EQ(store->verify()->fault_count == 0, acknowledged) << found.log_report;
      must(store->acknowledge_repair());
    }
  }
  [[nodiscard]] Directory files() const {
    Directory files;
    for (char const* const name : kFiles) files[name] = disk_.bytes_of(name_in(name));
    return files;
  }
  /// Its files are as they were before it closed.
  void killed(Store& store) {
    Directory const left = files();
    must(store.close());
    lay(left);
  }
  /// One more batch, and a kill.
  void lives_on(Store& store) {
    write(store, 1);
    Contents const expected = std::move(after_.back());
    after_.pop_back();
    killed(store);
    auto again = open(kDirectory);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_FALSE(again->recovery().lost_acknowledged) << again->recovery().log_report;
    EXPECT_TRUE(scan_all(*again) == expected)
        << "lost after it was opened: " << again->recovery().log_report;
  }
  void restore(std::span<Flip const> flips) {
    SCOPED_TRACE(text(flips));
    flip(flips);
    disk_.lay(kSnapshot, whole_[kSnapshot]);
    flip(flips);
    RestoreOptions options;
    options.durability = Durability::process;
    options.file.overwrite = true;
    auto store = Store::restore(kSnapshot, restored_.str(), options, alone());
    if (!store) {
      EXPECT_EQ(store.status().code(), Code::corrupt) << store.status().message();
      EXPECT_NE(store.status().message().find(kSnapshot), std::string::npos)
          << store.status().message();
      return;
    }
    EXPECT_TRUE(scan_all(*store) == after_.back()) << "something else was restored";
  }

  // --- Which bits
  // -----------------------------------------------------------------------------------------------

  using Examine = std::function<void(std::span<Flip const>)>;
  void one_bit(std::vector<Places> const& all, std::size_t each, Examine const& look) {
    for (Places const& addresses : all)
      for (std::size_t i = 0; i < each && !HasFailure(); ++i) look(std::array{any_of(addresses)});
  }
  /// Near each other, or anywhere.
  void two_bits(std::vector<Places> const& all, std::size_t pairs, Examine const& look) {
    for (std::size_t i = 0; i < pairs && !HasFailure(); ++i) {
      Places const& first = all[draw_() % all.size()];
      Flip const a = any_of(first), b = any_of(i % 2 == 0 ? first : all[draw_() % all.size()]);
      if (a.file == b.file && a.byte == b.byte && a.bit == b.bit) continue;
      look(std::array{a, b});
    }
  }
  void every_byte(std::vector<Places> const& all, Examine const& look) {
    for (Places const& addresses : all)
      for (std::uint64_t const at : addresses.bytes) {
        if (HasFailure()) return;
        look(std::array{Flip{addresses.file, at, static_cast<unsigned>((at * 5 + at / 8) % 8)}});
      }
  }
  Flip any_of(Places const& addresses) {
    return {addresses.file, addresses.bytes[draw_() % addresses.bytes.size()],
            static_cast<unsigned>(draw_() % 8)};
  }

  static constexpr char const* kDirectory = "/disk/log";
  static constexpr char const* kSnapshot = "/disk/snapshot";
  MemoryDisk disk_;
  PoolPath const pool_, restored_;
  Expected after_;
  Directory whole_;
  std::uint64_t right_ = 0, lost_ = 0;  // so many openings
  std::mt19937_64 draw_{20261125u +
                        static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed())};
};

TEST_P(LogFlips, OfOneBitAreTold) {
  one_bit(of_directory(), 1, [this](auto flips) { examine(flips); });
}
TEST_P(LogFlips, OfTwoBitsAreTold) {
  two_bits(of_directory(), 25, [this](auto flips) { examine(flips); });
}
TEST_P(LogFlips, OfASnapshotAreTold) {
  one_bit(of_snapshot(), 3, [this](auto flips) { restore(flips); });
  two_bits(of_snapshot(), 10, [this](auto flips) { restore(flips); });
}
TEST_P(LogFlips, OfOneBitInEveryByteAreTold) {
  every_byte(of_directory(), [this](auto flips) { examine(flips); });
}
TEST_P(LogFlips, OfOneBitInEveryByteOfASnapshotAreTold) {
  every_byte(of_snapshot(), [this](auto flips) { restore(flips); });
}
TEST_P(LogFlips, OfTwoBitsInEveryKindAreTold) {
  two_bits(of_directory(), 4000, [this](auto flips) { examine(flips); });
}

INSTANTIATE_TEST_SUITE_P(All, LogFlips, testing::ValuesIn(kKinds),
                         [](auto const& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace perdure::wal::test
