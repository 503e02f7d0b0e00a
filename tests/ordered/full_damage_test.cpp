// A durable tree that is damaged: verify names what is wrong with each part of it, a repair makes
// it anew of the records, and nothing that was whole is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "index/btree/layout.hpp"
#include "index/btree/versions.hpp"
#include "ordered_store.hpp"
#include "pm/record_shape.hpp"
#include "pm/transaction/format.hpp"
#include "store/btree/full/pool_nodes.hpp"
#include "support/whole_file.hpp"

namespace perdure::test {
namespace {

using Contents = std::map<Bytes, Bytes>;

constexpr Kind kKind{"variable", 0, KeyOrder::bytes, Persist::full};
constexpr std::uint64_t kRecords = 1200;

/// The bytes of a pool that was closed in order, and where its parts lie.
class Image {
 public:
  explicit Image(std::string const& path) : path_(path) {
    bytes_ = whole_file(path);
    std::memcpy(&header_, bytes_.data(), sizeof header_);
  }
  void write() const {
    std::ofstream(path_, std::ios::binary)
        .write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  }
  [[nodiscard]] std::size_t log() const { return superblock(pm::kUndoMagic, 0); }
  [[nodiscard]] std::size_t state() const { return log() + pm::kUndoState; }
  [[nodiscard]] std::size_t root() const {
    full::State state;
    std::memcpy(&state, bytes_.data() + this->state(), sizeof state);
    return state.root;
  }
  [[nodiscard]] std::size_t child(std::size_t node, std::size_t n) const {
    return node + offsetof(btree::Inner<true>, children) + 8 * n;
  }
  /// Below the root.
  [[nodiscard]] std::size_t inner() const {
    std::uint64_t at;
    std::memcpy(&at, bytes_.data() + child(root(), 0), sizeof at);
    return at;
  }
  void swap(std::size_t one, std::size_t other) {
    std::swap_ranges(bytes_.begin() + static_cast<std::ptrdiff_t>(one),
                     bytes_.begin() + static_cast<std::ptrdiff_t>(one + 8),
                     bytes_.begin() + static_cast<std::ptrdiff_t>(other));
  }
  /// The bit of the map that says of the record around `at` that it is in use.
  void forget(std::size_t at) {
    std::size_t const superblock = at / header_.superblock_bytes * header_.superblock_bytes;
    std::uint32_t const stride = word(superblock + 4);
    std::size_t const i = (at - superblock - pm::kFirstMapped) / stride;
    flip(superblock + pm::RecordShape(header_).map_address(stride) + i / 8,
         static_cast<unsigned>(i % 8));
  }
  /// As its owner's opening would.
  void say_changing(std::size_t node) {
    full::State state;
    std::memcpy(&state, bytes_.data() + this->state(), sizeof state);
    std::uint64_t const version = state.generation | btree::kChanging;
    std::memcpy(bytes_.data() + node, &version, sizeof version);
  }
  [[nodiscard]] std::size_t leaf(std::size_t n) const {
    return leaves() + pm::kFirstMapped + n * sizeof(btree::Leaf);
  }
  [[nodiscard]] std::size_t map_of_leaves() const {
    return leaves() + pm::RecordShape(header_).map_address(sizeof(btree::Leaf));
  }
  [[nodiscard]] std::size_t find(Bytes const& text) const { return bytes_.find(text); }
  void flip(std::size_t at, unsigned bit) {
    bytes_[at] = static_cast<char>(static_cast<unsigned char>(bytes_[at]) ^ 1u << bit);
  }

 private:
  [[nodiscard]] std::size_t leaves() const {
    return superblock(pm::kSuperblockMagic, sizeof(btree::Leaf));
  }
  /// The first superblock that begins so; stride 0: any.
  [[nodiscard]] std::size_t superblock(std::uint32_t magic, std::uint32_t stride) const {
    for (std::size_t at = pm::kMinSuperblock; at < bytes_.size(); at += pm::kMinSuperblock)
      if (word(at) == magic && (stride == 0 || word(at + 4) == stride)) return at;
    throw std::runtime_error("no superblock of stride " + std::to_string(stride));
  }
  [[nodiscard]] std::uint32_t word(std::size_t at) const {
    std::uint32_t found;
    std::memcpy(&found, bytes_.data() + at, sizeof found);
    return found;
  }
  std::string path_, bytes_;
  pm::PoolHeader header_;
};

class DamagedWhole : public testing::Test {
 protected:
  explicit DamagedWhole(Kind const& kind = kKind) : kind_(kind) {
    Store store = opened(Store::create(path(), kind_.create()));
    for (std::uint64_t n = 0; n < kRecords; ++n) held_[kind_.key(n)] = "value " + std::to_string(n);
    std::vector<std::pair<Bytes, Bytes>> const all(held_.begin(), held_.end());
    put(store, all);
    if (!store.close().ok()) throw std::runtime_error("close");
  }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }

