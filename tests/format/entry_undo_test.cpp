// Pools of layout `log` whose last commit can be taken back, and one bit of them flipped: a revert
// brings back what was there before, or there is nothing to take back, or the pool does not open.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "pm/pool_format.hpp"
#include "support/store_driver.hpp"
#include "support/whole_file.hpp"
#include "wal/entries.hpp"

namespace perdure::test {
namespace {

class EntryUndo : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  static constexpr std::uint64_t kKeys = 20;

  EntryUndo() {
    config_.layout = Layout::log;
    config_.key_bytes = GetParam();
    config_.value_bytes = 16;
    auto store = Store::create(path_, config_.create(kKeys), config_.open());
    must(store.status());
    put(*store, 0, nullptr);
    before_ = scan_all(*store, 1000);
    auto transaction = store->begin({1000, true});
    must(transaction.status());
    put(*store, 1, &*transaction);
    put(*store, 2, &*transaction);
    must(transaction->commit());
    after_ = scan_all(*store, 1000);
    must(store->close());
    whole_ = whole_file(path_);
    fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~EntryUndo() override { ::close(fd_); }

  static void must(Status const& s) {
    if (!s.ok()) throw std::runtime_error(s.message());
  }
  /// Others of the keys each time, and some that are new.
  void put(Store& store, std::uint64_t version, Transaction* transaction) const {
    std::vector<Bytes> keys, values;
    for (std::uint64_t k = 0; k < kKeys; k += version + 1) {
      keys.push_back(config_.key(k + version));
      values.push_back(config_.value(k, version));
    }
    CallOptions how;
    how.transaction = transaction;
    must(store.put(Packed(keys, config_.key_bytes).column(), Packed(values, 16).column(), {}, how));
  }
  void write(std::string const& bytes) const {
    ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(bytes.size())), 0);
    ASSERT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  [[nodiscard]] std::size_t segment() const {
    std::size_t at = pm::kMinSuperblock;
    while (std::memcmp(&whole_[at], &wal::kSegmentMagic, sizeof wal::kSegmentMagic) != 0)
      at += pm::kMinSuperblock;
    return at;
  }
  /// Whether it could be taken back.
  bool look() {
    auto store = Store::open(path_, config_.open());
    if (!store) {
      EXPECT_EQ(store.status().code(), Code::corrupt) << store.status().message();
      ++refused_;
      return false;
    }
    EXPECT_EQ(scan_all(*store, 1000), after_);
    auto can = store->can_revert();
    must(can.status());
    Status const s = store->revert();
    EXPECT_EQ(s.ok(), *can) << s.message();
    EXPECT_EQ(scan_all(*store, 1000), *can ? before_ : after_);
    must(store->close());
    return *can;
  }

  ScratchDir scratch_;
  std::string path_ = scratch_.file("pool");
  Config config_;
  std::map<Bytes, Bytes> before_, after_;
  std::string whole_;
  int fd_ = -1, refused_ = 0;
};

TEST_P(EntryUndo, IsThereForTheNextProcess) { EXPECT_TRUE(look()); }

TEST_P(EntryUndo, ThatIsDamagedIsNotTrusted) {
  std::size_t const from = segment();
  std::size_t end = from + pm::kMinSuperblock;
  while (whole_[end - 1] == 0) --end;
  int kept = 0, taken_back = 0;
  for (std::size_t at = from; at < end && !HasFailure(); at += 8) {
    SCOPED_TRACE("word at byte " + std::to_string(at));
    std::string damaged = whole_;
    damaged[at + at / 8 % 8] = static_cast<char>(damaged[at + at / 8 % 8] ^ (1 << at / 64 % 8));
    write(damaged);
    int const before = refused_;
    if (look())
      ++taken_back;
    else
      kept += refused_ == before ? 1 : 0;
  }
  EXPECT_GT(kept, 30) << "17 entries that undo, of 2 words at least";
  EXPECT_GT(refused_, 40);
  // Bits that nothing reads: the key of an entry that says nothing, what is behind the log's end.
  EXPECT_LT(taken_back, 30);
}

INSTANTIATE_TEST_SUITE_P(KeyBytes, EntryUndo, ::testing::Values(8u, 24u, 40u));

}  // namespace
}  // namespace perdure::test
