// Bodies of gets, once for every machine. Invariant: they change nothing but the caller's output,
// its statuses, and what the caches are chosen by.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "batch/groups.hpp"
#include "index/gphash/ops.hpp"
#include "store/gphash/kernels/deferred.hpp"

namespace perdure {

using exec::Counts;

/// Bytes of a value worth prefetching.
inline constexpr std::uint64_t kPrefetch = 128;

enum class GetMode {
  copy,
  locate,
  find,  // its record stays unread: GatherFoundBody comes to it
};

/// One get an item, in the caller's order. Stages: candidates; slot words; record.
template <class Ops, GetMode kMode>
struct GetBody {
  using Where = typename Ops::Where;
  static constexpr int kStages = 3;
  BatchView batch;
  gphash::TableView table;

  template <class W>
  struct State {
    KeyRef key;
    Where where;
    typename W::Lanes lanes;
    bool live;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t i, State<W>& s, Counts& counts) const {
    if constexpr (kStage == 0) {
      s.live = batch.takes_part(i);
      if (!s.live) return;
      s.key = {batch.keys.at(i), batch.keys.size(i), 0};
      s.key.hash = hash_bytes(s.key.data, s.key.bytes);
      s.where.set(table, s.key.hash);
      Ops::prefetch(warp, mem, table, s.where);
    } else if constexpr (kStage == 1) {
      if (!s.live) return;
      s.lanes = Ops::probe(warp, mem, table, s.where);
      Offset const record = Ops::likely_record(warp, table, s.lanes, s.key.hash);
      if (record && table.may_hold(record)) table.prefetch_record(warp, mem, record, kPrefetch);
    } else {
      if (!s.live) return;
      auto found = Ops::find(warp, mem, table, s.where, s.lanes, s.key);
      if constexpr (Ops::kCachesBuckets) note_buckets(warp, i, s.where, found, counts);
      if constexpr (kMode == GetMode::find) {
        put_aside(warp, i, found);
      } else {
        answer(warp, mem, i, found, counts);
      }
    }
  }

  /// Of a pool whose addresses fit an entry.
  template <class W>
  PERDURE_FN void put_aside(W& warp, std::uint64_t i, gphash::Found const& found) const {
    warp.elect([&] {
      batch.status[i] = code(found.hit ? KeyStatus::ok : KeyStatus::not_found);
      batch.located[i] = found.hit ? Deferred::entry(found.at, 0, i) : Deferred::kNone;
      return std::uint64_t{0};
    });
  }

  /// What the bucket cache's next load goes by: where the key was found, or all the places where it
  /// was not. And, where it is asked for, whether the cache had it.
  template <class W>
  PERDURE_FN void note_buckets(W& warp, std::uint64_t i, Where const& where,
                               gphash::Found const& found, Counts& counts) const {
    if (found.cached) ++counts[BatchCounts::cached];
    if (batch.uses == BatchView::Uses::ignored) return;
    PERDURE_ASSERT(!kCostlyAssertions || table.buckets.uses != nullptr);
    warp.elect([&] {
      if (found.hit) {
        batch.note_use<W>(i, table.buckets.uses + Ops::bucket_of_lane(table, where, found.lane));
      } else {
        for (std::uint32_t g = 0; g < Where::groups(table); ++g)
          batch.note_use<W>(i, table.buckets.uses + Ops::bucket(table, where, g));
      }
      return std::uint64_t{0};
    });
  }

  /// Whether the value is one that the caller's rows take.
  PERDURE_FN bool fits(gphash::Found const& found) const {
    return found.record.header.value_bytes == batch.row_bytes;
  }

  /// Whether the record is whole, or need not be looked at. Of a key that was found, its value is
  /// in the caller's array then, if that takes it.
  template <class W>
  PERDURE_FN bool whole(W& warp, std::uint64_t i, gphash::Found const& found) const {
    if (kMode == GetMode::locate || !found.hit || !fits(found))
      return !batch.verify || pm::intact(warp, found.record);
    PERDURE_ASSERT(!kCostlyAssertions || batch.out != nullptr);
    std::byte* const to = batch.out + i * batch.row_bytes;
    if (batch.verify) return pm::copy_intact(warp, found.record, to);
    warp.copy(to, found.record.value, batch.row_bytes);
    return true;
  }

