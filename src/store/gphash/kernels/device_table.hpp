// The table inside a kernel of the user's: find, put, update, modify and erase by one warp, all its
// lanes together, once for every machine. Layouts `word` and `log`, fixed sizes, a mirrored table
// that nobody else uses meanwhile: a device session (store/gphash/engine/device_run.hpp) has it
// alone.
//
// Invariants. Each operation is durable when it returns: record | order | slot word on PM | order |
// slot word in the mirror; so whoever finds a value through the mirror finds one that is ordered.
// In layout `log` an entry is what a slot word is there: record, and all of the entry but its
// `what` | order | `what` | order | mirror; so an entry that counts is whole. Its cell is taken
// under the key's lock, once the operation is sure to be done, so a key's cells stand in the order
// of its operations.
//
// Operations on one key by several warps take effect one after the other, each at a moment between
// its call and its return:
//   * writers of a key hold its lock, one of kKeyLocks by hash, and a warp holds one at a time;
//   * finds take no lock. A key stands in one slot at most and changes its slot only while it is
//     absent; a record never changes, and none is used again, before the session ends. So a slot's
//     word never comes again, and what was read of a slot between two loads of the same word
//     belongs together, but for the checksum: of a bare record that stands in the identity alone,
//     and an update stores it before the word. What looks damaged for it is looked at once more,
//     under the lock;
//   * a slot is filled by the warp that holds its claim bit and, with the bit set, has found it
//     empty still.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "index/gphash/ops.hpp"
#include "perdure/batch.h"
#include "pm/memory.hpp"
#include "pm/record.hpp"
#include "store/gphash/kernels/device_entries.hpp"
#include "store/gphash/kernels/device_view.hpp"

namespace perdure {

template <class Ops>
class WarpTable {
  using Where = typename Ops::Where;
  using KeyRef = gphash::KeyRef;

 public:
  PERDURE_FN explicit WarpTable(DeviceView const& view) : view_(view) {}

  /// The key's value, if `value` is not null; it may hold anything unless the answer is ok.
  template <class W, class M>
  PERDURE_FN KeyStatus find(W& warp, M& mem, std::byte const* key_bytes, std::byte* value) const {
    KeyRef const key = ref(key_bytes);
    Where const where(table(), key.hash);
    KeyStatus const status = get(warp, mem, where, key, value);
    if (status != KeyStatus::corrupt || !bare() || mutated("device_find_looks_once")) return status;
    lock(warp, key.hash);  // an update may have stored its checksum, and not its word
    KeyStatus const now = get(warp, mem, where, key, value);
    unlock(warp, key.hash);
    return now;
  }

  /// Inserts the key or replaces its value.
  template <class W, class M>
  PERDURE_FN KeyStatus put(W& warp, M& mem, std::byte const* key, std::byte const* value) const {
    return write(warp, mem, key, {true, false}, [&](std::byte const*) { return value; });
  }

  /// Replaces the value of a key that is there.
  template <class W, class M>
  PERDURE_FN KeyStatus update(W& warp, M& mem, std::byte const* key, std::byte const* value) const {
    return write(warp, mem, key, {false, false}, [&](std::byte const*) { return value; });
  }

  /// Copies the key's value to `value`, calls change(whether it was there) in every lane, and
  /// stores what `value` holds then, inserting the key where it is new. Nobody else writes this key
  /// meanwhile.
  template <class W, class M, class F>
  PERDURE_FN KeyStatus modify(W& warp, M& mem, std::byte const* key, std::byte* value,
                              F change) const {
    return write(warp, mem, key, {true, true}, [&](std::byte const* old) -> std::byte const* {
      if (old != nullptr) warp.copy(value, old, table().value_bytes);
      change(old != nullptr);
      warp.each([](std::uint32_t) {});  // all lanes have changed it
      return value;
    });
  }

  template <class W, class M>
  PERDURE_FN KeyStatus erase(W& warp, M& mem, std::byte const* key_bytes) const {
    KeyRef const key = ref(key_bytes);
    Where const where(table(), key.hash);
    lock(warp, key.hash);
    Held const held = look_up(warp, mem, where, probe(warp, where), key);
    KeyStatus const status = !held.there                  ? KeyStatus::not_found
                             : entries().take_erase(warp) ? KeyStatus::ok
                                                          : KeyStatus::no_space;
    if (status == KeyStatus::ok) {
      if (logged())
        entries().log(warp, mem, key, change_of(where, held.lane, held, Offset{}, 0));
      else
        publish(warp, mem, where, held.lane, gphash::word::kEmpty);
      warp.elect([&] {
        unlink<W>(held.word);
        return W::fetch_add(&view_.totals->erased, std::uint64_t{1});
      });
    }
    unlock(warp, key.hash);
    return status;
  }

