// GPHash's operations, once for every machine (W) and every medium (M). The two layouts share a
// face:
//
//   probe     loads all candidate slots of a key at once (one-shot warp access, section 3.1)
//   find      the valid slot that holds the key, its record checked against it
//   plan      phase one of a batch: settles where a change will go, without publishing it
//   publish   phase two: makes it visible
//   rehash    copies what one slot of the retiring level holds to where a growth brings it
//
// A batch gives each key to one warp (operations on one key are folded before), so warps meet only
// over slots. Between plan and publish lies an ordering point; see
// store/gphash/engine/engine_on.hpp.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "index/gphash/layout.hpp"
#include "pm/memory.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

struct KeyRef {
  std::byte const* data;
  std::uint32_t bytes;
  std::uint64_t hash;
};

struct Found {
  bool hit = false;
  bool read = false;      // `record` was read from PM; else only its places and sizes are known
  bool cached = false;    // the bucket cache said where it is
  std::uint32_t lane = 0;
  Offset at;              // record read last, the hit if there is one; 0 = none
  pm::RecordView record;  // valid when `at` is not 0
};

enum class Change : std::uint32_t { none, insert, replace, erase };

/// What phase one settled for one key.
struct Plan {
  Offset target;            // slot word (in_place: state, for insert none)
  std::uint64_t value = 0;  // the word to store (in_place: the record's place)
  std::uint64_t claim[2] = {kNoClaim, kNoClaim};  // slots to let go of afterwards
  Change change = Change::none;
  std::uint32_t lane = 0;
  std::uint32_t value_sum = 0;  // CRC-32C of the new value, for the mirror
  std::uint32_t known = 0;      // what the mirror may say of the new record

  static constexpr std::uint64_t kNoClaim = ~std::uint64_t{0};
};

enum class Verdict : std::uint8_t { done, conflict, full };

/// The emptiest bucket's group among `empties`; ties go to the highest level, lowest bucket.
template <class Shape>
PERDURE_FN std::uint32_t less_loaded(TableView const& t, std::uint32_t empties) {
  std::uint32_t const slots = Shape::slots(t);
  std::uint32_t const row_mask = slots == 32 ? ~0u : (1u << slots) - 1;
  std::uint32_t best = 0;
  std::uint32_t best_free = 0;
  for (std::uint32_t g = 0; g < Candidates<Shape>::groups(t); ++g) {
    std::uint32_t const free = exec::popcount(empties >> (g * slots) & row_mask);
    if (free > best_free) {
      best_free = free;
      best = g;
    }
  }
  return exec::lowest_bit(empties & (row_mask << (best * slots)));
}

/// A key with this hash found no room: its unit, if it has not moved, wants to.
template <class W>
PERDURE_FN void note_refusal(W& warp, TableView const& t, std::uint64_t hash) {
  std::uint64_t const unit = t.unit_of(hash);
  warp.elect([&] { return std::uint64_t{W::fetch_or(t.refused + unit / 32, 1u << (unit % 32))}; });
}

// ------------------------------------------------------------------------------------------------
/// Layout `word`. Warps agree on slots through volatile claim bits: a slot may be filled, replaced
/// or emptied in phase two only by the warp that set its bit in phase one. PM words are only loaded
/// and stored, never compared and swapped. Bits are set in phase one alone and cleared in phase
/// two, so a slot seen empty and claimed in one phase is still empty. With residency `mirrored` the
/// words are probed in the mirror, and stored there with every store to PM.
template <class Shape, bool kMirror = false>
struct WordOps {
  static constexpr bool kPublishNeedsWarp = false;
  static constexpr bool kUndoable = true;  // one word a change, and it says all
  static constexpr bool kMirrored = kMirror;
  static constexpr bool kCachesBuckets = false;
  using Where = Candidates<Shape>;

  PERDURE_FN static std::uint32_t slots(TableView const& t) { return Shape::slots(t); }

  /// Whether there is a mirror now: a large table may have outgrown the memory for it.
  PERDURE_FN static bool mirrored(TableView const& t) {
    return kMirrored && t.mirror.words != nullptr;
  }

  template <class W, class M>
  PERDURE_FN static auto probe(W& warp, M& mem, TableView const& t, Where const& where) {
    if (!mirrored(t))
      return mem.rows(warp, Where::groups(t), Shape::slots(t),
                      [&](std::uint32_t g) { return where.row(t, g); });
    return warp.rows(Where::groups(t), Shape::slots(t),
                     [&](std::uint32_t g) { return mirror_row(t, where, g); });
  }

