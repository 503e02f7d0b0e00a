// The undo log of lines, against a plain copy of what a transaction stores to: a crash leaves what
// the last commit left, wherever it comes, and however often recovery has to begin again; and the
// maps of the heap, which an opening reads instead of the records.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "pm/counted_host.hpp"
#include "pm/heap.hpp"
#include "pm/host.hpp"
#include "units/driven_log.hpp"

namespace perdure::pm {
namespace {

RC_GTEST_PROP(UndoLines, LeaveWhatTheLastCommitLeft, ()) {
  Pool pool = make_pool(3);
  Driven driven(pool);
  auto committed = driven.copy();
  auto const transactions = *rc::gen::inRange(1, 12);
  for (int i = 0; i < transactions; ++i) {
    driven.log().begin();
    auto const stores = *rc::gen::inRange(0, 60);
    for (int s = 0; s < stores; ++s) {
      auto const word = *rc::gen::inRange<std::uint64_t>(0, 200);
      auto const value = *rc::gen::arbitrary<std::uint64_t>();
      if (*rc::gen::inRange(0, 4) == 0)
        driven.store_announced(word, *rc::gen::inRange<std::uint64_t>(0, 30), value);
      else
        driven.store(word, value);
    }
    if (*rc::gen::arbitrary<bool>()) {
      driven.log().commit();
      committed = driven.copy();
    } else if (*rc::gen::arbitrary<bool>()) {
      RC_ASSERT(driven.log().undo().ok());  // in its place
    } else {
      driven.crash();
      RC_ASSERT(driven.log().undo().ok());
    }
    RC_ASSERT(driven.copy() == committed);
  }
}

/// What a piece of a transaction flushed, and how often it waited.
template <class F>
LineCounts counts_of(Driven& driven, Pool& pool, F f) {
  TransactionHost<CountedHost> host(driven.log(), DurableRange(pool.addresses()));
  f(host);
  return host.counts();
}

TEST(UndoLines, TakeOneLineForTheWordsOfAnother) {
  Pool pool = make_pool(3);
  Driven driven(pool);
  driven.log().begin();
  auto const counts = counts_of(driven, pool, [&](auto& host) {
    for (std::uint64_t word = 2; word < 8; ++word) host.store(driven.words() + word, 1);
  });
  EXPECT_EQ(counts.lines_flushed, 1u);
  EXPECT_EQ(counts.fences, 1u);
  auto const rest = counts_of(driven, pool, [&](auto& host) {
    for (std::uint64_t word = 0; word < 8; ++word) host.store(driven.words() + word, 2);
  });
  EXPECT_EQ(rest.lines_flushed, 1u) << "two words were left";
  EXPECT_EQ(rest.fences, 1u);
}

TEST(UndoLines, TakeOneLineForPairsOfTwoLinesThatAreAnnounced) {
  Pool pool = make_pool(3);
  Driven driven(pool);
  driven.log().begin();
  std::uint64_t* const words = driven.words();
  auto const counts = counts_of(driven, pool, [&](auto& host) {
    will_store(host, {{words + 1, 8}, {words + 22, 16}});
    for (std::uint64_t const word : {1, 22, 23}) host.store(words + word, 1);
  });
  EXPECT_EQ(counts.lines_flushed, 1u);
  EXPECT_EQ(counts.fences, 1u);
}

TEST(UndoLines, GrowWithATransactionAndAreUsedAgain) {
  Pool pool = make_pool(3);
  Driven driven(pool);
  auto const before = driven.copy();
  auto const store_all = [&](std::uint64_t value) {
    for (std::uint64_t line = 0; line < kWords / 8; ++line)
      for (int half = 0; half < 2; ++half) driven.store(line * 8 + half, value);
  };
  driven.log().begin();
  store_all(1);
  std::uint64_t const grown = driven.log().superblocks();
  EXPECT_EQ(grown, 2u) << "16,384 lines, and 16,320 entries a superblock";
  driven.crash();
  EXPECT_EQ(driven.log().superblocks(), grown);
  auto undone = driven.log().undo();
  ASSERT_TRUE(undone.ok());
  EXPECT_EQ(*undone, kWords / 8) << "each line once";
  EXPECT_TRUE(driven.copy() == before);
  driven.log().begin();
  store_all(2);
  driven.log().commit();
  EXPECT_EQ(driven.log().superblocks(), grown);
}

TEST(UndoLines, HaveAllThatCountsAsLoggedWhereThereIsNoRoom) {
  EXPECT_EQ(words_lost_without_room(), 0u);
}

TEST(UndoLines, ThatGrewGiveBackWhatTheyDoNotKeep) {
  Pool pool = make_pool(3);
  Driven driven(pool);
  driven.log().begin();
  for (std::uint64_t chunk = 0; chunk < 17 * (UndoLines::kMostKept + 2); ++chunk)
    (void)driven.log().next_chunk();
  EXPECT_EQ(driven.log().superblocks(), UndoLines::kMostKept + 2);
  std::uint64_t const taken = pool.superblocks_in_use();
  ASSERT_TRUE(driven.log().undo().ok());
  EXPECT_EQ(driven.log().superblocks(), UndoLines::kMostKept);
  EXPECT_EQ(pool.superblocks_in_use(), taken - 2);
  driven.crash();
  EXPECT_EQ(driven.log().superblocks(), UndoLines::kMostKept) << "an opening finds no more of it";
}

TEST(UndoLines, UndoAgainWhereACrashCutsARecoveryOff) {
  Pool pool = make_pool(3);
  Driven driven(pool);
  auto const before = driven.copy();
  driven.log().begin();
  for (std::uint64_t word = 0; word < 100; ++word) driven.store(word, word + 1);
  driven.crash();
  ASSERT_TRUE(driven.log().undo().ok());
  driven.set_ended(driven.log().ended() - 1);  // had not arrived
  driven.words()[3] = 77;  // nor had this line
  driven.crash();
  auto undone = driven.log().undo();
  ASSERT_TRUE(undone.ok());
  EXPECT_EQ(*undone, 25u) << "13 lines, all but the last in two pieces";
  EXPECT_TRUE(driven.copy() == before);
}

TEST(UndoLines, OfEarlierTransactionsAreNothing) {
  Pool pool = make_pool(3);
  Driven driven(pool);
  driven.log().begin();
  for (std::uint64_t word = 0; word < 80; word += 8) driven.store(word, 1);
  driven.log().commit();
  auto const committed = driven.copy();
  driven.log().begin();
  driven.store(0, 2);
  driven.crash();
  auto undone = driven.log().undo();
  ASSERT_TRUE(undone.ok());
  EXPECT_EQ(*undone, 1u);
  EXPECT_TRUE(driven.copy() == committed);
}

TEST(UndoLines, ThatACrashToreAreNothing) {
  Pool pool = make_pool(3);
  Driven driven(pool);
  driven.log().begin();
  for (std::uint64_t word = 0; word < 80; word += 8) driven.store(word, 1);
  driven.log().commit();
  driven.log().begin();
  driven.store(0, 2);
  UndoEntry torn;  // its first half arrived, over one of the transaction before
  std::memcpy(&torn, driven.entry(1), sizeof torn);
  torn.transaction = static_cast<std::uint32_t>(driven.log().transaction());
  torn.pieces[0] += 8 * kCacheLine;
  std::memcpy(driven.entry(1), &torn, sizeof torn);
  driven.crash();
  auto undone = driven.log().undo();
  ASSERT_TRUE(undone.ok());
  EXPECT_EQ(*undone, 1u);
}

// ------------------------------------------------------------------------------------------------

PoolHeader mapped() {
  PoolHeader shape{};
  shape.superblock_bytes = kMinSuperblock;
  shape.index = 3;
  shape.persist = 2;
  return shape;
}

/// What a commit writes.
void write_maps(Pool& pool, RecordHeap& heap) {
  heap.for_each_changed_line([&](Offset at, std::uint64_t const* words) {
    write_bytes(pool.base() + at.bytes, words, kCacheLine);
  });
  heap.maps_written();
}

RC_GTEST_PROP(HeapMaps, SayWhatIsInUseAtTheNextOpening, ()) {
  auto made = Pool::create("memfd:maps", mapped(), 2, {}, {});
  RC_ASSERT(made.ok());
  Pool pool = std::move(*made);
  auto heap = std::make_unique<RecordHeap>(pool);
  std::set<std::uint64_t> held;
  auto const steps = *rc::gen::inRange(1, 12);
  for (int step = 0; step < steps; ++step) {
    auto const n = *rc::gen::inRange<std::uint64_t>(1, 3000);
    std::vector<std::uint64_t> out(n);
    auto const stride = *rc::gen::element<std::uint64_t>(32, 48, 256, 1024, 1536);
    RC_ASSERT(heap->reserve(stride, n, out.data()).ok());
    for (std::uint64_t const at : out) {
      RC_ASSERT(held.insert(at).second);
      RC_ASSERT(stride % 256 != 0 || at % 256 == 0);
    }
    auto const every = *rc::gen::inRange<std::uint64_t>(1, 5);
    std::uint64_t i = 0;
    for (auto it = held.begin(); it != held.end();)
      if (i++ % every == 0) {
        heap->release(Offset{*it});
        it = held.erase(it);
      } else {
        ++it;
      }
    write_maps(pool, *heap);
    if (*rc::gen::arbitrary<bool>()) continue;
    for (std::uint64_t s = 1; s < pool.superblocks(); ++s)
      pool.give_run(Offset{s * kMinSuperblock}, 1);
    heap = std::make_unique<RecordHeap>(pool);
    heap->load_superblocks();
    RC_ASSERT(heap->records_in_use() == held.size());
    for (std::uint64_t const at : held)
      if (!heap->in_use(Offset{at})) RC_FAIL("lost " + std::to_string(at));
  }
}

TEST(HeapMaps, LieBehindTheLastRecordOfASuperblock) {
  RecordShape const shape(mapped());
  for (std::uint64_t stride = 32; stride < 300'000; stride += stride < 4096 ? 16 : 4096) {
    std::uint64_t const n = shape.capacity(stride);
    EXPECT_LE(shape.address(stride, n - 1) + stride, shape.map_address(stride));
    EXPECT_GE(RecordShape::map_bytes(n) * 8, n);
    EXPECT_GT(shape.first + (n + 1) * stride + RecordShape::map_bytes(n + 1), kMinSuperblock)
        << "room for one more, stride " << stride;
  }
}

}  // namespace
}  // namespace perdure::pm