  template <class W, class M>
  PERDURE_FN void answer(W& warp, M& mem, std::uint64_t i, gphash::Found& found,
                         Counts& counts) const {
    if (found.hit && !found.read) Ops::read_record(mem, table, found);
    std::uint8_t status = code(found.hit ? KeyStatus::ok : KeyStatus::not_found);
    if (found.at) {  // no hit, but a fingerprint that matched: perhaps this very key, damaged
      bool const odd = found.hit && table.value_bytes != 0 &&
                       found.record.header.value_bytes != table.value_bytes;
      if (odd || !whole(warp, i, found)) {
        status = code(KeyStatus::corrupt);
        ++counts[BatchCounts::corrupt];
      } else if (kMode == GetMode::copy && found.hit && !fits(found)) {
        status = code(KeyStatus::size_mismatch);
      }
    }
    warp.elect([&] {
      batch.status[i] = status;
      if (kMode == GetMode::locate) {
        bool const there = status == code(KeyStatus::ok);
        batch.located[i] = there ? found.at.bytes : 0;
        batch.lengths[i] = there ? found.record.header.value_bytes : 0;
      }
      return std::uint64_t{0};
    });
  }
};

/// Second half of a variable-length get: copies each located value to its place in the output.
struct CopyLocatedBody {
  static constexpr int kStages = 1;
  BatchView batch;
  gphash::TableView table;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t i, State<W>&, Counts&) const {
    Offset const at{batch.located[i]};
    if (!at) return;
    PERDURE_ASSERT(!kCostlyAssertions || table.may_hold(at));  // the get looked
    warp.copy(batch.out + batch.out_offsets[i], table.value_of(mem, at), batch.lengths[i]);
  }
};

/// After gets that found records: copies and checks their values, 32 entries an item, in the order
/// of their addresses. Of records that lie split, with heads.
struct GatherFoundBody {
  static constexpr int kStages = 2;
  static constexpr std::uint32_t kKeys = kKeysPerItem;
  static constexpr bool kWaitsForLink = true;  // as GatherBody
  BatchView batch;
  gphash::TableView table;
  std::uint64_t const* entries = nullptr;

  template <class W>
  struct State {
    typename W::template Each<std::uint64_t> entry;
    std::uint32_t found;  // lanes that have one
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>& s, Counts& counts) const {
    std::uint64_t const first = item * kKeysPerItem;
    if constexpr (kStage == 0) {
      s.found = warp.ballot([&](std::uint32_t lane) {
        s.entry[lane] = first + lane < batch.n ? entries[first + lane] : Deferred::kNone;
        return Deferred::is_entry(s.entry[lane]);
      });
      warp.each([&](std::uint32_t lane) {
        if ((s.found >> lane & 1) == 0) return;
        warp.prefetch(mem.peek(at(s.entry[lane])), table.value_bytes);
        warp.prefetch(head(mem, s.entry[lane]), table.records.head_stride);
      });
    } else {
      copy(warp, mem, s, counts);
    }
  }

 private:
  PERDURE_FN static Offset at(std::uint64_t entry) {
    return Offset{Deferred::address(entry) * pm::kRecordAlign};
  }
  template <class M>
  PERDURE_FN std::byte const* head(M& mem, std::uint64_t entry) const {
    return mem.peek(table.records.head(at(entry)));
  }

  template <class W, class M>
  PERDURE_FN void copy(W& warp, M& mem, State<W>& s, Counts& counts) const {
    auto const to = [&](std::uint32_t lane) {
      return batch.out + Deferred::operation(s.entry[lane]) * table.value_bytes;
    };
    auto const from = [&](std::uint32_t lane) { return mem.peek(at(s.entry[lane])); };
    typename W::template Each<std::uint32_t> sums;
    mem.read_each(s.found);
    warp.copy_each(s.found, table.value_bytes, to, from, batch.verify ? &sums : nullptr);
    if (!batch.verify) return;
    std::uint32_t const corrupt = warp.ballot([&](std::uint32_t lane) {
      return (s.found >> lane & 1) != 0 &&
             !pm::head_says(warp, table.records, head(mem, s.entry[lane]), from(lane), sums[lane]);
    });
    counts[BatchCounts::corrupt] += exec::popcount(corrupt);
    warp.each([&](std::uint32_t lane) {
      if ((corrupt >> lane & 1) != 0)
        batch.status[Deferred::operation(s.entry[lane])] = code(KeyStatus::corrupt);
    });
  }
};

}  // namespace perdure