  PERDURE_FN static std::uint64_t* mirror_row(TableView const& t, Where const& where,
                                              std::uint32_t group) {
    return t.mirror.words + where.slot_number(t, group * Shape::slots(t));
  }

  template <class W, class M>
  PERDURE_FN static void prefetch(W& warp, M& mem, TableView const& t, Where const& where) {
    for (std::uint32_t g = 0; g < Where::groups(t); ++g) {
      if (mirrored(t))
        warp.prefetch(mirror_row(t, where, g), Shape::slots(t) * 8);
      else
        mem.prefetch(warp, where.row(t, g), Shape::slots(t) * 8);
    }
  }

  /// Where a slot's record is on PM.
  PERDURE_FN static Offset home(TableView const& t, std::uint64_t word) {
    if (kMirrored && (word & Mirror::kCached) != 0)
      return Offset{t.mirror.homes[word & Mirror::kEntryMask] * pm::kRecordAlign};
    return word::record(word);
  }

  /// A word as it is on PM.
  PERDURE_FN static std::uint64_t on_pm(TableView const& t, std::uint64_t word) {
    if (!kMirrored || (word & Mirror::kCached) == 0) return word;
    return (word & ~word::kPlaceMask) | t.mirror.homes[word & Mirror::kEntryMask];
  }

  /// The record that find() will probably read first; 0 if there is none.
  template <class W, class Lanes>
  PERDURE_FN static Offset likely_record(W& warp, TableView const& t, Lanes const& lanes,
                                         std::uint64_t hash) {
    if (kMirrored && t.mirror.identities != nullptr) return {};
    std::uint32_t const hits = warp.match(lanes, ~word::kPlaceMask, word::fingerprint(hash));
    return hits == 0 ? Offset{} : home(t, warp.broadcast(lanes, exec::lowest_bit(hits)));
  }

  /// Stores a slot's word; `plan` says what the mirror may know of its record, null nothing.
  template <class W, class M>
  PERDURE_FN static void store(W& warp, M& mem, TableView const& t, Offset target,
                               std::uint64_t slot, std::uint64_t word, KeyRef const* key,
                               Plan const* plan) {
    mem.store(warp, target, word);
    warp.elect([&] {
      reflect<W>(t, slot, word, key, plan);
      return std::uint64_t{0};
    });
  }

  /// The mirror's side of a store, by one lane. It is volatile, and nobody probes this slot before
  /// the phase ends.
  template <class W>
  PERDURE_FN static void reflect(TableView const& t, std::uint64_t slot, std::uint64_t word,
                                 KeyRef const* key, Plan const* plan) {
    if (!mirrored(t) || mutated("mirror_not_stored")) return;
    Mirror const& mirror = t.mirror;
    bool const stays = mutated("identity_outlives_record") && mirror.known<W>(slot) != 0;
    if (!stays && (word == word::kEmpty || plan == nullptr || plan->known == 0))
      mirror.forget<W>(slot);
    else if (!stays)
      mirror.set<W>(slot, key->data, key->bytes, {plan->value_sum, plan->known});
    W::store(mirror.tags + slot, tag_of(word, word::kPlaceBits));
    W::store(mirror.words + slot, word);
  }

  template <class W, class M, class Lanes>
  PERDURE_FN static Found find(W& warp, M& mem, TableView const& t,
                               [[maybe_unused]] Where const& where, Lanes const& lanes,
                               KeyRef const& key) {
    Found found;
    std::uint32_t hits = warp.match(lanes, ~word::kPlaceMask, word::fingerprint(key.hash));
    for (; hits != 0; hits &= hits - 1) {
      found.lane = exec::lowest_bit(hits);
      Offset const at = home(t, warp.broadcast(lanes, found.lane));
      if (!t.may_hold(at)) continue;
      if constexpr (kMirrored) {
        std::uint64_t const slot = where.slot_number(t, found.lane);
        if ((t.mirror.known<W>(slot) & kKeyKnown) != 0) {
          if (!t.mirror.same_key<W>(slot, key.data, key.bytes)) continue;
          found.at = at;
          found.record.header = {0, t.value_bytes, t.key_bytes, 0, 0};
          found.hit = true;
          found.read = false;
          break;
        }
      }
      found.at = at;
      read_record(mem, t, found);
      found.hit = found.record.header.key_bytes == key.bytes &&
                  warp.equal(found.record.key, key.data, key.bytes);
      if (mutated("key_not_compared")) found.hit = true;
      if (found.hit) break;
    }
    return found;
  }

