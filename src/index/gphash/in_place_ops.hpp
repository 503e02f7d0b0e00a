// GPHash's operations on layout `in_place`, once for every machine (W) and every medium (M);
// ops.hpp says what each of them does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "exec/warp_concept.hpp"
#include "index/gphash/candidates.hpp"
#include "index/gphash/operation.hpp"
#include "pm/memory.hpp"
#include "pm/memory_concept.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

/// Layout `in_place`: GPHash as published (section 3.2.3). Lock-free and log-free; a slot goes
/// EMPTY -> INSERT -> fingerprint by compare-and-swap, with an ordering point between the steps.
/// Keys are read from the bucket cache where it has them (section 3.3), and what changes a bucket
/// changes its copy after it. A key stands in one slot at most, so one that is found in the cache
/// needs no look at the buckets that are not there. During a batch of gets a bucket may come into
/// the cache and never leaves it; during a write batch neither.
template <class Shape>
struct InPlaceOps {
  static constexpr bool kPublishNeedsWarp = true;
  // an insert writes key, place and state over what was erased there
  static constexpr bool kUndoable = false;
  static constexpr bool kMirrored = false;
  static constexpr bool kLogged = false;
  static constexpr bool kHashed = false;
  static constexpr bool kCachesBuckets = true;
  PERDURE_FN static bool mirrored(TableView const&) { return false; }
  template <class W>
  PERDURE_FN static void reflect(TableView const&, std::uint64_t, std::uint64_t, KeyRef const*,
                                 Plan const*) {}
  using Where = Candidates<Shape>;

  PERDURE_FN static bool cached(TableView const& t) { return t.buckets.entries != nullptr; }
  /// Number of the group's bucket among all live ones.
  PERDURE_FN static std::uint64_t bucket(TableView const& t, Where const& where,
                                         std::uint32_t group) {
    PERDURE_ASSERT(!kCostlyAssertions || group < Where::groups(t));
    return where.first_slot(t, group) / Shape::slots(t);
  }
  PERDURE_FN static std::uint64_t bucket_of_lane(TableView const& t, Where const& where,
                                                 std::uint32_t lane) {
    return bucket(t, where, lane / Shape::slots(t));
  }

  /// The states of the candidates that are cached; those of the others say INSERT. Without a cache,
  /// of all.
  template <class W, class M>
  PERDURE_FN static auto probe(W& warp, M& mem, TableView const& t, Where const& where) {
    if (!cached(t)) return where.rows(warp, mem, t);
    auto const lanes = warp.rows(Where::groups(t), Shape::slots(t), [&](std::uint32_t g) {
      std::uint32_t const entry = W::load(t.buckets.entry_of + bucket(t, where, g));
      return t.buckets.states(entry == BucketCache::kNone ? t.buckets.capacity : entry);
    });
    std::uint32_t const elsewhere = warp.match(lanes, ~std::uint64_t{0}, in_place::kInsert);
    for (std::uint32_t g = 0; g < Where::groups(t); ++g) {
      if ((elsewhere >> (g * Shape::slots(t)) & 1) != 0)
        mem.prefetch(warp, where.row(t, g), Shape::slots(t) * 8);
    }
    return lanes;
  }

  /// The states of all candidates, of each bucket from the cache or from PM.
  template <class W, class M>
  PERDURE_FN static auto rows(W& warp, M& mem, TableView const& t, Where const& where) {
    if (!cached(t)) return where.rows(warp, mem, t);
    auto const copy = [&](std::uint32_t g) -> std::uint64_t const* {
      std::uint32_t const entry = W::load(t.buckets.entry_of + bucket(t, where, g));
      return entry == BucketCache::kNone ? nullptr : t.buckets.states(entry);
    };
    auto const row = [&](std::uint32_t g) { return where.row(t, g); };
    return mem.rows_or_copies(warp, Where::groups(t), Shape::slots(t), row, copy);
  }

  template <class W, class M>
  PERDURE_FN static void prefetch(W& warp, M& mem, TableView const& t, Where const& where) {
    if (!cached(t)) return where.prefetch(warp, mem, t);
    for (std::uint32_t g = 0; g < Where::groups(t); ++g)
      warp.prefetch(t.buckets.entry_of + bucket(t, where, g), 4);
  }

