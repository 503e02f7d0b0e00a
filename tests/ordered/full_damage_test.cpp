// A durable tree that is damaged: verify names what is wrong with each part of it, a repair makes
// it anew of the records, and nothing that was whole is lost.
#include <gtest/gtest.h>

#include <functional>

#include "index/btree/layout.hpp"
#include "ordered_store.hpp"
#include "pm/record_shape.hpp"
#include "pm/transaction/format.hpp"
#include "store/btree/full/pool_nodes.hpp"

namespace perdure::test {
namespace {

using Contents = std::map<Bytes, Bytes>;

constexpr Kind kKind{"variable", 0, KeyOrder::bytes, Persist::full};
constexpr std::uint64_t kRecords = 1200;

/// The bytes of a pool that was closed in order, and where its parts lie.
class Image {
 public:
  explicit Image(std::string const& path) : path_(path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
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
  DamagedWhole() {
    Store store = opened(Store::create(path(), kKind.create()));
    for (std::uint64_t n = 0; n < kRecords; ++n) held_[kKind.key(n)] = "value " + std::to_string(n);
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
  void expect_named() const {
    Store store = opened(Store::open(path()));
    EXPECT_GT(store.verify().value().fault_count, 0u);
    ASSERT_TRUE(store.close().ok());
  }
  void expect_mended(std::uint64_t dropped = 0) {
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
    put(store, {{"goes", "on"}});
    ASSERT_TRUE(store.close().ok());
    EXPECT_EQ(opened(Store::open(path())).stats().records, held_.size() + 1);
  }
  ScratchDir scratch_;
  Contents held_;
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
}

}  // namespace
}  // namespace perdure::test