  /// Reads the record of a key that was found without.
  template <class M>
  PERDURE_FN static void read_record(M& mem, TableView const& t, Found& found) {
    found.record = t.record(mem, found.at);
    found.read = true;
  }

  /// The claim bits that plan() will probably look at for an insert.
  template <class W, class Lanes>
  PERDURE_FN static void prefetch_to_plan(W& warp, TableView const& t, Where const& where,
                                          Lanes const& lanes) {
    std::uint32_t const empties =
        warp.match(lanes, ~std::uint64_t{0}, word::kEmpty) & where.distinct_lanes(t);
    if (empties == 0) return;
    warp.prefetch_to_write(t.claims + where.slot_number(t, less_loaded<Shape>(t, empties)) / 32, 4);
  }

  /// Claims one slot, by one lane.
  template <class W>
  PERDURE_FN static bool claim(TableView const& t, std::uint64_t slot) {
    std::uint32_t const bit = 1u << (slot % 32);
    return mutated("claims_ignored") || (W::fetch_or(t.claims + slot / 32, bit) & bit) == 0;
  }

  template <class W>
  PERDURE_FN static bool claim(W& warp, TableView const& t, std::uint64_t slot) {
    return warp.elect([&] { return std::uint64_t{claim<W>(t, slot)}; }) != 0;
  }

  template <class W>
  PERDURE_FN static void unclaim(W& warp, TableView const& t, std::uint64_t slot) {
    if (slot == Plan::kNoClaim) return;
    warp.elect(
        [&] { return std::uint64_t{W::fetch_and(t.claims + slot / 32, ~(1u << (slot % 32)))}; });
  }

  template <class W>
  PERDURE_FN static std::uint32_t claimed(W& warp, TableView const& t, Where const& where) {
    return warp.bits(Where::groups(t), Shape::slots(t), t.claims,
                     [&](std::uint32_t g) { return where.slot_number(t, g * Shape::slots(t)); });
  }

  /// Claims one of the empty slots, of the less-loaded bucket, by one lane; false when every one is
  /// taken. Claims only make buckets fuller, so a row whose claims were looked at and that is the
  /// emptiest still, by the words of the others, is the emptiest: usually one word of claim bits is
  /// read, not one a row.
  template <class W>
  PERDURE_FN static bool claim_empty(TableView const& t, Where const& where, std::uint32_t empties,
                                     std::uint32_t& lane) {
    while (empties != 0) {
      lane = less_loaded<Shape>(t, empties);
      std::uint32_t const group = lane / Shape::slots(t);
      std::uint32_t const taken =
          row_claims<W>(t, where, group) << (group * Shape::slots(t)) & empties;
      empties &= ~taken;
      if (taken != 0) continue;
      if (claim<W>(t, where.slot_number(t, lane))) return true;
      empties &= ~(1u << lane);
    }
    return false;
  }

  template <class W, class Lanes>
  PERDURE_FN static bool claim_empty(W& warp, TableView const& t, Where const& where,
                                     Lanes const& lanes, std::uint32_t& lane) {
    std::uint32_t const empties =
        warp.match(lanes, ~std::uint64_t{0}, word::kEmpty) & where.distinct_lanes(t);
    if (empties == 0) return false;
    constexpr std::uint64_t kNone = ~std::uint64_t{0};
    std::uint64_t const got = warp.elect([&] {
      std::uint32_t mine = 0;
      return claim_empty<W>(t, where, empties, mine) ? std::uint64_t{mine} : kNone;
    });
    lane = static_cast<std::uint32_t>(got);
    return got != kNone;
  }

  /// The claim bits of one row; nonzero if any of its slots is claimed.
  template <class W>
  PERDURE_FN static std::uint32_t row_claims(TableView const& t, Where const& where,
                                             std::uint32_t group) {
    std::uint32_t const slots = Shape::slots(t);
    std::uint32_t const row_mask = slots == 32 ? ~0u : (1u << slots) - 1;
    std::uint64_t const first = where.slot_number(t, group * slots);
    return W::load(t.claims + first / 32) >> (first % 32) & row_mask;
  }

