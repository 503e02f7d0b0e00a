// Bodies of residency `mirrored`, once for every machine. Gets take 32 keys an item: each lane
// finds its own key in the mirror, then all lanes together copy the values of all 32. Values on PM
// are copied at once, or put aside and gathered in the order of their addresses, which is what a
// link across which every far access costs an address translation wants (docs/design.md).
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "exec/bits.hpp"
#include "store/gphash/kernels/deferred.hpp"
#include "store/gphash/kernels/get_ops.hpp"

namespace perdure {

/// Adds an entry for each lane of the mask; entry(lane) says which.
template <class W, class Entry>
PERDURE_FN void append_each(W& warp, std::uint32_t mask, std::uint64_t* entries,
                            std::uint64_t* count, Entry entry) {
  if (mask == 0) return;
  PERDURE_ASSERT(!kCostlyAssertions || (entries != nullptr && count != nullptr));
  std::uint64_t const at = warp.elect([&] { return W::fetch_add(count, exec::popcount(mask)); });
  warp.each([&](std::uint32_t lane) {
    if ((mask >> lane & 1) != 0)
      entries[at + exec::popcount(mask & ((1u << lane) - 1))] = entry(lane);
  });
}

/// Where a get finds its value.
enum class Source : std::uint8_t {
  none,
  entry,  // in the record cache
  value,  // on PM, and the mirror knows the key and the value's checksum
  record,  // perhaps on PM: the record must be read
};

/// What a lane found of its key.
struct MirrorHit {
  std::uint64_t slot = 0;
  std::uint32_t lane = 0;  // of the key's candidates
  Offset at;
  std::byte const* entry = nullptr;
  Source source = Source::none;
};

/// A lane's own search for a key in the mirror: first the tags of its rows, then the words of those
/// that match.
template <class Ops>
struct MirrorSearch {
  using Where = typename Ops::Where;
  gphash::TableView const& table;

  template <class Kept>
  PERDURE_FN std::uint8_t const* row(Kept const& where, std::uint32_t group) const {
    return table.mirror.tags + where.first_slot(table, group);
  }

  template <class W, class Kept>
  PERDURE_FN std::uint32_t tagged(Kept const& where, std::uint8_t tag) const {
    std::uint32_t const slots = Ops::slots(table);
    if constexpr (W::kReadsBackCheaply) {
      if (slots == 8 && Where::groups(table) == 4)
        return W::equal_bytes([&](std::uint32_t g) { return row(where, g); }, tag);
    }
    std::uint32_t hits = 0;
    for (std::uint32_t g = 0; g < Where::groups(table); ++g)
      hits |= gphash::matching_tags(row(where, g), slots, tag) << (g * slots);
    return hits;
  }
  template <class W, class Kept>
  PERDURE_FN std::uint32_t candidates(Kept const& where, std::uint64_t hash) const {
    return tagged<W>(where,
                     gphash::tag_of(gphash::word::fingerprint(hash), gphash::word::kAddressBits));
  }
  template <class W, class Kept>
  PERDURE_FN std::uint32_t empties(Kept const& where) const {
    return tagged<W>(where, 0) & where.distinct_lanes(table);
  }

  template <class W>
  PERDURE_FN void prefetch_identity(W& warp, std::uint64_t slot) const {
    gphash::Mirror const& mirror = table.mirror;
    if (mirror.identities != nullptr) warp.prefetch(mirror.identity(slot), mirror.identity_bytes);
  }

  /// `needed` is what must be known of a record for it to be left unread.
  template <class W, class Kept>
  PERDURE_FN MirrorHit look_up(Kept const& where, KeyRef const& key, std::uint32_t hits,
                               std::uint32_t needed) const {
    gphash::Mirror const& mirror = table.mirror;
    for (; hits != 0; hits &= hits - 1) {
      MirrorHit hit;
      hit.lane = exec::lowest_bit(hits);
      hit.slot = where.slot_number(table, hit.lane);
      // a load of the cache may change it meanwhile
      std::uint64_t const word = W::load(mirror.words + hit.slot);
      if (((word ^ gphash::word::fingerprint(key.hash)) & ~gphash::word::kAddressMask) != 0)
        continue;
      if ((word & gphash::Mirror::kCached) != 0) {
        hit.entry = mirror.entries + (word & gphash::Mirror::kEntryMask) * mirror.entry_bytes;
        hit.source = Source::entry;
        if (same_key<W>(hit, key)) return hit;
        continue;
      }
      hit.at = gphash::word::record(word);
      std::uint32_t const known = mirror.known<W>(hit.slot);
      if ((known & gphash::kKeyKnown) != 0 &&
          !mirror.same_key<W>(hit.slot, key.data, table.key_bytes))
        continue;
      bool const sure = (known & needed) == needed && table.may_hold_all(hit.at);
      hit.source = sure ? Source::value : Source::record;
      return hit;
    }
    return {};
  }

