// A key's candidate buckets (GPHash section 3.1), and the layout they are looked up in.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "exec/bits.hpp"
#include "index/gphash/candidates.hpp"
#include "index/gphash/ops.hpp"
#include "index/gphash/table.hpp"

namespace perdure::gphash {
namespace {

TableView view_of(std::uint32_t levels, std::uint32_t hashes, std::uint32_t slots,
                  std::uint32_t top) {
  TableView t;
  t.levels = levels;
  t.hashes = hashes;
  t.slots = slots;
  std::uint64_t first = 0;
  for (std::uint32_t i = 0; i < levels; ++i) {
    t.level[i] = {Offset{(i + 1) * (std::uint64_t{1} << 30)}, first, top - i};
    first += std::uint64_t{slots} << (top - i);
  }
  return t;
}

rc::Gen<TableView> any_view() {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(1u, 9u), rc::gen::inRange(1u, 9u), rc::gen::inRange(0u, 6u),
                     rc::gen::inRange(0u, 20u)),
      [](std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t> const& p) {
        auto [levels, hashes, log2_slots, above] = p;
        while (levels * hashes << log2_slots > 32) {
          if (log2_slots > 0) {
            --log2_slots;
          } else {
            levels > hashes ? --levels : --hashes;
          }
        }
        return view_of(levels, hashes, 1u << log2_slots, levels - 1 + above);
      });
}

RC_GTEST_PROP(Candidates, EveryCandidateLiesInItsLevel, (std::uint64_t hash)) {
  TableView const t = *any_view();
  Candidates<ShapeAny> const where(t, hash);
  for (std::uint32_t g = 0; g < where.groups(t); ++g) {
    RC_ASSERT(where.bucket(t, g) < (std::uint64_t{1} << t.level[g / t.hashes].log2_buckets));
    RC_ASSERT(where.row(t, g).bytes >= where.level(t, g).base.bytes);
  }
}

RC_GTEST_PROP(Candidates, LanesAreOrderedByLevelHashSlot, (std::uint64_t hash)) {
  TableView const t = *any_view();
  Candidates<ShapeAny> const where(t, hash);
  for (std::uint32_t lane = 0; lane < t.levels * t.hashes * t.slots; ++lane) {
    std::uint32_t const level = lane / (t.hashes * t.slots);
    std::uint64_t const in_level = where.slot_number(t, lane) - t.level[level].first_slot;
    RC_ASSERT(in_level / t.slots == where.bucket(t, lane / t.slots));
    RC_ASSERT(in_level % t.slots == lane % t.slots);
  }
}

RC_GTEST_PROP(Candidates, OtherHashesStayInTheFirstOnesWindow, (std::uint64_t hash)) {
  TableView const t = *any_view();
  Candidates<ShapeAny> const where(t, hash);
  for (std::uint32_t g = 0; g < where.groups(t); ++g) {
    std::uint64_t const first = where.bucket(t, g - g % t.hashes);
    RC_ASSERT(where.bucket(t, g) >> kWindowBits == first >> kWindowBits);
  }
}

TEST(Candidates, OtherHashesReachAllOfTheWindow) {
  TableView const t = view_of(2, 2, 8, kWindowBits + 3);
  std::uint64_t lowest = ~std::uint64_t{0}, highest = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    std::uint64_t const hash = hash_bytes(reinterpret_cast<std::byte const*>(&i), sizeof i);
    std::uint64_t const in_window =
        Candidates<ShapeAny>(t, hash).bucket(t, 1) % (1u << kWindowBits);
    lowest = std::min(lowest, in_window);
    highest = std::max(highest, in_window);
  }
  EXPECT_LT(lowest, 100u);
  EXPECT_GT(highest, (1u << kWindowBits) - 100);
}

RC_GTEST_PROP(Candidates, DistinctLanesNameEachSlotOnce, (std::uint64_t hash)) {
  TableView const t = *any_view();
  Candidates<ShapeAny> const where(t, hash);
  std::set<std::uint64_t> all, distinct;
  std::uint32_t const lanes = t.levels * t.hashes * t.slots;
  std::uint32_t const mask = where.distinct_lanes(t);
  if (lanes < 32) RC_ASSERT(mask >> lanes == 0u);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    all.insert(where.slot_number(t, lane));
    if ((mask >> lane & 1) != 0) RC_ASSERT(distinct.insert(where.slot_number(t, lane)).second);
  }
  RC_ASSERT(all == distinct);
}