 private:
  /// What a probe came to.
  struct Held {
    bool there = false;
    // not there, but a record with its fingerprint is not whole: perhaps this key's
    bool damaged = false;
    std::uint32_t lane = 0;  // of the key's candidates
    std::uint64_t word = 0;
    pm::RecordView record{};
  };
  struct Kind {
    bool inserts;
    bool reads;  // the old value
  };
  PERDURE_FN gphash::TableView const& table() const { return view_.table; }
  PERDURE_FN bool logged() const { return view_.logged(); }
  /// Values alone stand in its records: identities have their keys and checksums.
  PERDURE_FN bool bare() const { return logged() && table().records.bare(); }
  PERDURE_FN DeviceEntries entries() const { return {view_}; }
  PERDURE_FN KeyRef ref(std::byte const* key) const {
    return {key, table().key_bytes, hash_bytes(key, table().key_bytes)};
  }

  template <class W>
  PERDURE_FN auto probe(W& warp, Where const& where) const {
    return where.volatile_rows(warp, table().mirror.words, table());
  }

  template <class W, class M>
  PERDURE_FN KeyStatus get(W& warp, M& mem, Where const& where, KeyRef const& key,
                           std::byte* value) const {
    Held const held = look_up(warp, mem, where, probe(warp, where), key);
    if (!held.there) return held.damaged ? KeyStatus::corrupt : KeyStatus::not_found;
    if (value == nullptr) return sound(warp, held) ? KeyStatus::ok : KeyStatus::corrupt;
    warp.copy(value, held.record.value, table().value_bytes);
    return copied_whole(warp, held.record, value) ? KeyStatus::ok : KeyStatus::corrupt;
  }

  /// Identities are no help where records have keys: they are several words, and others change them
  /// meanwhile.
  template <class W, class M, class Lanes>
  PERDURE_FN Held look_up(W& warp, M& mem, Where const& where, Lanes const& lanes,
                          KeyRef const& key) const {
    Held held;
    if (bare()) {
      bool seen = look_up_bare(warp, mem, where, lanes, key, held);
      while (!seen) seen = look_up_bare(warp, mem, where, probe(warp, where), key, held);
      return held;
    }
    std::uint32_t hits =
        warp.match(lanes, ~gphash::word::kAddressMask, gphash::word::fingerprint(key.hash));
    if (hits != 0) warp.local_fence();  // a record after the word that leads there
    for (; hits != 0; hits &= hits - 1) {
      held.lane = exec::lowest_bit(hits);
      held.word = warp.broadcast(lanes, held.lane);
      if (!read_record(mem, held.word, held.record)) continue;
      pm::RecordHeader const& header = held.record.header;
      held.there =
          header.key_bytes == key.bytes && header.value_bytes == table().value_bytes &&
          (mutated("device_key_not_compared") || warp.equal(held.record.key, key.data, key.bytes));
      if (held.there) break;
      held.damaged |= !sound(warp, held);
    }
    return held;
  }

  /// By identities. False: others have changed a slot meanwhile, and it is to be looked at anew.
  template <class W, class M, class Lanes>
  PERDURE_FN bool look_up_bare(W& warp, M& mem, Where const& where, Lanes const& lanes,
                               KeyRef const& key, Held& held) const {
    gphash::Mirror const& mirror = table().mirror;
    std::uint32_t hits =
        warp.match(lanes, ~gphash::word::kAddressMask, gphash::word::fingerprint(key.hash));
    for (; hits != 0; hits &= hits - 1) {
      held.lane = exec::lowest_bit(hits);
      held.word = warp.broadcast(lanes, held.lane);
      std::uint64_t const slot = where.slot_number(table(), held.lane);
      constexpr std::uint64_t kAnother = ~std::uint64_t{0};  // no short sum
      warp.local_fence();  // an identity after the word
      std::uint64_t const sum = warp.elect([&] {
        return mirror.same_key<W>(slot, key.data, key.bytes) ? mirror.value_sum<W>(slot) : kAnother;
      });
      warp.local_fence();
      std::uint64_t const now = warp.elect([&] { return W::load(mirror.words + slot); });
      if (now != held.word) return false;
      held.there = sum != kAnother &&
                   read_bare(mem, slot, held.word, static_cast<std::uint32_t>(sum), held.record);
      if (held.there) return true;
    }
    return true;
  }

