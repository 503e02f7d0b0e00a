// The record heap against a plain set: no record twice, none overlapping another, none lost.
#include "pm/heap.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <vector>

namespace perdure::pm {
namespace {

Pool make_pool(std::uint64_t superblocks, std::uint64_t max_superblocks) {
  PoolHeader shape{};
  shape.superblock_bytes = kMinSuperblock;
  shape.max_bytes = max_superblocks * kMinSuperblock;
  auto pool = Pool::create("memfd:heap", shape, superblocks, false, {});
  if (!pool) throw std::runtime_error(pool.status().message());
  return std::move(*pool);
}

/// What was handed out: offset -> stride.
using Held = std::map<std::uint64_t, std::uint64_t>;

void check(RecordHeap const& heap, Pool const& pool, Held const& held) {
  RC_ASSERT(heap.records_in_use() == held.size());
  std::uint64_t end = kMinSuperblock;  // superblock 0 is the header's
  for (auto const& [at, stride] : held) {
    RC_ASSERT(at >= end);
    end = at + stride;
    RC_ASSERT(at % kRecordAlign == 0u);
    RC_ASSERT(at % kMinSuperblock >= kFirstRecord);
    RC_ASSERT(at / kMinSuperblock == (end - 1) / kMinSuperblock);
    RC_ASSERT(end <= pool.bytes());
    RC_ASSERT(heap.in_use(Offset{at}));
    RC_ASSERT(heap.room(Offset{at}) == stride);
    RC_ASSERT(!heap.in_use(Offset{at + kRecordAlign}) || held.contains(at + kRecordAlign));
  }
}

/// Another heap of the same pool, as the next opening rebuilds it from what the slots lead to.
void check_recovery(Pool& pool, Held const& held) {
  RecordHeap fresh(pool);
  for (std::uint64_t i = 1; i < pool.superblocks(); ++i) pool.give_run(Offset{i * kMinSuperblock}, 1);
  fresh.find_superblocks();
  for (auto const& [at, stride] : held) {
    RC_ASSERT(fresh.mark(Offset{at}) == RecordHeap::Mark::first);
    RC_ASSERT(fresh.mark(Offset{at}) == RecordHeap::Mark::again);
    RC_ASSERT(fresh.mark(Offset{at + 8}) == RecordHeap::Mark::invalid);
  }
  RC_ASSERT(fresh.mark(Offset{0}) == RecordHeap::Mark::invalid);
  RC_ASSERT(fresh.mark(Offset{pool.bytes()}) == RecordHeap::Mark::invalid);
  RC_ASSERT(fresh.mark(Offset{~std::uint64_t{15}}) == RecordHeap::Mark::invalid);
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
      auto const n = *rc::gen::inRange<std::uint64_t>(0, 1 + (600'000 / stride));
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
  for (std::uint64_t const wrong : {std::uint64_t{0}, at + 16, at + 64, at + kMinSuperblock, pool.bytes() + 64}) {
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
  EXPECT_EQ(heap.mark(Offset{at}), RecordHeap::Mark::invalid);
  heap.finish_recovery();
  std::uint64_t other = 0;
  EXPECT_EQ(heap.reserve(64, 1, &other).code(), Code::no_space) << "the only superblock may hold records";
}

RC_GTEST_PROP(Strides, HoldTheRecordAndWasteLittle, ()) {
  auto const bytes = *rc::gen::inRange<std::uint64_t>(1, 1u << 20);
  RC_ASSERT(fixed_stride(bytes) >= bytes);
  RC_ASSERT(fixed_stride(bytes) < bytes + kRecordAlign);
  RC_ASSERT(fixed_stride(bytes) % kRecordAlign == 0u);
  RC_ASSERT(stride_for(bytes) >= bytes);
  RC_ASSERT(stride_for(bytes) % kRecordAlign == 0u);
  RC_ASSERT(stride_for(bytes) <= std::max(fixed_stride(bytes), bytes + bytes / 8));
  RC_ASSERT(stride_for(stride_for(bytes)) == stride_for(bytes));
}

TEST(Strides, AreFew) {
  std::map<std::uint64_t, int> strides;
  for (std::uint64_t bytes = 128; bytes < (1u << 20); ++bytes) ++strides[stride_for(bytes)];
  EXPECT_LE(strides.size(), 8u * 13 + 1) << "eight an octave";
}

}  // namespace
}  // namespace perdure::pm