  /// The entry of the lane's bucket, or kNone: as one lane sees it, for it may come in meanwhile.
  template <class W>
  PERDURE_FN static std::uint32_t entry_of(W& warp, TableView const& t, Where const& where,
                                           std::uint32_t lane) {
    if (!cached(t)) return BucketCache::kNone;
    return static_cast<std::uint32_t>(warp.elect([&] {
      return std::uint64_t{W::load(t.buckets.entry_of + bucket_of_lane(t, where, lane))};
    }));
  }

  template <class W, class Lanes>
  PERDURE_FN static void prefetch_to_plan(W&, TableView const&, Where const&, Lanes const&) {}

  template <class W, class Lanes>
  PERDURE_FN static Offset likely_record(W&, TableView const&, Lanes const&, std::uint64_t) {
    return {};  // its place stands in the slot, a further access away
  }

  PERDURE_FN static std::uint32_t slots(TableView const& t) { return Shape::slots(t); }
  PERDURE_FN static std::uint64_t slot_in_level(TableView const& t, Where const& where,
                                                std::uint32_t lane) {
    return where.slot_in_level(t, lane / Shape::slots(t)) + lane % Shape::slots(t);
  }
  PERDURE_FN static Level level(TableView const& t, Where const& where, std::uint32_t lane) {
    return where.level(t, lane / Shape::slots(t));
  }
  PERDURE_FN static Offset address_of(TableView const& t, Where const& where, std::uint32_t lane) {
    return in_place::address(t, level(t, where, lane), slot_in_level(t, where, lane));
  }

  /// The address of the lane's record.
  template <class W, class M>
  PERDURE_FN static Offset load_address(W& warp, M& mem, TableView const& t, Where const& where,
                                        std::uint32_t lane) {
    std::uint32_t const entry = entry_of(warp, t, where, lane);
    if (entry == BucketCache::kNone) return Offset{mem.load(warp, address_of(t, where, lane))};
    return Offset{
        warp.elect([&] { return W::load(t.buckets.address(entry, lane % Shape::slots(t))); })};
  }

  template <class W, class M>
  PERDURE_FN static bool holds_key(W& warp, M& mem, TableView const& t, Where const& where,
                                   std::uint32_t lane, KeyRef const& key) {
    if (t.key_bytes != 0) {
      std::uint32_t const entry = entry_of(warp, t, where, lane);
      std::byte const* const stored =
          entry != BucketCache::kNone
              ? t.buckets.key(entry, lane % Shape::slots(t))
              : mem.read(in_place::key(t, level(t, where, lane), slot_in_level(t, where, lane)));
      return warp.equal(stored, key.data, key.bytes);
    }
    Offset const at = load_address(warp, mem, t, where, lane);
    if (!t.may_hold(at)) return false;
    pm::RecordView const r = t.record(mem, at);
    return r.header.key_bytes == key.bytes && warp.equal(r.key, key.data, key.bytes);
  }

  template <exec::Warp W, pm::DurableMemory<W> M, class Lanes>
  PERDURE_FN static Found find(W& warp, M& mem, TableView const& t, Where const& where,
                               Lanes const& lanes, KeyRef const& key) {
    Found found;
    find_among(warp, mem, t, where, lanes, key, found);
    found.cached = found.hit && cached(t);
    if (found.hit || !cached(t)) return found;
    // were in the cache
    bool const all = warp.match(lanes, ~std::uint64_t{0}, in_place::kInsert) == 0;
    if (!all) find_among(warp, mem, t, where, rows(warp, mem, t, where), key, found);
    return found;
  }

  template <class W, class M, class Lanes>
  PERDURE_FN static void find_among(W& warp, M& mem, TableView const& t, Where const& where,
                                    Lanes const& lanes, KeyRef const& key, Found& found) {
    std::uint32_t hits = warp.match(lanes, ~std::uint64_t{0}, in_place::fingerprint(key.hash));
    for (; hits != 0 && !found.hit; hits &= hits - 1) {
      found.lane = exec::lowest_bit(hits);
      if (!holds_key(warp, mem, t, where, found.lane, key)) continue;
      Offset const at = load_address(warp, mem, t, where, found.lane);
      if (!t.may_hold(at)) continue;
      found.at = at;
      found.hit = true;
      if (t.key_bytes == 0 || t.value_bytes == 0) {
        read_record(mem, t, found);
      } else {  // the slot has the key, and the pool says the sizes
        found.record.header = {0, t.value_bytes, 0, 0, 0};
      }
    }
  }