  /// As read_record().
  template <class M>
  PERDURE_FN bool read_bare(M& mem, std::uint64_t slot, std::uint64_t word, std::uint32_t sum,
                            pm::RecordView& record) const {
    gphash::Mirror const& mirror = table().mirror;
    bool const cached = (word & gphash::Mirror::kCached) != 0;
    Offset const at = gphash::word::record(word);
    if (!cached && !table().may_hold_all(at)) return false;
    std::byte const* const value =
        cached ? table().entry_value(mirror.entries +
                                     (word & gphash::Mirror::kEntryMask) * mirror.entry_bytes)
               : mem.read(at);
    record = pm::view_bare(table().records, mirror.identity(slot), sum, value);
    return true;
  }

  /// False: the word leads to no place for a record (a damaged pool).
  template <class M>
  PERDURE_FN bool read_record(M& mem, std::uint64_t word, pm::RecordView& record) const {
    gphash::Mirror const& mirror = table().mirror;
    if ((word & gphash::Mirror::kCached) != 0) {
      record =
          table().entry(mirror.entries + (word & gphash::Mirror::kEntryMask) * mirror.entry_bytes);
      return true;
    }
    Offset const at = gphash::word::record(word);
    if (!table().may_hold(at)) return false;
    record = table().record(mem, at);
    return true;
  }

  template <class W>
  PERDURE_FN bool sound(W& warp, Held const& held) const {
    return !view_.verify || pm::intact(warp, held.record);
  }

  /// Layout `log`: of a slot that is to lead to a record, or to none. `sum`: short.
  PERDURE_FN SlotChange change_of(Where const& where, std::uint32_t lane, Held const& held,
                                  Offset record, std::uint32_t sum) const {
    Offset const old = held.there ? Ops::source(table(), held.word) : Offset{};
    return {where.slot_number(table(), lane), record, old, sum, held.there};
  }

  /// As pm::intact(), with the value's copy for the value: PM is read once.
  template <class W>
  PERDURE_FN bool copied_whole(W& warp, pm::RecordView const& r, std::byte const* value) const {
    return !view_.verify || pm::intact(warp, r, value);
  }

  /// `make` gets the old value (null if there is none) and gives the new one, once room for it is
  /// sure.
  template <class W, class M, class Make>
  PERDURE_FN KeyStatus write(W& warp, M& mem, std::byte const* key_bytes, Kind kind,
                             Make make) const {
    KeyRef const key = ref(key_bytes);
    Where const where(table(), key.hash);
    lock(warp, key.hash);
    KeyStatus const status = write_locked(warp, mem, where, key, kind, make);
    unlock(warp, key.hash);
    return status;
  }

  template <class W, class M, class Make>
  PERDURE_FN KeyStatus write_locked(W& warp, M& mem, Where const& where, KeyRef const& key,
                                    Kind kind, Make make) const {
    auto const lanes = probe(warp, where);
    Held const held = look_up(warp, mem, where, lanes, key);
    if (!held.there && !kind.inserts) return KeyStatus::not_found;
    if (held.there && kind.reads && !sound(warp, held)) return KeyStatus::corrupt;
    std::uint32_t lane = held.lane;
    if (!held.there && !claim_empty(warp, where, lanes, lane)) return KeyStatus::no_space;
    std::uint64_t const slot = where.slot_number(table(), lane);
    PERDURE_ASSERT(!kCostlyAssertions || held.there ||
                   lane < Where::groups(table()) * Ops::slots(table()));
    Offset const at = take_record(warp);
    if (!at) {
      if (!held.there) Ops::unclaim(warp, table(), slot);
      return KeyStatus::no_space;
    }
    std::byte const* const value = make(held.there ? held.record.value : nullptr);
    pm::RecordHeader const header{0, table().value_bytes, key.bytes, 0, view_.sequence};
    PERDURE_ASSERT(!kCostlyAssertions || table().may_hold_all(at));
    (void)mem.write(at);
    std::uint32_t const sum =
        pm::write_record(warp, pm::address_at(mem.address(Offset{0}), table().records, at),
                         {header, key.data, value}, false);
    if (logged()) {
      std::uint32_t const kept =
          pm::short_sum(bare() ? warp.crc32c(0, value, table().value_bytes) : sum);
      entries().log(warp, mem, key, change_of(where, lane, held, at, kept));
    } else {
      if (!mutated("device_no_order_before_word")) mem.order(warp);
      if (mutated("device_claim_let_go_early") && !held.there) Ops::unclaim(warp, table(), slot);
      publish(warp, mem, where, lane, gphash::word::make(key.hash, at));
    }
    warp.elect([&] {
      if (held.there) return std::uint64_t{unlink<W>(held.word)};
      return W::fetch_add(&view_.totals->inserted, std::uint64_t{1});
    });
    if (held.there) return KeyStatus::ok;
    warp.local_fence();  // whoever claims the slot next sees that it is full
    Ops::unclaim(warp, table(), slot);
    return KeyStatus::ok;
  }