 private:
  /// Of a hit in the cache; layout `log` caches values alone.
  template <class W>
  PERDURE_FN bool same_key(MirrorHit const& hit, KeyRef const& key) const {
    if constexpr (Ops::kLogged)
      return table.mirror.same_key<W>(hit.slot, key.data, table.key_bytes);
    return same_bytes(table.entry_key(hit.entry), key.data, table.key_bytes);
  }
};

template <class Ops>
struct MirrorGetBody {
  using Where = typename Ops::Where;
  static constexpr int kStages = 4;
  static constexpr std::uint32_t kKeys = kKeysPerItem;
  BatchView batch;
  gphash::TableView table;
  Deferred deferred;

  template <class W>
  struct State {
    typename W::template Each<typename Ops::template KeptWhere<W>> where;
    typename W::template Each<std::uint64_t> hash;
    typename W::template Each<std::uint32_t> candidates;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>& s, Counts& counts) const {
    if constexpr (kStage == 0) {
      warp.each([&](std::uint32_t lane) {
        std::uint64_t const i = item * kKeysPerItem + lane;
        if (!live(i)) return;
        s.hash[lane] = hash_bytes(batch.keys.at(i), batch.keys.size(i));
        s.where[lane].set(table, s.hash[lane]);
        for (std::uint32_t g = 0; g < Where::groups(table); ++g)
          warp.prefetch(search().row(s.where[lane], g), 1);
      });
    } else if constexpr (kStage == 1) {
      warp.each([&](std::uint32_t lane) {
        std::uint64_t const i = item * kKeysPerItem + lane;
        s.candidates[lane] =
            live(i) ? search().template candidates<W>(s.where[lane], s.hash[lane]) : 0;
        if (s.candidates[lane] == 0) return;
        std::uint64_t const slot =
            s.where[lane].slot_number(table, exec::lowest_bit(s.candidates[lane]));
        warp.prefetch(table.mirror.words + slot, 8);
        if constexpr (W::kReadsBackCheaply) search().prefetch_identity(warp, slot);
      });
    } else if constexpr (kStage == 2) {
      if constexpr (W::kReadsBackCheaply) prefetch_values(warp, mem, s);
    } else {
      finish(warp, mem, item, s, counts);
    }
  }

 private:
  PERDURE_FN bool live(std::uint64_t i) const { return i < batch.n && batch.takes_part(i); }

  PERDURE_FN MirrorSearch<Ops> search() const { return {table}; }

  /// Of the slots that look_up() will probably find, unless their values are gathered later; other
  /// threads of a core have nothing to do meanwhile.
  template <class W, class M>
  PERDURE_FN void prefetch_values(W& warp, M& mem, State<W>& s) const {
    if (deferred.entries != nullptr) return;
    std::uint32_t some = warp.ballot([&](std::uint32_t lane) { return s.candidates[lane] != 0; });
    for (; some != 0; some &= some - 1) {
      std::uint32_t const lane = exec::lowest_bit(some);
      auto const where = warp.broadcast(s.where, lane);
      std::uint32_t const first = exec::lowest_bit(warp.broadcast(s.candidates, lane));
      std::uint64_t const word = W::load(table.mirror.words + where.slot_number(table, first));
      Offset const at = gphash::word::record(word);
      if ((word & gphash::Mirror::kCached) == 0 && table.may_hold(at))
        mem.prefetch(warp, at, table.value_bytes);
    }
  }

