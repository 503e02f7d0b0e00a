// What a device session's kernels write of a key in layout `log`: its entry, and then the mirror's
// side of it, by one warp that holds the key's lock. Invariants. An entry's cell is taken once the
// operation is sure to be done, so a key's cells stand in the order of its operations; `what`,
// without which an entry says nothing, is stored when the record and the rest of the entry are
// ordered, and the mirror says it when `what` is. Finds read identities meanwhile: one has its key
// and its checksum before the word that leads there, and gets another key only while its slot is
// empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hooks.hpp"
#include "index/gphash/operation.hpp"
#include "store/gphash/kernels/device_view.hpp"

namespace perdure {

/// Of the key in that slot, or of one that is to stand there.
struct SlotChange {
  std::uint64_t slot = 0;
  Offset record;  // that it leads to from now on; 0: the key is gone
  Offset old;  // that it led to
  std::uint32_t sum = 0;  // of the entry and the identity: short
  bool there = false;  // the key was there
};

struct DeviceEntries {
  DeviceView const& view;

  /// False: the session has done all the erases that it may. Layout `word` does any number.
  template <class W>
  PERDURE_FN bool take_erase(W& warp) const {
    if (!view.logged()) return true;
    std::uint64_t const before =
        warp.elect([&] { return W::fetch_add(&view.totals->erases, std::uint64_t{1}); });
    return before < view.erase_count;
  }

  /// A change that is sure to be done, and whose record has been written: durable, then seen.
  template <class W, class M>
  PERDURE_FN void log(W& warp, M& mem, gphash::KeyRef const& key, SlotChange const& change) const {
    std::uint64_t const what =
        change.record ? wal::putting(change.record, change.sum) : wal::kErases;
    if (view.table.records.bare())
      return log_as(warp, mem, wal::NewEntry{key.data, key.bytes, what}, key, change);
    Offset const old{mutated("entry_without_old") ? 0 : change.old.bytes};
    log_as(warp, mem, wal::NewHashEntry{key.hash, what, old}, key, change);
  }

 private:
  template <class W, class M, class Entry>
  PERDURE_FN void log_as(W& warp, M& mem, Entry const& entry, gphash::KeyRef const& key,
                         SlotChange const& change) const {
    wal::EntryRegion const& region = view.entries;
    Offset const cell = region.cell(
        warp.elect([&] { return W::fetch_add(&view.totals->cells, std::uint64_t{1}); }));
    Offset const what = cell + offsetof(wal::LogEntry, what);
    wal::LogEntry const first = entry.first();
    if (mutated("device_entry_before_value")) mem.store(warp, what, first.what);
    mem.store(warp, cell, first.key);
    for (std::uint32_t at = sizeof first; at < region.cell_bytes; at += sizeof(wal::KeyPart)) {
      wal::KeyPart const part = entry.part(at);
      mem.store_pair(warp, cell + at, part.words[0], part.words[1]);
    }
    if (!mutated("device_no_order_before_word")) mem.order(warp);
    if (mutated("device_mirror_before_order")) reflect(warp, key, change);
    mem.store(warp, what, first.what);
    if (!mutated("device_no_order_after_word")) mem.order(warp);
    if (!mutated("device_mirror_before_order")) reflect(warp, key, change);
  }

  template <class W>
  PERDURE_FN void reflect(W& warp, gphash::KeyRef const& key, SlotChange const& change) const {
    gphash::Mirror const& mirror = view.table.mirror;
    std::uint64_t const word =
        change.record ? gphash::word::make(key.hash, change.record) : gphash::word::kEmpty;
    auto const show = [&] {
      warp.elect([&] {
        W::store(mirror.words + change.slot, word);
        return std::uint64_t{0};
      });
      warp.local_fence();
    };
    if (mutated("device_identity_after_word")) show();
    warp.elect([&] {
      if (!change.record)
        mirror.forget<W>(change.slot);
      else if (change.there)
        W::store(&mirror.tail(change.slot)->value_sum, change.sum);
      else
        identify<W>(key, change);
      W::store(mirror.tags + change.slot, gphash::tag_of(word, gphash::word::kAddressBits));
      return std::uint64_t{0};
    });
    warp.local_fence();
    if (!mutated("device_identity_after_word")) show();
  }

  /// As batches do: by the key, or by its hash where records have keys.
  template <class W>
  PERDURE_FN void identify(gphash::KeyRef const& key, SlotChange const& change) const {
    gphash::IdentityTail const tail{change.sum, gphash::kKeyKnown | gphash::kSumKnown};
    bool const bare = view.table.records.bare();
    auto const* const hash = reinterpret_cast<std::byte const*>(&key.hash);
    view.table.mirror.set<W>(change.slot, bare ? key.data : hash,
                             bare ? key.bytes : std::uint32_t{sizeof key.hash}, tail);
  }
};

}  // namespace perdure
