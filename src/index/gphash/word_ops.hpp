// GPHash's operations on layout `word`, once for every machine (W) and every medium (M); ops.hpp
// says what each of them does.
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

/// Layout `word`. Warps agree on slots through volatile claim bits: a slot may be filled, replaced
/// or emptied in phase two only by the warp that set its bit in phase one. PM words are only loaded
/// and stored, never compared and swapped. Bits are set in phase one alone and cleared in phase
/// two, so a slot seen empty and claimed in one phase is still empty. With residency `mirrored` the
/// words are probed in the mirror, and stored there with every store to PM. Layout `log` has the
/// mirror's words alone, and knows all keys in it: what is durable is the log of entries. Its
/// records are bare where values have one size, else whole. Of keys that an entry has no room for
/// (kHash) the mirror has hashes, and records, which lie whole, have the keys.
template <class Shape, bool kMirror = false, bool kLog = false, bool kHash = false>
struct WordOps {
  static_assert((kMirror || !kLog) && (kLog || !kHash));
  static constexpr bool kPublishNeedsWarp = false;
  static constexpr bool kUndoable = !kLog;  // one word a change, and it says all
  static constexpr bool kMirrored = kMirror;
  static constexpr bool kLogged = kLog;
  static constexpr bool kHashed = kHash;
  static constexpr bool kCachesBuckets = false;
  using Where = Candidates<Shape>;
  template <class W>
  using KeptWhere = KeptCandidates<W, Shape>;

  PERDURE_FN static std::uint32_t slots(TableView const& t) { return Shape::slots(t); }

  /// What the mirror keeps of a value's CRC-32C.
  PERDURE_FN static std::uint32_t kept_sum(std::uint32_t value_sum) {
    return kLogged ? pm::short_sum(value_sum) : value_sum;
  }

  /// Whether there is a mirror now: a large table may have outgrown the memory for it.
  PERDURE_FN static bool mirrored(TableView const& t) {
    return kMirrored && t.mirror.words != nullptr;
  }

  template <class W, class M>
  PERDURE_FN static auto probe(W& warp, M& mem, TableView const& t, Where const& where) {
    if (mirrored(t)) return where.volatile_rows(warp, t.mirror.words, t);
    return where.rows(warp, mem, t);
  }

  template <class W, class M>
  PERDURE_FN static void prefetch(W& warp, M& mem, TableView const& t, Where const& where) {
    if (mirrored(t)) return where.prefetch_volatile(warp, t.mirror.words, t);
    where.prefetch(warp, mem, t);
  }

  /// A word as it is on PM, or would be there.
  PERDURE_FN static std::uint64_t on_pm(TableView const& t, std::uint64_t word) {
    return kMirrored ? word::on_pm(t.mirror, word) : word;
  }

  /// Where a slot's record is on PM.
  PERDURE_FN static Offset source(TableView const& t, std::uint64_t word) {
    return word::record(on_pm(t, word));
  }

  /// The record that a get will probably read first; 0 if there is none.
  template <class W, class Lanes>
  PERDURE_FN static Offset likely_record(W& warp, TableView const& t, Lanes const& lanes,
                                         std::uint64_t hash) {
    bool const finds_without = kMirrored && !kHashed && t.mirror.identities != nullptr;
    if (finds_without && !(kLogged && t.value_bytes == 0)) return {};
    std::uint32_t const hits = warp.match(lanes, ~word::kAddressMask, word::fingerprint(hash));
    return hits == 0 ? Offset{} : source(t, warp.broadcast(lanes, exec::lowest_bit(hits)));
  }

  /// All that reflect() will store to.
  template <class W>
  PERDURE_FN static void prefetch_mirror(W& warp, TableView const& t, std::uint64_t slot) {
    if (!mirrored(t)) return;
    warp.prefetch_to_write(t.mirror.words + slot, 8);
    warp.prefetch_to_write(t.mirror.tags + slot, 1);
    if (t.mirror.identities != nullptr)
      warp.prefetch_to_write(t.mirror.identity(slot), t.mirror.identity_bytes);
  }

  /// Stores a slot's word; `plan` says what the mirror may know of its record, null nothing.
  template <class W, class M>
  PERDURE_FN static void store(W& warp, M& mem, TableView const& t, Offset target,
                               std::uint64_t slot, std::uint64_t word, KeyRef const* key,
                               Plan const* plan) {
    if constexpr (!kLogged) mem.store(warp, target, word);
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
    else if (!stays && kHashed)
      mirror.set<W>(slot, reinterpret_cast<std::byte const*>(&key->hash), sizeof key->hash,
                    {plan->value_sum, plan->known});
    else if (!stays)
      mirror.set<W>(slot, key->data, key->bytes, {plan->value_sum, plan->known});
    W::store(mirror.tags + slot, tag_of(word, word::kAddressBits));
    // A cache entry that has followed the change (FollowChangesBody) stays the record's.
    std::uint64_t const there = mirror.entries == nullptr ? 0 : W::load(mirror.words + slot);
    if ((there & Mirror::kCached) == 0 || on_pm(t, there) != word)
      W::store(mirror.words + slot, word);
  }