  template <class W, class M>
  PERDURE_FN void finish(W& warp, M& mem, std::uint64_t item, State<W>& s, Counts& counts) const {
    typename W::template Each<MirrorHit> hits;
    std::uint32_t const needed =
        batch.verify ? gphash::kKeyKnown | gphash::kSumKnown : gphash::kKeyKnown;
    std::uint64_t const first = item * kKeysPerItem;
    warp.each([&](std::uint32_t lane) {
      std::uint64_t const i = first + lane;
      if (!live(i)) return;
      KeyRef const key{batch.keys.at(i), table.key_bytes, s.hash[lane]};
      hits[lane] = search().template look_up<W>(s.where[lane], key, s.candidates[lane], needed);
      if (hits[lane].source != Source::none)
        batch.note_use<W>(i, table.mirror.uses + hits[lane].slot);
      batch.status[i] =
          code(hits[lane].source == Source::none ? KeyStatus::not_found : KeyStatus::ok);
    });
    auto const which = [&](Source source) {
      return warp.ballot([&](std::uint32_t lane) { return hits[lane].source == source; });
    };
    auto const to = [&](std::uint32_t lane) {
      return batch.out + (first + lane) * table.value_bytes;
    };
    auto const cached = [&](std::uint32_t lane) { return table.entry_value(hits[lane].entry); };
    std::uint32_t const in_cache = which(Source::entry);
    PERDURE_ASSERT(!kCostlyAssertions || in_cache == 0 || table.mirror.entries != nullptr);
    counts[BatchCounts::cached] += exec::popcount(in_cache);
    warp.copy_each(in_cache, table.value_bytes, to, cached, nullptr);
    std::uint32_t const on_pm = which(Source::value);
    if (deferred.entries != nullptr) {
      std::uint32_t const others = in_cache | which(Source::record);
      put_aside(warp, on_pm, others, first, hits);
      if (deferred.copied != nullptr && others != 0)
        warp.elect([&] { return W::fetch_add(deferred.copied, exec::popcount(others)); });
    } else {
      auto const value = [&](std::uint32_t lane) {
        return mem.peek(hits[lane].at + table.records.to_value(table.key_bytes));
      };
      mem.read_each(on_pm);
      typename W::template Each<std::uint32_t> sums;
      warp.copy_each(on_pm, table.value_bytes, to, value, batch.verify ? &sums : nullptr);
      if (batch.verify) check_sums(warp, on_pm, first, hits, sums, counts);
    }
    for (std::uint32_t rest = which(Source::record); rest != 0; rest &= rest - 1)
      read_whole(warp, mem, first + exec::lowest_bit(rest), counts);
  }

  template <class W, class Hits, class Sums>
  PERDURE_FN void check_sums(W& warp, std::uint32_t mask, std::uint64_t first, Hits const& hits,
                             Sums const& sums, Counts& counts) const {
    std::uint32_t const wrong = warp.ballot([&](std::uint32_t lane) {
      return (mask >> lane & 1) != 0 &&
             Ops::kept_sum(sums[lane]) != table.mirror.template value_sum<W>(hits[lane].slot);
    });
    counts[BatchCounts::corrupt] += exec::popcount(wrong);
    warp.each([&](std::uint32_t lane) {
      if ((wrong >> lane & 1) != 0) batch.status[first + lane] = code(KeyStatus::corrupt);
    });
  }

  template <class W, class Hits>
  PERDURE_FN void put_aside(W& warp, std::uint32_t mask, std::uint32_t copied, std::uint64_t first,
                            Hits const& hits) const {
    auto const address = [&](std::uint32_t lane) {
      return hits[lane].at.bytes / pm::kRecordAlign >> deferred.shift;
    };
    auto const entry = [&](std::uint32_t lane) {
      PERDURE_ASSERT(!kCostlyAssertions || hits[lane].source == Source::value);
      std::uint32_t const sum =
          batch.verify ? table.mirror.template value_sum<W>(hits[lane].slot) : 0;
      deferred.values[first + lane] = Deferred::value(hits[lane].at, sum);
      if (deferred.sums != nullptr) deferred.sums[first + lane] = sum;
      return address(lane) << 32 | (first + lane);
    };
    if (deferred.told != nullptr) {
      return warp.each([&](std::uint32_t lane) {
        if (first + lane >= batch.n) return;
        std::uint64_t const none = (copied >> lane & 1) != 0 ? Deferred::kCopied : Deferred::kNone;
        std::uint64_t const one = (mask >> lane & 1) != 0 ? entry(lane) : none;
        deferred.entries[first + lane] = deferred.told[first + lane] = one;
      });
    }
    std::uint32_t const above = warp.ballot([&](std::uint32_t lane) {
      return (mask >> lane & 1) != 0 && address(lane) >= deferred.pivot;
    });
    append_each(warp, mask & ~above, deferred.entries, deferred.count, entry);
    append_each(warp, above, deferred.upper, deferred.count + 1, entry);
  }