  /// Every candidate is full: copy one of their words to another of its own candidates, so that its
  /// slot can be overwritten in phase two. The ordering point between the phases puts the copy
  /// before the overwrite; a crash in between leaves the word twice, and recovery clears the lower
  /// one.
  template <class W, class M, class Lanes>
  PERDURE_FN static bool displace(W& warp, M& mem, TableView const& t, Where const& where,
                                  Lanes const& lanes, Plan& plan) {
    std::uint32_t victims = where.distinct_lanes(t) & ~claimed(warp, t, where);
    for (; victims != 0; victims &= victims - 1) {
      auto const lane = exec::lowest_bit(victims);
      std::uint64_t const moving = warp.broadcast(lanes, lane);
      std::uint64_t const from = where.slot_number(t, lane);
      if (moving == word::kEmpty || !claim(warp, t, from)) continue;
      Offset const record = home(t, moving);
      if (t.may_hold(record)) {
        pm::RecordView const r = t.record(mem, record);
        Where const others(t, hash_bytes(r.key, r.header.key_bytes));
        auto const other_lanes = probe(warp, mem, t, others);
        std::uint32_t to = 0;
        if (r.header.key_bytes != 0 && claim_empty(warp, t, others, other_lanes, to)) {
          std::uint64_t const into = others.slot_number(t, to);
          if (!mutated("displaced_copy_skipped"))
            store(warp, mem, t, others.slot(t, to), into, on_pm(t, moving), nullptr, nullptr);
          if (mutated("displaced_slot_cleared_early"))
            mem.store(warp, where.slot(t, lane), word::kEmpty);
          if (mutated("displaced_slot_unclaimed")) unclaim(warp, t, from);
          plan.target = where.slot(t, lane);
          plan.lane = lane;
          plan.claim[0] = from;
          plan.claim[1] = into;
          return true;
        }
      }
      unclaim(warp, t, from);
    }
    return false;
  }

  template <class W, class M, class Lanes>
  PERDURE_FN static Verdict plan(W& warp, M& mem, TableView const& t, Where const& where,
                                 Lanes const& lanes, Found const& found, Change change,
                                 bool displacement, Plan& plan, bool& displaced) {
    plan.change = change;
    if (change != Change::insert) {
      std::uint64_t const slot = where.slot_number(t, found.lane);
      if (!claim(warp, t, slot) && !mutated("conflict_ignored")) return Verdict::conflict;
      plan.claim[0] = slot;
      plan.target = where.slot(t, found.lane);
      plan.value = word::kEmpty;
      return Verdict::done;
    }
    if (claim_empty(warp, t, where, lanes, plan.lane)) {
      plan.claim[0] = where.slot_number(t, plan.lane);
      plan.target = where.slot(t, plan.lane);
      return Verdict::done;
    }
    displaced = displacement && displace(warp, mem, t, where, lanes, plan);
    return displaced ? Verdict::done : Verdict::full;
  }

  /// The record is at `at`: what the slot will say.
  PERDURE_FN static void settle(Plan& plan, std::uint64_t hash, Offset at) {
    plan.value = word::make(hash, at);
  }

  /// What stands in the slot that the plan will overwrite. `unlinked` is the record it leads to.
  PERDURE_FN static std::uint64_t old_word(Plan const& plan, std::uint64_t hash, Offset unlinked) {
    return plan.change == Change::insert ? word::kEmpty : word::make(hash, unlinked);
  }

  template <class W, class M>
  PERDURE_FN static Verdict publish(W& warp, M& mem, TableView const& t, KeyRef const& key,
                                    Plan const& plan) {
    if (mutated("erase_forgets_slot") && plan.change == Change::erase) return Verdict::done;
    store(warp, mem, t, plan.target, plan.claim[0], plan.value, &key, &plan);
    return Verdict::done;
  }

  /// After publish: nothing in this phase claims, so others may come in any order.
  template <class W>
  PERDURE_FN static void let_go(W& warp, TableView const& t, Plan const& plan) {
    if (mutated("claims_never_let_go")) return;
    unclaim(warp, t, plan.claim[0]);
    unclaim(warp, t, plan.claim[1]);
  }