RC_GTEST_PROP(Candidates, TheDefaultShapeIsTheSameCompiledIn, (std::uint64_t hash)) {
  TableView const t = view_of(2, 2, 8, 1 + *rc::gen::inRange(0u, 20u));
  Candidates<ShapeAny> const any(t, hash);
  Candidates<Shape228> const known(t, hash);
  RC_ASSERT(any.distinct_lanes(t) == known.distinct_lanes(t));
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    RC_ASSERT(any.slot(t, lane) == known.slot(t, lane));
}

RC_GTEST_PROP(Candidates, AllButTheTopLevelShareBuckets, (std::uint64_t hash)) {
  // Inter-level sharing: a bucket of level i is shared by the two of level i+1 above it.
  TableView const t = *any_view();
  Candidates<ShapeAny> const where(t, hash);
  for (std::uint32_t g = t.hashes; g < where.groups(t); ++g) {
    // windows have a size of their own
    bool const whole = t.level[g / t.hashes - 1].log2_buckets <= kWindowBits;
    if (g % t.hashes == 0 || whole)
      RC_ASSERT(where.bucket(t, g) == where.bucket(t, g - t.hashes) / 2);
  }
}

RC_GTEST_PROP(Candidates, InsertsGoToTheEmptiestBucketAndTiesUpwards, (std::uint32_t bits)) {
  TableView const t = *any_view();
  std::uint32_t const lanes = t.levels * t.hashes * t.slots;
  std::uint32_t const empties = lanes == 32 ? bits : bits & ((1u << lanes) - 1);
  RC_PRE(empties != 0u);
  std::uint32_t const lane = Candidates<ShapeAny>::less_loaded(t, empties);
  RC_ASSERT((empties >> lane & 1) == 1u);
  std::uint32_t const row = t.slots == 32 ? ~0u : (1u << t.slots) - 1;
  auto const free = [&](std::uint32_t g) { return exec::popcount(empties >> (g * t.slots) & row); };
  for (std::uint32_t g = 0; g < t.levels * t.hashes; ++g) {
    RC_ASSERT(free(lane / t.slots) >= free(g));
    if (g < lane / t.slots) RC_ASSERT(free(lane / t.slots) > free(g));
  }
}

RC_GTEST_PROP(SlotWord, HoldsFingerprintAndPlace, (std::uint64_t hash)) {
  Offset const at{16 * *rc::gen::inRange<std::uint64_t>(1, std::uint64_t{1} << 40)};
  std::uint64_t const word = word::make(hash, at);
  RC_ASSERT(word != word::kEmpty);
  RC_ASSERT(word::record(word) == at);
  RC_ASSERT((word & ~word::kAddressMask) == word::fingerprint(hash));
  RC_ASSERT(word::fingerprint(hash) != 0u);
}

TEST(SlotWord, StatesAreNoFingerprints) {
  for (std::uint64_t const hash : {0ull, 1ull, 2ull, 3ull, ~0ull, 0xff000000ull}) {
    EXPECT_NE(word::fingerprint(hash), 0u);
    EXPECT_NE(in_place::fingerprint(hash), in_place::kEmpty);
    EXPECT_NE(in_place::fingerprint(hash), in_place::kInsert);
  }
}

TEST(Levels, TopLevelIsTheSmallestThatHoldsTheRecords) {
  for (Shape const shape : {Shape{2, 2, 8}, Shape{4, 2, 4}, Shape{1, 2, 16}}) {
    for (std::uint64_t const records : {1ull, 100ull, 10'000ull, 16'000'000ull}) {
      std::uint32_t const top = top_level_for(shape, records, 0.9);
      EXPECT_GE(static_cast<double>(slots_under(shape, top)) * 0.9, static_cast<double>(records));
      if (top + 1 == shape.levels) continue;  // the smallest there is
      EXPECT_LT(static_cast<double>(slots_under(shape, top - 1)) * 0.9,
                static_cast<double>(records));
    }
  }
}

}  // namespace
}  // namespace perdure::gphash
