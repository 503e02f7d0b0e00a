// What a pool says its values are: kept as docs/format.md draws it, through every way a pool takes,
// and refused where it cannot be.
#include <gtest/gtest.h>

#include <cstring>

#include "../crash/pool_file.hpp"
#include "support/folders.hpp"

namespace perdure::test {
namespace {

constexpr ValueType kMatrix{ValueKind::floating, 4, 2, {4, 8}};

CreateOptions of_type(ValueType const& type) {
  CreateOptions o;
  o.expected_records = 100;
  o.value_type = type;
  return o;
}

testing::AssertionResult is_matrix(Store const& store) {
  ValueType const t = store.value_type();
  bool const same = t.kind == ValueKind::floating && t.element_bytes == 4 && t.rank == 2 &&
                    t.extents[0] == 4 && t.extents[1] == 8 && t.extents[2] == 0;
  ValueType const in_stats = store.stats().value_type;
  bool const told = std::memcmp(&t, &in_stats, sizeof t) == 0;
  return same && told && store.value_bytes() == 128 ? testing::AssertionSuccess()
                                                    : testing::AssertionFailure()
                                                          << store.value_bytes() << " bytes, kind "
                                                          << static_cast<int>(t.kind);
}

TEST(ValueType, LiesWhereTheFormatSaysAndIsThereAgain) {
  for (Index const index : {Index::gphash, Index::dash_eh, Index::dash_lh, Index::btree}) {
    PoolPath path;
    CreateOptions o = of_type(kMatrix);
    o.index = index;
    {
      auto store = Store::create(path.str(), o);
      ASSERT_TRUE(store.ok()) << store.status().message();
      EXPECT_TRUE(is_matrix(*store));
    }
    Bytes const bytes = read_file(path.str());
    std::uint8_t const expected[35] = {4, 4, 4, 0, 0, 0, 8};
    EXPECT_EQ(std::memcmp(bytes.data() + 78, expected, 34), 0);
    EXPECT_EQ(static_cast<int>(bytes[112]), 2);
    auto again = Store::open(path.str());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_TRUE(is_matrix(*again));
  }
}

TEST(ValueType, IsNoneWhereNobodyGaveOne) {
  PoolPath path;
  CreateOptions o;
  o.value_bytes = 128;
  ASSERT_TRUE(Store::create(path.str(), o).ok());
  Bytes const bytes = read_file(path.str());
  EXPECT_TRUE(std::all_of(bytes.begin() + 78, bytes.begin() + 124,
                          [](std::byte b) { return b == std::byte{}; }));
  auto store = Store::open(path.str());
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->value_type().kind, ValueKind::bytes);
}

TEST(ValueType, GoesWithSnapshotsAndWithTheLog) {
  PoolPath path, other, snapshot;
  DiskDir log_dir("value-type");
  CreateOptions o = of_type(kMatrix);
  o.durability = Durability::power;
  o.log.dir = log_dir.path;
  o.log.bytes = 1u << 20;
  {
    auto store = Store::create(path.str(), o);
    ASSERT_TRUE(store.ok()) << store.status().message();
    ASSERT_TRUE(store->snapshot(snapshot.str()).ok());
  }
  std::filesystem::remove(path.str());
  OpenOptions from_log;
  from_log.log_dir = log_dir.path;
  auto replayed = Store::open(path.str(), from_log);
  ASSERT_TRUE(replayed.ok()) << replayed.status().message();
  EXPECT_TRUE(is_matrix(*replayed));
  RestoreOptions plain;
  plain.durability = Durability::process;
  auto restored = Store::restore(snapshot.str(), other.str(), plain);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_TRUE(is_matrix(*restored));
}

TEST(ValueType, ThatCannotBeIsRefusedByItsNumbers) {
  struct Wrong {
    ValueType type;
    std::uint32_t value_bytes;
    char const* says;
  };
  for (Wrong const& wrong :
       {Wrong{{ValueKind::floating, 3, 0, {}}, 0, "no elements of 3 bytes"},
        Wrong{{ValueKind::complex, 4, 0, {}}, 0, "no elements of 4 bytes"},
        Wrong{{static_cast<ValueKind>(7), 4, 0, {}}, 0, "kind 7"},
        Wrong{{ValueKind::floating, 4, 9, {1, 1, 1, 1, 1, 1, 1, 1}}, 0, "9 extents"},
        Wrong{{ValueKind::floating, 4, 2, {4, 0}}, 0, "extent 1 is 0"},
        Wrong{{ValueKind::floating, 4, 2, {1u << 31, 1u << 31}}, 0, "more than"},
        Wrong{kMatrix, 100, "has 128 bytes"}}) {
    PoolPath path;
    CreateOptions o = of_type(wrong.type);
    o.value_bytes = wrong.value_bytes;
    Status const s = Store::create(path.str(), o).status();
    EXPECT_EQ(s.code(), Code::invalid_argument) << wrong.says;
    EXPECT_NE(s.message().find(wrong.says), std::string::npos) << s.message();
    EXPECT_FALSE(std::filesystem::exists(path.str()));
  }
}

TEST(ValueType, InAHeaderThatContradictsItselfIsDamage) {
  PoolPath path;
  ASSERT_TRUE(Store::create(path.str(), of_type(kMatrix)).ok());
  Bytes const sound = read_file(path.str());
  auto const spoilt = [&](auto change) {
    Image image(sound);
    pm::PoolHeader header = image.header();
    change(header);
    image.set(pm::kHeaderOffset, header);
    image.seal_header();
    write_file(path.str(), image.bytes);
    return Store::open(path.str()).status().code();
  };
  EXPECT_EQ(spoilt([](pm::PoolHeader&) {}), Code::ok);
  EXPECT_EQ(spoilt([](pm::PoolHeader& h) { h.value_kind = 7; }), Code::corrupt);
  EXPECT_EQ(spoilt([](pm::PoolHeader& h) { h.value_kind = 0; }), Code::corrupt);
  EXPECT_EQ(spoilt([](pm::PoolHeader& h) { h.element_bytes = 8; }), Code::corrupt);
  EXPECT_EQ(spoilt([](pm::PoolHeader& h) { h.value_rank = 1; }), Code::corrupt);
  EXPECT_EQ(spoilt([](pm::PoolHeader& h) { h.value_rank = 200; }), Code::corrupt);
  EXPECT_EQ(spoilt([](pm::PoolHeader& h) { h.extents[0] = 5; }), Code::corrupt);
  EXPECT_EQ(spoilt([](pm::PoolHeader& h) { h.extents[7] = 1; }), Code::corrupt);
}

}  // namespace
}  // namespace perdure::test