  template <exec::Warp W, pm::DurableMemory<W> M, class Lanes>
  PERDURE_FN static Found find(W& warp, M& mem, TableView const& t,
                               [[maybe_unused]] Where const& where, Lanes const& lanes,
                               KeyRef const& key) {
    Found found;
    std::uint32_t hits = warp.match(lanes, ~word::kAddressMask, word::fingerprint(key.hash));
    for (; hits != 0; hits &= hits - 1) {
      found.lane = exec::lowest_bit(hits);
      Offset const at = source(t, warp.broadcast(lanes, found.lane));
      if (!t.may_hold(at)) continue;
      if constexpr (kMirrored && !kHashed) {
        std::uint64_t const slot = where.slot_number(t, found.lane);
        if ((t.mirror.known<W>(slot) & kKeyKnown) != 0) {
          if (!t.mirror.same_key<W>(slot, key.data, key.bytes)) continue;
          found.at = at;
          found.record.header = {0, t.value_bytes, t.key_bytes, 0, 0};
          if (kLogged && t.records.bare())
            found.record = pm::view_bare(t.records, t.mirror.identity(slot),
                                         t.mirror.value_sum<W>(slot), mem.peek(at));
          found.hit = true;
          found.read = false;
          break;
        }
      }
      if constexpr (!kLogged || kHashed) {  // else the mirror knows all keys
        found.at = at;
        read_record(mem, t, found);
        found.hit = found.record.header.key_bytes == key.bytes &&
                    warp.equal(found.record.key, key.data, key.bytes);
        if (mutated("key_not_compared")) found.hit = true;
        if (found.hit) break;
      }
    }
    return found;
  }

  /// Reads the record of a key that was found without.
  template <class M>
  PERDURE_FN static void read_record(M& mem, TableView const& t, Found& found) {
    if (kLogged && t.records.bare()) {
      (void)mem.read(found.at);  // the mirror says the rest
    } else {
      found.record = t.record(mem, found.at);
    }
    found.read = true;
  }

  /// The claim bits that plan() will probably look at for an insert.
  template <class W, class Lanes>
  PERDURE_FN static void prefetch_to_plan(W& warp, TableView const& t, Where const& where,
                                          Lanes const& lanes) {
    std::uint32_t const empties = where.empties(warp, t, lanes);
    if (empties == 0) return;
    warp.prefetch_to_write(t.claims + where.slot_number(t, Where::less_loaded(t, empties)) / 32, 4);
  }