  /// The key stands perhaps in a record the mirror does not know: the whole warp reads it, and
  /// tells the mirror.
  template <class W, class M>
  PERDURE_FN void read_whole(W& warp, M& mem, std::uint64_t i, Counts& counts) const {
    KeyRef key{batch.keys.at(i), batch.keys.size(i), 0};
    key.hash = hash_bytes(key.data, key.bytes);
    Where where;
    where.set(table, key.hash);
    auto const lanes = Ops::probe(warp, mem, table, where);
    auto found = Ops::find(warp, mem, table, where, lanes, key);
    GetBody<Ops, GetMode::copy>{batch, table}.answer(warp, mem, i, found, counts);
    if (!found.hit || table.mirror.identities == nullptr) return;
    if (warp.elect([&] { return std::uint64_t{batch.status[i]}; }) != code(KeyStatus::ok)) return;
    PERDURE_ASSERT(!kCostlyAssertions || key.bytes == table.key_bytes);
    gphash::IdentityTail tail{0, gphash::kKeyKnown};
    if (batch.verify) {
      tail.value_sum = warp.crc32c(0, batch.out + i * table.value_bytes, table.value_bytes);
      tail.known |= gphash::kSumKnown;
    }
    std::uint64_t const slot = where.slot_number(table, found.lane);
    warp.elect([&] {  // others that find it say the same
      table.mirror.learn(warp, slot, key.data, key.bytes, tail);
      return std::uint64_t{0};
    });
  }
};

/// Copies what was put aside, 32 entries an item, sorted by place, or from where the host has
/// `staged` their values. Of entries with one place side by side, those of an item cost one access.
template <class Ops, template <class> class Has = Held>
struct GatherBody {
  static constexpr int kStages = 2;
  static constexpr std::uint32_t kKeys = kKeysPerItem;
  // a few warps keep it busy, and leave room for kernels beside
  static constexpr bool kWaitsForLink = true;
  Has<BatchView> batch;
  Has<gphash::TableView> table;
  Deferred deferred;
  std::uint64_t n = 0;
  std::byte const* staged = nullptr;

  template <class W>
  struct State {
    typename W::template Each<std::uint64_t> at;  // of its value, in the pool
    typename W::template Each<std::uint32_t> operation, sum;
    std::uint32_t taking_part;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t item, State<W>& s, Counts& counts) const {
    if constexpr (kStage == 0) {
      s.taking_part = warp.ballot([&](std::uint32_t lane) {
        std::uint64_t const at = item * kKeysPerItem + lane;
        return at < n && Deferred::is_entry(deferred.entries[at]);
      });
      warp.each([&](std::uint32_t lane) {
        s.at[lane] = s.operation[lane] = s.sum[lane] = 0;
        if ((s.taking_part >> lane & 1) == 0) return;
        std::uint64_t const entry = deferred.entries[item * kKeysPerItem + lane];
        s.operation[lane] = static_cast<std::uint32_t>(Deferred::operation(entry));
        PERDURE_ASSERT(!kCostlyAssertions || s.operation[lane] < batch.n);
        std::uint64_t const value = deferred.values[s.operation[lane]];
        s.at[lane] = (deferred.at(entry, value) + table.records.to_value(table.key_bytes)).bytes;
        s.sum[lane] = Deferred::sum(value);
        if (staged == nullptr) warp.prefetch(mem.peek(Offset{s.at[lane]}), table.value_bytes);
      });
    } else {
      if (deferred.fresh != nullptr) copy_fresh(warp, item);
      gather(warp, mem, item, s, counts);
    }
  }

 private:
  /// Gets behind a write of their batch have its value.
  template <class W>
  PERDURE_FN void copy_fresh(W& warp, std::uint64_t item) const {
    std::uint64_t const first = item * kKeysPerItem;
    std::uint32_t const mask = warp.ballot([&](std::uint32_t lane) {
      return first + lane < n && deferred.fresh[first + lane] != Deferred::kNone;
    });
    auto const to = [&](std::uint32_t lane) {
      return batch.out + batch.order[first + lane].index * table.value_bytes;
    };
    auto const from = [&](std::uint32_t lane) {
      return batch.values.at(deferred.fresh[first + lane]);
    };
    warp.copy_each(mask, table.value_bytes, to, from, nullptr);
  }