  void damage(std::function<void(Image&)> const& how) const {
    Image image(path());
    how(image);
    image.write();
  }
  /// How many keys are said to be damaged; the others are what they were.
  [[nodiscard]] std::uint64_t damaged_answers() const {
    auto store = Store::open(path());
    if (!store) return 1;
    std::uint64_t damaged = 0;
    for (std::uint64_t n = 0; n < kRecords; n += 11) {
      Packed const k({kind_.key(n)}, kind_.key_bytes);
      KeyStatus status = KeyStatus::ok;
      auto const got = store->get_variable(k.column(), {&status, 1});
      EXPECT_TRUE(got.ok() || got.status().code() == Code::corrupt) << got.status().message();
      EXPECT_NE(status, KeyStatus::not_found) << n;
      damaged += !got || status == KeyStatus::corrupt;
    }
    auto const counted = store->count_range({});
    damaged += !counted;
    EXPECT_EQ(counted ? counted.value() : held_.size(), held_.size());
    return damaged;
  }
  void expect_named() const {
    Store store = opened(Store::open(path()));
    EXPECT_GT(store.verify().value().fault_count, 0u);
    ASSERT_TRUE(store.close().ok());
  }
  void expect_mended(std::uint64_t dropped = 0) {
    Bytes const goes_on = kind_.key(kRecords);
    OpenOptions repair;
    repair.repair = true;
    Store store = opened(Store::open(path(), repair));
    EXPECT_TRUE(store.recovery().repaired);
    EXPECT_EQ(store.recovery().dropped, dropped);
    auto const all = all_of(store, {});
    EXPECT_TRUE(Contents(all.begin(), all.end()) == held_);
    ASSERT_TRUE(store.acknowledge_repair().ok());
    auto const report = store.verify().value();
    EXPECT_EQ(report.fault_count, 0u) << report.faults.front();
    put(store, {{goes_on, "goes on"}});
    ASSERT_TRUE(store.close().ok());
    EXPECT_EQ(opened(Store::open(path())).stats().records, held_.size() + 1);
  }
  Kind const kind_;
  ScratchDir scratch_;
  Contents held_;
};

/// Keys that their first eight bytes tell apart.
class DamagedApart : public DamagedWhole {
 protected:
  DamagedApart() : DamagedWhole({"apart", 16, KeyOrder::bytes, Persist::full}) {}
};

TEST_F(DamagedWhole, AChildOfAnInnerNodeIsNamedAndMended) {
  damage([](Image& image) {
    image.flip(image.root() + offsetof(btree::Inner<true>, children) + 1, 3);
  });
  expect_named();
  expect_mended();
}

TEST_F(DamagedWhole, AChildOutsideThePoolIsFollowedByNobody) {
  damage([](Image& image) {
    for (std::size_t child = 0; child < 40; ++child)
      image.flip(image.root() + offsetof(btree::Inner<true>, children) + 8 * child + 5, 3);
  });
  {
    Store store = opened(Store::open(path()));
    Packed const k({kKind.key(7)}, 0), v({Bytes("value")}, 0);
    for (Status const& s : {store.get_variable(k.column(), {}).status(),
                            store.put(k.column(), v.column()), store.range({}).status()}) {
      EXPECT_EQ(s.code(), Code::corrupt) << s.message();
      EXPECT_NE(s.message().find("run verify"), std::string::npos) << s.message();
    }
  }
  expect_named();
  expect_mended();
}

/// Every single flip of the addresses, the separators and the shape of an inner node: before
/// anybody asks verify, each call ends, and what it answers is there or said to be damaged.
TEST_F(DamagedApart, NoFlipOfAnInnerNodeMakesAReadLoopOrMiss) {
  Image const whole(path());
  std::uint64_t refused = 0;
  for (std::size_t const node : {whole.root(), whole.inner()})
    for (std::size_t at = 0; at < 3; ++at)
      for (std::size_t const part :
           {offsetof(btree::Inner<true>, children) + 8 * at,
            offsetof(btree::Inner<true>, prefixes) + 8 * at, offsetof(btree::Inner<true>, shape)})
        for (unsigned const bit : {1u + 9u * static_cast<unsigned>(at), 33u}) {
          damage([&](Image& image) { image.flip(node + part + bit / 8, bit % 8); });
          refused += damaged_answers();
          whole.write();
        }
  EXPECT_GT(refused, 0u);
}

TEST_F(DamagedApart, AChildThatIsAnotherLeafIsNamedByTheFirstGet) {
  damage([](Image& image) {
    image.swap(image.child(image.inner(), 3), image.child(image.inner(), 9));
  });
  EXPECT_GT(damaged_answers(), 0u);
  expect_named();
  expect_mended();
}

TEST_F(DamagedWhole, ALockOfTheLastOpeningHoldsUpNoReader) {
  damage([](Image& image) { image.say_changing(image.leaf(4)); });
  OpenOptions reading;
  reading.read_only = true;
  Store store = opened(Store::open(path(), reading));
  EXPECT_EQ(all_of(store, {}).size(), held_.size());
}

TEST_F(DamagedWhole, ASeparatorIsNamedAndMended) {
  damage([](Image& image) { image.flip(image.root() + 8 * 5, 7); });
  expect_named();
  expect_mended();
}

TEST_F(DamagedWhole, ALeafsOrderIsNamedAndMended) {
  damage([](Image& image) { image.flip(image.leaf(4) + offsetof(btree::Leaf, permutation), 0); });
  expect_named();
  expect_mended();
}

TEST_F(DamagedWhole, AnEntryIsNamedAndMended) {
  damage([](Image& image) { image.flip(image.leaf(4) + offsetof(btree::Leaf, entries) + 9, 2); });
  expect_named();
  expect_mended();
}

TEST_F(DamagedWhole, AMapThatForgetsALeafIsNamedAndMended) {
  damage([](Image& image) { image.flip(image.map_of_leaves(), 4); });
  expect_named();
  expect_mended();
}

TEST_F(DamagedWhole, ARecordIsNamedAndDropped) {
  Bytes const key = kKind.key(1077);
  damage([&](Image& image) { image.flip(image.find("value 1077"), 1); });
  expect_named();
  held_.erase(key);
  expect_mended(1);
}

TEST_F(DamagedWhole, AStateLineKeepsThePoolFromOpening) {
  for (std::size_t byte = 0; byte < 32; byte += 3) {
    auto const flip = [&](Image& image) { image.flip(image.state() + byte, byte % 8); };
    damage(flip);
    Status const s = Store::open(path()).status();
    EXPECT_EQ(s.code(), Code::corrupt) << "byte " << byte;
    EXPECT_NE(s.message().find("repair"), std::string::npos) << s.message();
    damage(flip);
  }
  damage([](Image& image) { image.flip(image.state() + 3, 2); });
  expect_mended();
}

TEST_F(DamagedWhole, ALogThatIsDamagedKeepsThePoolFromOpening) {
  damage([](Image& image) { image.flip(image.log() + 20, 2); });
  Status const s = Store::open(path()).status();
  EXPECT_EQ(s.code(), Code::corrupt);
  EXPECT_NE(s.message().find("undo log is damaged"), std::string::npos) << s.message();
  EXPECT_NE(s.message().find("repair"), std::string::npos) << s.message();
  expect_mended();
}

TEST_F(DamagedWhole, ALinkOfItsLogThatLeadsNowhereIsMended) {
  damage([](Image& image) { image.flip(image.log() + offsetof(pm::UndoRoomHeader, next) + 3, 5); });
  EXPECT_EQ(Store::open(path()).status().code(), Code::corrupt);
  expect_mended();
}

TEST_F(DamagedWhole, AMapThatForgetsARecordLosesNothing) {
  damage([](Image& image) { image.forget(image.find("value 1077")); });
  expect_named();
  expect_mended();
}

}  // namespace
}  // namespace perdure::test