  /// Claims an empty slot that is empty still: who saw it so may have come late, for claims are let
  /// go once a slot is full.
  template <class W, class Lanes>
  PERDURE_FN bool claim_empty(W& warp, Where const& where, Lanes const& lanes,
                              std::uint32_t& lane) const {
    constexpr std::uint64_t kNone = ~std::uint64_t{0};
    std::uint32_t empties = where.empties(warp, table(), lanes);
    while (empties != 0) {
      std::uint64_t const got = warp.elect([&] {
        std::uint32_t mine = 0;
        return Ops::template claim_empty<W>(table(), where, empties, mine) ? std::uint64_t{mine}
                                                                           : kNone;
      });
      if (got == kNone) return false;
      lane = static_cast<std::uint32_t>(got);
      std::uint64_t const slot = where.slot_number(table(), lane);
      warp.local_fence();
      std::uint64_t const now = warp.elect([&] { return W::load(table().mirror.words + slot); });
      if (now == gphash::word::kEmpty || mutated("device_claim_not_checked")) return true;
      Ops::unclaim(warp, table(), slot);
      empties &= ~(1u << lane);
    }
    return false;
  }

  /// None: the session has used up its records.
  template <class W>
  PERDURE_FN Offset take_record(W& warp) const {
    return Offset{warp.elect([&]() -> std::uint64_t {
      std::uint64_t const next = W::fetch_add(&view_.totals->taken, std::uint64_t{1});
      return next < view_.fresh_count ? view_.fresh[next] : 0;
    })};
  }

  /// Stores a slot's word, whose record is ordered. The tag is read between sessions only, and what
  /// was known of the slot's record must be forgotten before anyone may rely on it again.
  template <class W, class M>
  PERDURE_FN void publish(W& warp, M& mem, Where const& where, std::uint32_t lane,
                          std::uint64_t word) const {
    gphash::Mirror const& mirror = table().mirror;
    std::uint64_t const slot = where.slot_number(table(), lane);
    PERDURE_ASSERT(!kCostlyAssertions || mirror.words != nullptr);
    auto const show = [&] {
      warp.elect([&] {
        W::store(mirror.words + slot, word);
        return std::uint64_t{0};
      });
    };
    warp.elect([&] {
      mirror.forget<W>(slot);
      W::store(mirror.tags + slot, gphash::tag_of(word, gphash::word::kAddressBits));
      return std::uint64_t{0};
    });
    if (mutated("device_mirror_before_order")) show();
    mem.store(warp, where.slot(table(), lane), word);
    if (!mutated("device_no_order_after_word")) mem.order(warp);
    if (!mutated("device_mirror_before_order")) show();
  }

  /// By one lane: the record that this word led to may be used again once the session has ended.
  template <class W>
  PERDURE_FN std::uint32_t unlink(std::uint64_t word) const {
    std::uint64_t index = 0;
    std::uint32_t bit = 0;
    if (!view_.records.locate(Ops::source(table(), word).bytes, index, bit)) return 0;
    return W::fetch_or(view_.unlinked + index, bit);
  }

  PERDURE_FN std::uint32_t* lock_word(std::uint64_t hash) const {
    return view_.locks + hash % kKeyLocks / 32;
  }

  template <class W>
  PERDURE_FN void lock(W& warp, std::uint64_t hash) const {
    if (mutated("device_lock_ignored")) return;
    warp.elect([&] {
      std::uint32_t const bit = 1u << hash % 32;
      while ((W::fetch_or(lock_word(hash), bit) & bit) != 0) W::pause();
      return std::uint64_t{0};
    });
    warp.local_fence();
  }

  template <class W>
  PERDURE_FN void unlock(W& warp, std::uint64_t hash) const {
    if (mutated("device_lock_ignored")) return;
    warp.local_fence();
    PERDURE_ASSERT(!kCostlyAssertions || (W::load(lock_word(hash)) >> hash % 32 & 1) != 0);
    warp.elect([&] { return std::uint64_t{W::fetch_and(lock_word(hash), ~(1u << hash % 32))}; });
  }

  DeviceView const& view_;
};

}  // namespace perdure