  template <class M>
  PERDURE_FN static void read_record(M& mem, TableView const& t, Found& found) {
    found.record = t.record(mem, found.at);
    found.read = true;
  }

  template <class W, class M, class Lanes>
  PERDURE_FN static Verdict plan(W&, M&, TableView const& t, Where const& where, Lanes const&,
                                 Found const& found, Change change, bool, Plan& plan, bool&) {
    PERDURE_ASSERT(!kCostlyAssertions || change != Change::none);
    plan.change = change;
    plan.lane = found.lane;
    if (change == Change::replace) plan.target = address_of(t, where, found.lane);
    if (change == Change::erase) plan.target = where.slot(t, found.lane);
    return Verdict::done;
  }

  PERDURE_FN static void complete(Plan& plan, std::uint64_t, Offset at) {
    PERDURE_ASSERT(!kCostlyAssertions || at.bytes > 0);
    plan.value = at.bytes;
  }

  template <class W, class M>
  PERDURE_FN static Verdict publish(W& warp, M& mem, TableView const& t, KeyRef const& key,
                                    Plan const& plan) {
    if (plan.change == Change::insert)
      return insert(warp, mem, t, Where(t, key.hash), key, plan.value);
    if (plan.change == Change::replace) {
      // The batch gave this key to this warp alone, so the place cannot have changed since phase
      // one.
      PERDURE_ASSERT(!kCostlyAssertions || (plan.target.bytes > 0 && plan.value != 0));
      mem.store(warp, plan.target, plan.value);
      copy_address(warp, t, Where(t, key.hash), plan.lane, plan.value);
      return Verdict::done;
    }
    if (!mutated("erase_forgets_slot")) erase_all(warp, mem, t, key);
    return Verdict::done;
  }

  template <class W>
  PERDURE_FN static void release_claims(W&, TableView const&, Plan const&) {}

  /// The cache's side of a change, after PM's.
  template <class W>
  PERDURE_FN static void copy_address(W& warp, TableView const& t, Where const& where,
                                      std::uint32_t lane, std::uint64_t address) {
    std::uint32_t const entry = entry_of(warp, t, where, lane);
    if (entry == BucketCache::kNone || mutated("bucket_copy_keeps_place")) return;
    warp.elect([&] {
      W::store(t.buckets.address(entry, lane % Shape::slots(t)), address);
      return std::uint64_t{0};
    });
  }

  /// By compare-and-swap, for once the slot is empty on PM another key may come to it, and tell the
  /// copy first.
  template <class W>
  PERDURE_FN static void copy_erase(W& warp, TableView const& t, Where const& where,
                                    std::uint32_t lane, std::uint64_t mine) {
    std::uint32_t const entry = entry_of(warp, t, where, lane);
    if (entry == BucketCache::kNone || mutated("bucket_copy_keeps_state")) return;
    std::uint64_t* const state = t.buckets.states(entry) + lane % Shape::slots(t);
    warp.elect([&] {
      if (mutated("bucket_copy_emptied_by_store")) W::store(state, in_place::kEmpty);
      return W::cas(state, mine, in_place::kEmpty);
    });
  }

  /// Key and place before the state, as on PM.
  template <class W>
  PERDURE_FN static void copy_insert(W& warp, TableView const& t, Where const& where,
                                     std::uint32_t lane, KeyRef const& key, std::uint64_t address) {
    std::uint32_t const entry = entry_of(warp, t, where, lane);
    if (entry == BucketCache::kNone || mutated("bucket_copy_keeps_state")) return;
    if (t.key_bytes != 0)
      warp.copy(t.buckets.key(entry, lane % Shape::slots(t)), key.data, key.bytes);
    copy_address(warp, t, where, lane, address);
    warp.local_fence();
    warp.elect([&] {
      W::store(t.buckets.states(entry) + lane % Shape::slots(t), in_place::fingerprint(key.hash));
      return std::uint64_t{0};
    });
  }