  /// Claims one slot, by one lane.
  template <class W>
  PERDURE_FN static bool claim(TableView const& t, std::uint64_t slot) {
    PERDURE_ASSERT(!kCostlyAssertions || (t.claims != nullptr && slot != Plan::kNoClaim));
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
                     [&](std::uint32_t g) { return where.first_slot(t, g); });
  }

  /// Claims one of the empty slots, of the less-loaded bucket, by one lane; false when every one is
  /// taken. Claims only make buckets fuller, so a row whose claims were looked at and that is the
  /// emptiest still, by the words of the others, is the emptiest: usually one word of claim bits is
  /// read, not one a row.
  template <class W, class Kept>
  PERDURE_FN static bool claim_empty(TableView const& t, Kept const& where, std::uint32_t empties,
                                     std::uint32_t& lane) {
    while (empties != 0) {
      lane = Where::less_loaded(t, empties);
      std::uint32_t const group = lane / Shape::slots(t);
      std::uint32_t const taken =
          where.template row_bits<W>(t, t.claims, group) << (group * Shape::slots(t)) & empties;
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
    std::uint32_t const empties = where.empties(warp, t, lanes);
    if (empties == 0) return false;
    constexpr std::uint64_t kNone = ~std::uint64_t{0};
    std::uint64_t const got = warp.elect([&] {
      std::uint32_t mine = 0;
      return claim_empty<W>(t, where, empties, mine) ? std::uint64_t{mine} : kNone;
    });
    lane = static_cast<std::uint32_t>(got);
    return got != kNone;
  }

  /// The key that the mirror has in a slot, or no more than its hash.
  PERDURE_FN static KeyRef mirrored_key(TableView const& t, std::uint64_t slot) {
    std::byte const* const key = t.mirror.identity(slot);
    if constexpr (kHashed) {
      std::uint64_t hash = 0;
      memcpy(&hash, key, sizeof hash);
      return {key, sizeof hash, hash};
    }
    return {key, t.key_bytes, hash_bytes(key, t.key_bytes)};
  }

  /// The key of an entry that moves to another slot, and what the mirror is to know of it there.
  struct Moving {
    KeyRef ref;
    Plan known;
  };
  /// From the record; in layout `log`, where a record may be written anew before its entry is
  /// replayed, from the mirror.
  template <class M>
  PERDURE_FN static Moving key_to_move(M& mem, TableView const& t, std::uint64_t slot,
                                       Offset record) {
    Moving moving;
    if constexpr (kLogged) {
      moving.ref = mirrored_key(t, slot);
      moving.known.value_sum = t.mirror.tail(slot)->value_sum;
      moving.known.known = t.mirror.tail(slot)->known;
    } else {
      pm::RecordView const r = t.record(mem, record);
      moving.ref = {r.key, r.header.key_bytes, hash_bytes(r.key, r.header.key_bytes)};
    }
    return moving;
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
      Offset const record = source(t, moving);
      if (t.may_hold(record)) {
        Moving const key = key_to_move(mem, t, from, record);
        Where const others(t, key.ref.hash);
        auto const other_lanes = probe(warp, mem, t, others);
        std::uint32_t to = 0;
        if (key.ref.bytes != 0 && claim_empty(warp, t, others, other_lanes, to)) {
          std::uint64_t const into = others.slot_number(t, to);
          if (!mutated("displaced_copy_skipped"))
            store(warp, mem, t, others.slot(t, to), into, on_pm(t, moving), &key.ref,
                  kLogged ? &key.known : nullptr);
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
    PERDURE_ASSERT(!kCostlyAssertions || change != Change::none);
    PERDURE_ASSERT(!kCostlyAssertions || found.hit == (change != Change::insert));
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
  PERDURE_FN static void complete(Plan& plan, std::uint64_t hash, Offset at) {
    PERDURE_ASSERT(!kCostlyAssertions || (at.bytes > 0 && at.bytes % pm::kRecordAlign == 0));
    plan.value = word::make(hash, at);
  }

  /// What stands in the slot that the plan will overwrite. `unlinked` is the record it leads to.
  PERDURE_FN static std::uint64_t old_word(Plan const& plan, std::uint64_t hash, Offset unlinked) {
    return plan.change == Change::insert ? word::kEmpty : word::make(hash, unlinked);
  }

  template <class W, class M>
  PERDURE_FN static Verdict publish(W& warp, M& mem, TableView const& t, KeyRef const& key,
                                    Plan const& plan) {
    PERDURE_ASSERT(!kCostlyAssertions || plan.change != Change::none);
    PERDURE_ASSERT(!kCostlyAssertions ||
                   (plan.change == Change::erase) == (plan.value == word::kEmpty));
    if (mutated("erase_forgets_slot") && plan.change == Change::erase) return Verdict::done;
    store(warp, mem, t, plan.target, plan.claim[0], plan.value, &key, &plan);
    return Verdict::done;
  }

  /// After publish: nothing in this phase claims or looks at claims, and none outlives it. So
  /// whoever comes first lets go of all that a word has, without an atomic.
  template <class W>
  PERDURE_FN static void release_claims(W& warp, TableView const& t, Plan const& plan) {
    if (mutated("claims_never_let_go")) return;
    warp.elect([&] {
      for (std::uint64_t const slot : plan.claim)
        if (slot != Plan::kNoClaim) W::store(t.claims + slot / 32, std::uint32_t{0});
      return std::uint64_t{0};
    });
  }

  /// Brings the record near that rehash() will read for its key.
  template <class W, class M>
  PERDURE_FN static void prefetch_to_rehash(W& warp, M& mem, TableView const& t,
                                            std::uint64_t slot) {
    if constexpr (kLogged) return;  // keys are in the mirror
    Offset const from = t.retiring_level().base + slot * 8;
    Offset const at = word::record(W::load(reinterpret_cast<std::uint64_t const*>(mem.peek(from))));
    if (at && t.may_hold(at)) t.prefetch_record(warp, mem, at, 0);
  }

  /// Copies slot `slot` of the retiring level to where it belongs afterwards; its claim stays.
  /// Idempotent: a word that an interrupted growth has copied already is left alone.
  template <class W, class M>
  PERDURE_FN static Verdict rehash(W& warp, M& mem, TableView const& t, std::uint64_t slot) {
    PERDURE_ASSERT(!kCostlyAssertions || t.retiring == 1);
    Offset const from = t.retiring_level().base + slot * 8;
    std::uint64_t const number = t.retiring_level().first_slot + slot;
    std::uint64_t const moving =
        kLogged ? on_pm(t, W::load(t.mirror.words + number)) : mem.load(warp, from);
    if (moving == word::kEmpty) return Verdict::done;
    Offset const at = word::record(moving);
    if (!t.may_hold(at)) return Verdict::done;
    Moving const key = key_to_move(mem, t, number, at);
    Where where;
    where.set_moved(t, key.ref.hash);
    auto const lanes = probe(warp, mem, t, where);
    if (warp.match(lanes, ~std::uint64_t{0}, moving) != 0) return Verdict::done;
    std::uint32_t lane = 0;
    if (!claim_empty(warp, t, where, lanes, lane)) {
      note_refusal(warp, t, key.ref.hash);
      return Verdict::full;
    }
    store(warp, mem, t, where.slot(t, lane), where.slot_number(t, lane), moving, &key.ref,
          kLogged ? &key.known : nullptr);
    if (mutated("rehash_empties_as_it_goes")) mem.store(warp, from, word::kEmpty);
    return Verdict::done;
  }
};

}  // namespace perdure::gphash