  /// Brings the record near that rehash() will read for its key.
  template <class W, class M>
  PERDURE_FN static void prefetch_to_rehash(W& warp, M& mem, TableView const& t,
                                            std::uint64_t slot) {
    Offset const from = t.retiring_level().base + slot * 8;
    Offset const at = word::record(W::load(reinterpret_cast<std::uint64_t const*>(mem.peek(from))));
    if (at && t.may_hold(at)) t.prefetch_record(warp, mem, at, 0);
  }

  /// Copies slot `slot` of the retiring level to where it belongs afterwards; its claim stays.
  /// Idempotent: a word that an interrupted growth has copied already is left alone.
  template <class W, class M>
  PERDURE_FN static Verdict rehash(W& warp, M& mem, TableView const& t, std::uint64_t slot) {
    Offset const from = t.retiring_level().base + slot * 8;
    std::uint64_t const moving = mem.load(warp, from);
    if (moving == word::kEmpty) return Verdict::done;
    Offset const at = word::record(moving);
    if (!t.may_hold(at)) return Verdict::done;
    pm::RecordView const r = t.record(mem, at);
    std::uint64_t const hash = hash_bytes(r.key, r.header.key_bytes);
    Where where;
    where.set_moved(t, hash);
    auto const lanes = probe(warp, mem, t, where);
    if (warp.match(lanes, ~std::uint64_t{0}, moving) != 0) return Verdict::done;
    std::uint32_t lane = 0;
    if (!claim_empty(warp, t, where, lanes, lane)) {
      note_refusal(warp, t, hash);
      return Verdict::full;
    }
    store(warp, mem, t, where.slot(t, lane), where.slot_number(t, lane), moving, nullptr, nullptr);
    if (mutated("rehash_empties_as_it_goes")) mem.store(warp, from, word::kEmpty);
    return Verdict::done;
  }
};