  template <class W, class M>
  PERDURE_FN static Verdict insert(W& warp, M& mem, TableView const& t, Where const& where,
                                   KeyRef const& key, std::uint64_t address) {
    for (bool lost = false;; lost = true) {
      // Who has won a slot's race tells its copy at the end only.
      auto const lanes = lost ? where.rows(warp, mem, t) : rows(warp, mem, t, where);
      std::uint32_t const empties = where.empties(warp, t, lanes);
      if (empties == 0) return Verdict::full;
      std::uint32_t const lane = Where::less_loaded(t, empties);
      Offset const state = where.slot(t, lane);
      std::uint64_t const first = mutated("fingerprint_before_key")
                                      ? in_place::fingerprint(key.hash)
                                  : mutated("insert_without_reservation") ? in_place::kEmpty
                                                                          : in_place::kInsert;
      if (mutated("insert_by_store")) {
        mem.store(warp, state, first);
      } else if (mem.cas(warp, state, in_place::kEmpty, first) != in_place::kEmpty) {
        continue;
      }
      if (!mutated("order_after_insert_state_skipped")) mem.order(warp);
      if (t.key_bytes != 0) {
        warp.copy(mem.write(in_place::key(t, level(t, where, lane), slot_in_level(t, where, lane))),
                  key.data, key.bytes);
      }
      mem.store(warp, address_of(t, where, lane), address);
      if (!mutated("order_before_fingerprint_skipped")) mem.order(warp);
      mem.cas(warp, state, first, in_place::fingerprint(key.hash));
      if (!mutated("order_after_fingerprint_skipped")) mem.order(warp);
      copy_insert(warp, t, where, lane, key, address);
      return Verdict::done;
    }
  }

  /// Deletes every slot that holds the key, duplicates included.
  template <class W, class M>
  PERDURE_FN static void erase_all(W& warp, M& mem, TableView const& t, KeyRef const& key) {
    Where const where(t, key.hash);
    auto const lanes = rows(warp, mem, t, where);
    std::uint64_t const mine = in_place::fingerprint(key.hash);
    std::uint32_t hits = warp.match(lanes, ~std::uint64_t{0}, mine) & where.distinct_lanes(t);
    for (; hits != 0; hits &= hits - 1) {
      auto const lane = exec::lowest_bit(hits);
      if (!holds_key(warp, mem, t, where, lane, key)) continue;
      mem.cas(warp, where.slot(t, lane), mine, in_place::kEmpty);
      copy_erase(warp, t, where, lane, mine);
    }
    if (!mutated("order_after_erase_skipped")) mem.order(warp);
  }

  template <class W, class M>
  PERDURE_FN static void prefetch_to_rehash(W&, M&, TableView const&, std::uint64_t) {
  }  // its key stands in the slot

  template <class W, class M>
  PERDURE_FN static Verdict rehash(W& warp, M& mem, TableView const& t, std::uint64_t slot) {
    PERDURE_ASSERT(!kCostlyAssertions || t.retiring == 1);
    Level const& retiring = t.retiring_level();
    std::uint64_t const state = mem.load(warp, retiring.base + slot * 8);
    if (state == in_place::kEmpty || state == in_place::kInsert) return Verdict::done;
    Offset const at{mem.load(warp, in_place::address(t, retiring, slot))};
    KeyRef key{};
    if (t.key_bytes != 0) {
      key = {mem.read(in_place::key(t, retiring, slot)), t.key_bytes, 0};
      pm::will_read(key.data, key.bytes);
    } else {
      if (!t.may_hold(at)) return Verdict::done;
      pm::RecordView const r = t.record(mem, at);
      key = {r.key, r.header.key_bytes, 0};
    }
    key.hash = hash_bytes(key.data, key.bytes);
    Where where;
    where.set_moved(t, key.hash);
    auto const lanes = rows(warp, mem, t, where);
    std::uint32_t hits = warp.match(lanes, ~std::uint64_t{0}, in_place::fingerprint(key.hash));
    if (hits != 0)
      warp.fence();  // others insert meanwhile: their state was read, so read their key after it
    for (; hits != 0; hits &= hits - 1) {
      if (holds_key(warp, mem, t, where, exec::lowest_bit(hits), key)) return Verdict::done;
    }
    Verdict const verdict = insert(warp, mem, t, where, key, at.bytes);
    if (verdict == Verdict::full) note_refusal(warp, t, key.hash);
    return verdict;
  }
};

}  // namespace perdure::gphash
