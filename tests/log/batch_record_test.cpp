// Batches as the log keeps them: every shape comes back, and no damage is believed.
#include "wal/batch_record.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "support/store_driver.hpp"

namespace perdure::wal {
namespace {

using test::Bytes;
using test::Packed;

std::vector<std::byte> joined(EncodedBatch const& batch) {
  std::vector<std::byte> all;
  for (auto const& piece : batch.pieces()) all.insert(all.end(), piece.begin(), piece.end());
  EXPECT_EQ(all.size(), batch.bytes());
  return all;
}

std::vector<Bytes> elements(Column const& c) {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < c.count; ++i) {
    std::size_t const from =
        c.offsets == nullptr ? i * c.width : static_cast<std::size_t>(c.offsets[i]);
    std::size_t const to =
        c.offsets == nullptr ? from + c.width : static_cast<std::size_t>(c.offsets[i + 1]);
    all.emplace_back(reinterpret_cast<char const*>(c.data) + from, to - from);
  }
  return all;
}

std::vector<Bytes> arbitrary_items(std::size_t n, std::uint32_t width) {
  std::vector<Bytes> items;
  for (std::size_t i = 0; i < n; ++i) {
    auto const size = width != 0 ? width : *rc::gen::inRange<std::uint32_t>(0, 40);
    items.push_back(*rc::gen::container<Bytes>(size, rc::gen::arbitrary<char>()));
  }
  return items;
}

RC_GTEST_PROP(BatchRecord, EveryShapeComesBackAndNoCutIsBelieved, ()) {
  auto const n = *rc::gen::inRange<std::size_t>(1, 12);
  auto const key_width = *rc::gen::element<std::uint32_t>(0, 1, 8, 16);
  auto const value_width = *rc::gen::element<std::uint32_t>(0, 3, 128);
  bool const mixed = *rc::gen::arbitrary<bool>(), has_values = *rc::gen::arbitrary<bool>();
  auto const keys = arbitrary_items(n, key_width), values = arbitrary_items(n, value_width);
  auto const kinds = *rc::gen::container<std::vector<OpKind>>(
      n, rc::gen::element(OpKind::put, OpKind::erase, OpKind::update));
  Packed const packed_keys(keys, key_width), packed_values(values, value_width);
  BatchOps ops{OpKind::update, {}, Rmw::max, Element::f64, packed_keys.column(), {}};
  if (mixed) ops.kinds = kinds;
  if (has_values) ops.values = packed_values.column();
  bool const no_bytes = has_values && ops.values.data == nullptr;  // all values empty
  auto const bytes = joined(EncodedBatch(ops));

  auto const decoded = DecodedBatch::decode(bytes);
  RC_ASSERT(decoded.ok());
  BatchOps const back = decoded.value().ops();
  RC_ASSERT(elements(back.keys) == keys);
  RC_ASSERT(no_bytes || elements(back.values) == (has_values ? values : std::vector<Bytes>{}));
  RC_ASSERT(std::vector<OpKind>(back.kinds.begin(), back.kinds.end()) ==
            (mixed ? kinds : std::vector<OpKind>{}));
  RC_ASSERT(back.rmw == Rmw::max);
  RC_ASSERT(back.element == Element::f64);
  if (!mixed) RC_ASSERT(back.kind == OpKind::update);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    RC_ASSERT(!DecodedBatch::decode(std::span(bytes).first(cut)).ok());
}

// Logged before it was known which operations would take effect. A get never does.
RC_GTEST_PROP(BatchRecord, WhatHadNoEffectIsNotThereAndNoCutIsBelieved, ()) {
  auto const n = *rc::gen::inRange<std::size_t>(1, 20);
  auto const key_width = *rc::gen::element<std::uint32_t>(0, 8);
  auto const value_width = *rc::gen::element<std::uint32_t>(0, 3);
  auto const keys = arbitrary_items(n, key_width), values = arbitrary_items(n, value_width);
  auto const kinds = *rc::gen::container<std::vector<OpKind>>(
      n, rc::gen::element(OpKind::get, OpKind::put, OpKind::erase, OpKind::update));
  auto effects = *rc::gen::container<std::vector<bool>>(n, rc::gen::arbitrary<bool>());
  for (std::size_t i = 0; i < n; ++i)
    if (kinds[i] == OpKind::get) effects[i] = false;
  Packed const packed_keys(keys, key_width), packed_values(values, value_width);
  EncodedBatch encoded({OpKind::update, kinds, Rmw::replace, Element::u8, packed_keys.column(),
                        packed_values.column()},
                       true);
  bool const no_bytes = packed_values.column().data == nullptr;  // all values empty
  encoded.set_effects([&](std::size_t i) { return effects[i]; });
  auto const bytes = joined(encoded);

  std::vector<Bytes> left_keys, left_values;
  std::vector<OpKind> left_kinds;
  for (std::size_t i = 0; i < n; ++i) {
    if (!effects[i]) continue;
    left_keys.push_back(keys[i]);
    left_values.push_back(values[i]);
    left_kinds.push_back(kinds[i]);
  }
  auto const decoded = DecodedBatch::decode(bytes);
  RC_ASSERT(decoded.ok());
  DecodedBatch const copy = decoded.value();  // columns of its own go with it
  for (BatchOps const& back : {decoded.value().ops(), copy.ops()}) {
    RC_ASSERT(elements(back.keys) == left_keys);
    RC_ASSERT(no_bytes || elements(back.values) == left_values);
    RC_ASSERT(std::vector<OpKind>(back.kinds.begin(), back.kinds.end()) == left_kinds);
  }
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    RC_ASSERT(!DecodedBatch::decode(std::span(bytes).first(cut)).ok());
}

// Not for what it answers, but that it answers: sanitizers watch.
RC_GTEST_PROP(BatchRecord, DamagedBytesAreReadWithinBounds, ()) {
  Packed const keys(arbitrary_items(5, 0), 0);
  auto bytes =
      joined(EncodedBatch({OpKind::erase, {}, Rmw::replace, Element::u8, keys.column(), {}}));
  for (int i = 0; i < 50; ++i) {
    auto const at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    bytes[at] = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
    auto const decoded = DecodedBatch::decode(bytes);
    if (decoded.ok())
      RC_ASSERT(elements(decoded.value().ops().keys).size() == decoded.value().ops().keys.count);
  }
}

// A get changes nothing, so no log holds one; done again it would write its answer to nowhere.
TEST(BatchRecord, AGetIsNoOperationOfALog) {
  Packed const keys({"k"}, 1);
  std::vector<OpKind> const mixed{OpKind::get};
  for (BatchOps const& ops :
       {BatchOps{OpKind::get, {}, Rmw::replace, Element::u8, keys.column(), {}},
        BatchOps{OpKind::put, mixed, Rmw::replace, Element::u8, keys.column(), {}}})
    EXPECT_EQ(DecodedBatch::decode(joined(EncodedBatch(ops))).status().code(), Code::corrupt);
  EncodedBatch with_effect({OpKind::put, mixed, Rmw::replace, Element::u8, keys.column(), {}},
                           true);
  with_effect.set_effects([](std::size_t) { return true; });
  EXPECT_EQ(DecodedBatch::decode(joined(with_effect)).status().code(), Code::corrupt);
}

TEST(BatchRecord, AnotherVersionIsRefusedByName) {
  Packed const keys({"k"}, 1);
  auto bytes =
      joined(EncodedBatch({OpKind::erase, {}, Rmw::replace, Element::u8, keys.column(), {}}));
  bytes[0] = std::byte{9};
  Status const s = DecodedBatch::decode(bytes).status();
  EXPECT_EQ(s.code(), Code::corrupt);
  EXPECT_NE(s.message().find("version 9; this build reads versions 1 and 2"), std::string::npos);
}

}  // namespace
}  // namespace perdure::wal