// ------------------------------------------------------------------------------------------------
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
    return where.slot_number(t, group * Shape::slots(t)) / Shape::slots(t);
  }
  PERDURE_FN static std::uint64_t bucket_of_lane(TableView const& t, Where const& where,
                                                 std::uint32_t lane) {
    return bucket(t, where, lane / Shape::slots(t));
  }

  /// The states of the candidates that are cached; those of the others say INSERT. Without a cache,
  /// of all.
  template <class W, class M>
  PERDURE_FN static auto probe(W& warp, M& mem, TableView const& t, Where const& where) {
    if (!cached(t)) return rows_on_pm(warp, mem, t, where);
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

  template <class W, class M>
  PERDURE_FN static auto rows_on_pm(W& warp, M& mem, TableView const& t, Where const& where) {
    return mem.rows(warp, Where::groups(t), Shape::slots(t),
                    [&](std::uint32_t g) { return where.row(t, g); });
  }

  /// The states of all candidates, of each bucket from the cache or from PM.
  template <class W, class M>
  PERDURE_FN static auto rows(W& warp, M& mem, TableView const& t, Where const& where) {
    if (!cached(t)) return rows_on_pm(warp, mem, t, where);
    auto const copy = [&](std::uint32_t g) -> std::uint64_t const* {
      std::uint32_t const entry = W::load(t.buckets.entry_of + bucket(t, where, g));
      return entry == BucketCache::kNone ? nullptr : t.buckets.states(entry);
    };
    auto const row = [&](std::uint32_t g) { return where.row(t, g); };
    return mem.rows_or_copies(warp, Where::groups(t), Shape::slots(t), row, copy);
  }

  template <class W, class M>
  PERDURE_FN static void prefetch(W& warp, M& mem, TableView const& t, Where const& where) {
    for (std::uint32_t g = 0; g < Where::groups(t); ++g) {
      if (cached(t))
        warp.prefetch(t.buckets.entry_of + bucket(t, where, g), 4);
      else
        mem.prefetch(warp, where.row(t, g), Shape::slots(t) * 8);
    }
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
  PERDURE_FN static Offset place_of(TableView const& t, Where const& where, std::uint32_t lane) {
    return in_place::place(t, level(t, where, lane), slot_in_level(t, where, lane));
  }

  /// The place of the lane's record.
  template <class W, class M>
  PERDURE_FN static Offset load_place(W& warp, M& mem, TableView const& t, Where const& where,
                                      std::uint32_t lane) {
    std::uint32_t const entry = entry_of(warp, t, where, lane);
    if (entry == BucketCache::kNone) return Offset{mem.load(warp, place_of(t, where, lane))};
    return Offset{
        warp.elect([&] { return W::load(t.buckets.place(entry, lane % Shape::slots(t))); })};
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
    Offset const at = load_place(warp, mem, t, where, lane);
    if (!t.may_hold(at)) return false;
    pm::RecordView const r = t.record(mem, at);
    return r.header.key_bytes == key.bytes && warp.equal(r.key, key.data, key.bytes);
  }

  template <class W, class M, class Lanes>
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
      Offset const at = load_place(warp, mem, t, where, found.lane);
      if (!t.may_hold(at)) continue;
      found.at = at;
      read_record(mem, t, found);
      found.hit = true;
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
    plan.change = change;
    plan.lane = found.lane;
    if (change == Change::replace) plan.target = place_of(t, where, found.lane);
    if (change == Change::erase) plan.target = where.slot(t, found.lane);
    return Verdict::done;
  }

  PERDURE_FN static void settle(Plan& plan, std::uint64_t, Offset at) { plan.value = at.bytes; }

  template <class W, class M>
  PERDURE_FN static Verdict publish(W& warp, M& mem, TableView const& t, KeyRef const& key,
                                    Plan const& plan) {
    if (plan.change == Change::insert)
      return insert(warp, mem, t, Where(t, key.hash), key, plan.value);
    if (plan.change == Change::replace) {
      // The batch gave this key to this warp alone, so the place cannot have changed since phase
      // one.
      mem.store(warp, plan.target, plan.value);
      copy_place(warp, t, Where(t, key.hash), plan.lane, plan.value);
      return Verdict::done;
    }
    if (!mutated("erase_forgets_slot")) erase_all(warp, mem, t, key);
    return Verdict::done;
  }

  template <class W>
  PERDURE_FN static void let_go(W&, TableView const&, Plan const&) {}

  /// The cache's side of a change, after PM's.
  template <class W>
  PERDURE_FN static void copy_place(W& warp, TableView const& t, Where const& where,
                                    std::uint32_t lane, std::uint64_t place) {
    std::uint32_t const entry = entry_of(warp, t, where, lane);
    if (entry == BucketCache::kNone || mutated("bucket_copy_keeps_place")) return;
    warp.elect([&] {
      W::store(t.buckets.place(entry, lane % Shape::slots(t)), place);
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
                                     std::uint32_t lane, KeyRef const& key, std::uint64_t place) {
    std::uint32_t const entry = entry_of(warp, t, where, lane);
    if (entry == BucketCache::kNone || mutated("bucket_copy_keeps_state")) return;
    if (t.key_bytes != 0)
      warp.copy(t.buckets.key(entry, lane % Shape::slots(t)), key.data, key.bytes);
    copy_place(warp, t, where, lane, place);
    warp.local_fence();
    warp.elect([&] {
      W::store(t.buckets.states(entry) + lane % Shape::slots(t), in_place::fingerprint(key.hash));
      return std::uint64_t{0};
    });
  }

  template <class W, class M>
  PERDURE_FN static Verdict insert(W& warp, M& mem, TableView const& t, Where const& where,
                                   KeyRef const& key, std::uint64_t place) {
    for (bool lost = false;; lost = true) {
      // Who has won a slot's race tells its copy at the end only.
      auto const lanes = lost ? rows_on_pm(warp, mem, t, where) : rows(warp, mem, t, where);
      std::uint32_t const empties =
          warp.match(lanes, ~std::uint64_t{0}, in_place::kEmpty) & where.distinct_lanes(t);
      if (empties == 0) return Verdict::full;
      std::uint32_t const lane = less_loaded<Shape>(t, empties);
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
      mem.store(warp, place_of(t, where, lane), place);
      if (!mutated("order_before_fingerprint_skipped")) mem.order(warp);
      mem.cas(warp, state, first, in_place::fingerprint(key.hash));
      if (!mutated("order_after_fingerprint_skipped")) mem.order(warp);
      copy_insert(warp, t, where, lane, key, place);
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
    Level const& retiring = t.retiring_level();
    std::uint64_t const state = mem.load(warp, retiring.base + slot * 8);
    if (state == in_place::kEmpty || state == in_place::kInsert) return Verdict::done;
    Offset const at{mem.load(warp, in_place::place(t, retiring, slot))};
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