  template <class W, class M>
  PERDURE_FN void gather(W& warp, M& mem, std::uint64_t item, State<W>& s, Counts& counts) const {
    using Lanes32 = typename W::template Each<std::uint32_t>;
    auto const in = [&](std::uint32_t mask, std::uint32_t lane) { return (mask >> lane & 1) != 0; };
    // Of lanes side by side with one value, the first leads.
    Lanes32 leader;
    warp.each([&](std::uint32_t lane) { leader[lane] = lane == 0 ? 0 : lane - 1; });
    auto const before = warp.shuffle(s.at, leader);
    std::uint32_t const leaders = warp.ballot([&](std::uint32_t lane) {
      return in(s.taking_part, lane) &&
             (lane == 0 || !in(s.taking_part, lane - 1) || before[lane] != s.at[lane]);
    });
    warp.each([&](std::uint32_t lane) {
      leader[lane] = exec::highest_bit((leaders & ((2u << lane) - 1)) | 1u);
    });

    auto const to = [&](std::uint32_t lane) {
      return batch.out + std::uint64_t{s.operation[lane]} * table.value_bytes;
    };
    auto const from = [&](std::uint32_t lane) {
      return staged != nullptr ? staged + (item * kKeysPerItem + lane) * table.value_bytes
                               : mem.peek(Offset{s.at[lane]});
    };
    mem.read_each(leaders);
    Lanes32 sums;
    warp.copy_each(leaders, table.value_bytes, to, from, batch.verify ? &sums : nullptr);
    std::uint32_t wrong = 0;
    if (batch.verify) {
      wrong = warp.ballot([&](std::uint32_t lane) {
        return in(leaders, lane) && Ops::kept_sum(sums[lane]) != s.sum[lane];
      });
    }
    auto const model = warp.shuffle(s.operation, leader);
    auto const copied = [&](std::uint32_t lane) {
      return batch.out + std::uint64_t{model[lane]} * table.value_bytes;
    };
    warp.copy_each(s.taking_part & ~leaders, table.value_bytes, to, copied, nullptr);
    std::uint32_t const corrupt = warp.ballot(
        [&](std::uint32_t lane) { return in(s.taking_part, lane) && in(wrong, leader[lane]); });
    counts[BatchCounts::corrupt] += exec::popcount(corrupt);
    warp.each([&](std::uint32_t lane) {
      if (in(corrupt, lane)) batch.status[s.operation[lane]] = code(KeyStatus::corrupt);
    });
  }
};

/// Makes the mirror say what PM says, a slot an item; what it knows besides stays where the words
/// agree.
template <class Ops>
struct RefreshBody {
  gphash::TableView table;
  std::byte const* base;

  PERDURE_FN void operator()(std::uint64_t slot) const {
    std::uint32_t l = 0;
    while (l + 1 < table.all_levels() && slot >= table.level[l + 1].first_slot) ++l;
    gphash::Level const& level = table.level[l];
    PERDURE_ASSERT(!kCostlyAssertions || (slot >= level.first_slot && base != nullptr));
    std::uint64_t const within = slot - level.first_slot;
    if (within >= std::uint64_t{table.slots} << level.log2_buckets) return;  // between levels
    auto const* const at =
        reinterpret_cast<std::uint64_t const*>(base + level.base.bytes + within * 8);
    pm::will_read(at, sizeof *at);
    std::uint64_t word = *at;
    // In a damaged pool: it leads nowhere here, and must not lead into the cache.
    if ((word & gphash::Mirror::kCached) != 0)
      word = (word & ~gphash::Mirror::kCached) | gphash::Mirror::kEntryMask;
    gphash::Mirror const& mirror = table.mirror;
    if (Ops::on_pm(table, mirror.words[slot]) == word) return;
    mirror.words[slot] = word;
    mirror.tags[slot] = gphash::tag_of(word, gphash::word::kAddressBits);
    if (mirror.identities != nullptr) mirror.tail(slot)->known = 0;
  }
};

}  // namespace perdure
