// The record heap against a plain set: no record twice, none overlapping another, none lost.
#include "pm/heap.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "support/store_driver.hpp"
#include "units/memfd_pool.hpp"

namespace perdure::pm {
namespace {

/// What was handed out: offset -> stride.
using Held = std::map<std::uint64_t, std::uint64_t>;

void check(RecordHeap const& heap, Pool const& pool, Held const& held) {
  RC_ASSERT(heap.records_in_use() == held.size());
  std::uint64_t end = kMinSuperblock;  // superblock 0 is the header's
  for (auto const& [at, stride] : held) {
    // One assertion a record: rapidcheck writes each down, whether it holds or not.
    bool const lies_right =
        at >= end && at % kRecordAlign == 0 && at % kMinSuperblock >= kFirstRecord &&
        at / kMinSuperblock == (at + stride - 1) / kMinSuperblock && at + stride <= pool.bytes();
    bool const is_known =
        heap.in_use(Offset{at}) && heap.room(Offset{at}) == stride &&
        (!heap.in_use(Offset{at + kRecordAlign}) || held.contains(at + kRecordAlign));
    if (!lies_right || !is_known)
      RC_FAIL("record of " + std::to_string(stride) + " bytes at " + std::to_string(at) +
              (lies_right ? ": not known" : ": lies wrong") + "; the one before ends at " +
              std::to_string(end));
    end = at + stride;
  }
}

/// Another heap of the same pool, as the next opening rebuilds it from what the slots lead to.
void check_recovery(Pool& pool, Held const& held) {
  RecordHeap fresh(pool);
  for (std::uint64_t i = 1; i < pool.superblocks(); ++i)
    pool.give_run(Offset{i * kMinSuperblock}, 1);
  fresh.find_superblocks();
  using Mark = RecordHeap::Mark;
  for (auto const& [at, stride] : held) {
    bool const good = fresh.mark(fresh.bit_to_mark(Offset{at})) == Mark::first &&
                      fresh.mark(fresh.bit_to_mark(Offset{at})) == Mark::again &&
                      fresh.mark(fresh.bit_to_mark(Offset{at + 8})) == Mark::invalid;
    if (!good) RC_FAIL("the record at " + std::to_string(at) + " is marked wrong");
  }
  RC_ASSERT(fresh.mark(fresh.bit_to_mark(Offset{0})) == RecordHeap::Mark::invalid);
  RC_ASSERT(fresh.mark(fresh.bit_to_mark(Offset{pool.bytes()})) == RecordHeap::Mark::invalid);
  RC_ASSERT(fresh.mark(fresh.bit_to_mark(Offset{~std::uint64_t{15}})) == RecordHeap::Mark::invalid);
  fresh.finish_recovery();
  check(fresh, pool, held);
}

RC_GTEST_PROP(RecordHeap, HandsOutDisjointRecordsAndTakesThemBack, ()) {
  Pool pool = make_pool(2, 12);
  RecordHeap heap(pool);
  Held held;
  auto const steps = *rc::gen::inRange(1, 40);
  for (int step = 0; step < steps; ++step) {
    if (*rc::gen::inRange(0, 3) > 0) {
      auto const stride = *rc::gen::element<std::uint64_t>(16, 32, 48, 160, 4096, 70'000, 250'000);
      auto const most = std::min<std::uint64_t>(600'000 / stride, test::volume(40'000));
      auto const n = *rc::gen::inRange<std::uint64_t>(0, 1 + most);
      std::vector<std::uint64_t> out(n);
      if (!heap.reserve(stride, n, out.data()).ok()) {
        check(heap, pool, held);  // all or none
        continue;
      }
      for (std::uint64_t const at : out) RC_ASSERT(held.emplace(at, stride).second);
    } else {
      auto const every = *rc::gen::inRange<std::size_t>(1, 4);
      std::size_t i = 0;
      for (auto it = held.begin(); it != held.end();) {
        if (i++ % every != 0) {
          ++it;
          continue;
        }
        heap.release(Offset{it->first});
        it = held.erase(it);
      }
    }
    check(heap, pool, held);
  }
  check_recovery(pool, held);
}

/// Before the sweep has ended nothing of the superblocks that were there is handed out; then just
/// what is free is.
RC_GTEST_PROP(RecordHeap, WhatIsClaimedIsFreeOnlyOnceASweepHasSeenWhatIsReached, ()) {
  Pool pool = make_pool(2, 24);
  Held held;
  auto const reserve = [&](RecordHeap& heap, std::uint64_t stride, std::uint64_t n) {
    std::vector<std::uint64_t> out(n);
    if (!heap.reserve(stride, n, out.data()).ok()) return;
    for (std::uint64_t const at : out) RC_ASSERT(held.emplace(at, stride).second);
  };
  auto const release_some = [&](RecordHeap& heap) {
    auto const every = *rc::gen::inRange<std::size_t>(2, 5);
    std::size_t i = 0;
    for (auto it = held.begin(); it != held.end();) {
      bool const goes = i++ % every == 0;
      if (goes) heap.release(Offset{it->first});
      it = goes ? held.erase(it) : std::next(it);
    }
  };
  {
    RecordHeap before(pool);
    for (std::uint64_t const stride : {1600u, 4096u, 70'000u})
      reserve(before, stride, *rc::gen::inRange<std::uint64_t>(0, 1 + 1'500'000 / stride));
    release_some(before);
  }
  RecordHeap heap(pool);
  for (std::uint64_t i = 1; i < pool.superblocks(); ++i)
    pool.give_run(Offset{i * kMinSuperblock}, 1);
  heap.claim_superblocks();
  reserve(heap, 1600, 100);
  release_some(heap);
  heap.begin_sweep();
  bool const interrupted = *rc::gen::arbitrary<bool>();
  for (int pass = interrupted ? 0 : 1; pass < 2; ++pass) {
    if (pass == 1 && interrupted) heap.begin_sweep();
    std::size_t const most = pass == 1 ? held.size() : held.size() / 2;
    std::size_t marked = 0;
    for (auto const& [at, stride] : held)
      if (marked++ < most) heap.mark_reached(Offset{at});
  }
  release_some(heap);
  reserve(heap, 4096, 100);
  heap.mark_reached(Offset{pool.bytes() + 64});
  heap.finish_sweep();
  check(heap, pool, held);
  reserve(heap, 1600, 1000);
  reserve(heap, 70'000, 20);
  check(heap, pool, held);
  check_recovery(pool, held);
}

TEST(RecordHeap, RefusesWhatDoesNotFitAndKeepsNothingOfIt) {
  Pool pool = make_pool(2, 3);
  RecordHeap heap(pool);
  std::vector<std::uint64_t> out(100);
  std::uint64_t const each = (kMinSuperblock - kFirstRecord) / 100'000;
  EXPECT_EQ(heap.reserve(100'000, 2 * each + 1, out.data()).code(), Code::no_space);
  EXPECT_EQ(heap.records_in_use(), 0u);
  EXPECT_TRUE(heap.reserve(100'000, 2 * each, out.data()).ok());
  EXPECT_EQ(heap.reserve(16, 1, out.data() + 2 * each).code(), Code::no_space);
}

TEST(RecordHeap, ReleasingWhatIsNoRecordDoesNothing) {
  Pool pool = make_pool(2, 4);
  RecordHeap heap(pool);
  std::uint64_t at = 0;
  ASSERT_TRUE(heap.reserve(64, 1, &at).ok());
  for (std::uint64_t const wrong :
       {std::uint64_t{0}, at + 16, at + 64, at + kMinSuperblock, pool.bytes() + 64}) {
    heap.release(Offset{wrong});
  }
  EXPECT_EQ(heap.records_in_use(), 1u);
  heap.release(Offset{at});
  heap.release(Offset{at});
  EXPECT_EQ(heap.records_in_use(), 0u);
}

TEST(RecordHeap, EmptySuperblocksServeOtherStrides) {
  Pool pool = make_pool(2, 4);
  RecordHeap heap(pool);
  for (std::uint64_t const stride : {64u, 160u, 4096u, 100'000u, 16u, 64u}) {
    std::uint64_t const n = 3 * ((kMinSuperblock - kFirstRecord) / stride);
    std::vector<std::uint64_t> out(n);
    ASSERT_TRUE(heap.reserve(stride, n, out.data()).ok()) << "stride " << stride;
    for (std::uint64_t const at : out) heap.release(Offset{at});
  }
}

TEST(RecordHeap, ADamagedSuperblockThatSlotsLeadIntoIsLeftAlone) {
  Pool pool = make_pool(2, 2);
  std::uint64_t at = 0;
  {
    RecordHeap heap(pool);
    ASSERT_TRUE(heap.reserve(64, 1, &at).ok());
    pool.give_run(Offset{kMinSuperblock}, 1);
  }
  pool.base()[kMinSuperblock + 4] ^= std::byte{1};
  RecordHeap heap(pool);
  heap.find_superblocks();
  EXPECT_EQ(heap.mark(heap.bit_to_mark(Offset{at})), RecordHeap::Mark::invalid);
  heap.finish_recovery();
  std::uint64_t other = 0;
  EXPECT_EQ(heap.reserve(64, 1, &other).code(), Code::no_space)
      << "the only superblock may hold records";
}

RC_GTEST_PROP(Strides, HoldTheRecordAndWasteLittle, ()) {
  auto const bytes = *rc::gen::inRange<std::uint64_t>(1, 1u << 20);
  RC_ASSERT(stride_for(bytes) >= bytes);
  RC_ASSERT(stride_for(bytes) % kRecordAlign == 0u);
  RC_ASSERT(stride_for(bytes) <= std::max(aligned_up(bytes, kRecordAlign), bytes + bytes / 8));
  RC_ASSERT(stride_for(stride_for(bytes)) == stride_for(bytes));
}

PoolHeader fixed_pool(std::uint32_t key_bytes, std::uint32_t value_bytes, std::uint8_t layout) {
  PoolHeader h{};
  h.superblock_bytes = kMinSuperblock;
  h.key_bytes = key_bytes;
  h.value_bytes = value_bytes;
  h.layout = layout;
  return h;
}

RC_GTEST_PROP(Divisors, DivideAsDivisionDoes, ()) {
  auto const most = ~std::uint32_t{0};
  auto const by = *rc::gen::inRange<std::uint32_t>(2, most);
  Divisor const divisor(by);
  auto const near = *rc::gen::inRange<std::uint32_t>(0, most / by) * by;
  for (std::uint32_t const n :
       {*rc::gen::arbitrary<std::uint32_t>(), near, near + by - 1, by - 1, by, 0u, most})
    RC_ASSERT(divisor.divides(n) == n / by);
}

RC_GTEST_PROP(SplitRecords, LieApartInGroupsWithTheirHeadsBeforeThem, ()) {
  auto const key_bytes = *rc::gen::inRange<std::uint32_t>(1, 129);
  auto const value_bytes = *rc::gen::inRange<std::uint32_t>(1, 800);
  auto const layout = *rc::gen::element<std::uint8_t>(0, 1);
  RecordShape const shape(fixed_pool(key_bytes, value_bytes, layout));
  RC_ASSERT(shape.split());
  std::uint64_t const stride = shape.split_stride();
  std::uint64_t const n = shape.capacity(stride);
  RC_ASSERT(n * stride <= kMinSuperblock - kFirstRecord);
  RC_ASSERT((n + RecordShape::kGroup) * stride > kMinSuperblock - kFirstRecord);
  std::map<std::uint64_t, std::uint64_t> taken;  // begin -> end, in superblock 3
  std::uint64_t const head_bytes = sizeof(RecordHead) + shape.key_bytes;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t const inside = shape.address(stride, i);
    std::uint64_t back = n;
    RC_ASSERT(shape.index(stride, inside, back));
    RC_ASSERT(back == i);
    std::uint64_t const at = 3 * kMinSuperblock + inside;
    std::uint64_t const head = shape.head(Offset{at}).bytes;
    RC_ASSERT(at % kRecordAlign == 0u);
    if (value_bytes % 128 == 0) RC_ASSERT(at % 128 == 0u);
    RC_ASSERT(head >= 3 * kMinSuperblock + kFirstRecord);
    RC_ASSERT(taken.emplace(at, at + value_bytes).second);
    RC_ASSERT(taken.emplace(head, head + head_bytes).second);
  }
  std::uint64_t end = 0;
  for (auto const& [from, to] : taken) {
    RC_ASSERT(from >= end);
    end = to;
  }
  RC_ASSERT(end <= 4 * kMinSuperblock);
}

RC_GTEST_PROP(BareRecords, AreValuesSideBySideAsManyAsFit, ()) {
  auto const value_bytes = *rc::gen::inRange<std::uint32_t>(1, 5000);
  RecordShape const shape(fixed_pool(*rc::gen::inRange<std::uint32_t>(1, 9), value_bytes, 2));
  RC_ASSERT(shape.bare());
  std::uint64_t const stride = shape.split_stride(), n = shape.capacity(stride);
  RC_ASSERT(stride == aligned_up(value_bytes, kRecordAlign));
  RC_ASSERT(n == (kMinSuperblock - kFirstRecord) / stride);
  auto const inside = *rc::gen::inRange<std::uint64_t>(0, kMinSuperblock);
  std::uint64_t i = n;
  bool const is_one = inside >= kFirstRecord && (inside - kFirstRecord) % stride == 0 &&
                      (inside - kFirstRecord) / stride < n;
  RC_ASSERT(shape.index(stride, inside, i) == is_one);
  if (is_one) RC_ASSERT(shape.address(stride, i) == inside);
  for (std::uint64_t const record : {std::uint64_t{0}, n / 2, n - 1}) {
    RC_ASSERT(shape.index(stride, shape.address(stride, record), i));
    RC_ASSERT(i == record);
  }
}

RC_GTEST_PROP(SplitRecords, AreFoundAtTheirPlacesAlone, ()) {
  RecordShape const shape(fixed_pool(*rc::gen::inRange<std::uint32_t>(1, 129),
                                     *rc::gen::inRange<std::uint32_t>(1, 800),
                                     *rc::gen::element<std::uint8_t>(0, 1)));
  std::uint64_t const stride = shape.split_stride();
  auto const inside = *rc::gen::inRange<std::uint64_t>(0, kMinSuperblock);
  std::uint64_t i = 0;
  if (shape.index(stride, inside, i)) RC_ASSERT(shape.address(stride, i) == inside);
  // Whatever a damaged pool leads to, its head is looked for in the same superblock.
  std::uint64_t const head = shape.head(Offset{5 * kMinSuperblock + inside}).bytes;
  RC_ASSERT(head >= 5 * kMinSuperblock);
  RC_ASSERT(head + sizeof(RecordHead) + shape.key_bytes <= 6 * kMinSuperblock);
}

TEST(SplitRecords, OfEightByteKeysShareLinesAndLongOnesLieWhole) {
  RecordShape const usual(fixed_pool(8, 128, 0));
  EXPECT_EQ(usual.split_stride(), 144u);
  EXPECT_EQ(usual.heads_bytes(), 256u);
  EXPECT_FALSE(RecordShape(fixed_pool(8, 2048, 0)).split());
  EXPECT_FALSE(RecordShape(fixed_pool(0, 128, 0)).split());
  EXPECT_FALSE(RecordShape(fixed_pool(8, 0, 0)).split());
}

TEST(Strides, AreFew) {
  std::map<std::uint64_t, int> strides;
  for (std::uint64_t bytes = 128; bytes < (1u << 20); ++bytes) ++strides[stride_for(bytes)];
  EXPECT_LE(strides.size(), 8u * 13 + 1) << "eight an octave";
}

}  // namespace
}  // namespace perdure::pm
