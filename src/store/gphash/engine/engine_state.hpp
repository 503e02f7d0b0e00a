// What all sessions of an engine share: the table as they see it, claims, units, the mirror, the
// record cache, the map of free records; and how the mirror is laid out anew. Invariant: what gets
// read changes only while no session runs, but for what fill_cache() and gets themselves do to it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "store/gphash/engine/bucket_cache_loads.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/gather_autotuner.hpp"
#include "store/gphash/engine/record_stash.hpp"
#include "store/gphash/kernels/record_map.hpp"

namespace perdure {

/// The mirror's memory.
template <class Machine>
struct MirrorBuffers {
  typename Machine::template Buffer<std::uint64_t> words;
  typename Machine::template Buffer<std::uint8_t> tags;
  typename Machine::template Buffer<std::byte> identities;
  typename Machine::template Buffer<std::uint32_t> uses;
};

/// The record cache's.
template <class Machine>
struct CacheBuffers {
  typename Machine::template Buffer<std::byte> entries;
  typename Machine::template Buffer<std::uint64_t> sources;
  std::uint64_t capacity = 0;  // records
};

/// What all sessions of an engine share.
template <class Machine>
struct EngineState {
  EngineState(EngineOptions const& engine_options, typename Machine::Shared shared)
      : options(engine_options), machines(std::move(shared)) {}

  EngineOptions options;
  typename Machine::Shared machines;  // what they share
  gphash::TableView table;
  typename Machine::template Buffer<std::uint32_t> claims, moved, refused;
  std::unique_ptr<MirrorBuffers<Machine>> mirror;
  std::uint64_t mirror_slots = 0;
  MirrorReport mirror_report;
  CacheBuffers<Machine> cache;
  BucketCacheOn<Machine> buckets;  // layout `in_place` only
  RecordMap records;
  std::uint64_t free_records = 0;  // of these at least so many are free
  RecordStash<Machine> stash;
  typename Machine::template Buffer<std::uint32_t> record_bits;
  typename Machine::template Buffer<std::uint8_t> record_leased;
  typename Machine::template Buffer<std::uint64_t> next_record;  // RecordMap::next
  std::atomic<std::uint32_t> batches{0};  // of gets
  std::atomic<std::uint64_t> gets{0};  // counted for the record cache, since its last load
  GatherAutotuner gather;
  GatherAutotuner gather_to_host;  // a far machine's, into arrays in host memory
  std::mutex mutex;       // guards get_counts, and mirror_report where gets may run
  exec::Counts get_counts;
  // A far machine's, as they were when last asked for.
  std::unique_ptr<std::uint64_t[]> host_words;
  std::unique_ptr<std::byte[]> host_identities;
  std::unique_ptr<std::uint64_t[]> host_sources;
  bool words_changed = true;  // since; set by those who are alone, and read under `mutex`

  /// Gives the mirror the shape of the table's levels. Those that were there before keep what is
  /// known of them; new ones are empty, as they are on PM, or wait for refresh(). Where there is no
  /// memory for it there is no mirror: probes go to PM. Levels that end the numbering go without a
  /// change.
  Status lay_out_mirror(Machine& machine, gphash::TableView const& before, std::uint64_t slots) {
    gphash::TableView& now = table;
    if (!options.mirrored) return {};
    bool same = mirror != nullptr && before.all_levels() >= now.all_levels();
    for (std::uint32_t i = 0; same && i < now.all_levels(); ++i)
      same = same_level(before.level[i], now.level[i]);
    if (same) {
      now.mirror = before.mirror;
      mirror_slots = slots;
      return {};
    }
    auto fresh = std::make_unique<MirrorBuffers<Machine>>();
    if (Status s = allocate_mirror(machine, *fresh, slots); !s.ok()) {
      if (s.code() != Code::no_space || options.logged) return s;
      now.mirror = {};
      bool const says_what = s.message().starts_with("everything");
      mirror_report = {0, says_what ? s.message() : "everything: " + s.message(),
                       mirror_report.cache_bytes, 0};
      fresh.reset();
    }
    for (std::uint32_t i = 0; i < now.all_levels(); ++i) {
      for (std::uint32_t old = 0; old < before.all_levels(); ++old) {
        if (mirror == nullptr || fresh == nullptr || !same_level(before.level[old], now.level[i]))
          continue;
        if (Status s = carry_over(machine, before, before.level[old], now.level[i]); !s.ok())
          return s;
      }
    }
    if (Status s = machine.wait(); !s.ok()) return s;
    mirror = std::move(fresh);
    PERDURE_ASSERT((mirror != nullptr) == (now.mirror.words != nullptr));
    mirror_slots = mirror != nullptr ? slots : 0;
    return {};
  }

  /// Memory for what grows with the table beside its slots.
  Status need_bits(gphash::TableView const& view, std::uint64_t slots) {
    PERDURE_ASSERT(view.all_levels() > 0 && slots >= view.level[view.all_levels() - 1].first_slot);
    std::uint64_t const unit_words = ((std::uint64_t{1} << view.unit_bits) + 31) / 32;
    auto const refuse = [&](Status const& s) {
      return Status{s.code(),
                    "one bit for each of " + std::to_string(slots) + " slots: " + s.message()};
    };
    if (!options.gets_only) {
      if (Status s = claims.resize((slots + 31) / 32); !s.ok()) return refuse(s);
      if (Status s = refused.resize(unit_words); !s.ok()) return refuse(s);
    }
    if (Status s = moved.resize(unit_words); !s.ok()) return refuse(s);
    return {};
  }

  /// Brings it: claims, all let go, and what is said of the table's units.
  Status lay_out_bits(Machine& machine, std::uint64_t slots) {
    std::uint64_t const claim_words = (slots + 31) / 32;
    std::uint64_t const unit_words = (unit_count() + 31) / 32;
    if (options.gets_only)
      return set_moved(machine, {table.moved, table.retiring == 1 ? unit_words : 0});
    if (Status s = machine.fill(claims.data(), 0, claim_words); !s.ok()) return s;
    if (Status s = machine.fill(refused.data(), 0, unit_words); !s.ok()) return s;
    PERDURE_ASSERT(claims.data() != nullptr && refused.data() != nullptr);
    table.claims = claims.data();
    table.refused = refused.data();
    return set_moved(machine, {table.moved, table.retiring == 1 ? unit_words : 0});
  }

  Status set_moved(Machine& machine, std::span<std::uint32_t const> bits) {
    PERDURE_ASSERT(bits.empty() || bits.size() == (unit_count() + 31) / 32);
    if (Status s = moved.resize(bits.size()); !s.ok()) return s;
    table.moved = moved.data();
    if (Status s = machine.send(moved.data(), bits.data(), bits.size()); !s.ok()) return s;
    return machine.wait();
  }

  /// After a launch that has copied these units' entries and kept its claims: on each level their
  /// slots lie together.
  Status unclaim(Machine& machine, std::span<std::uint32_t const> units) {
    if (mutated("rehash_keeps_claims")) return {};
    PERDURE_ASSERT(units.empty() || units.back() < unit_count());
    for (std::size_t i = 0, end = 0; i < units.size(); i = end) {
      for (end = i + 1; end < units.size() && units[end] == units[end - 1] + 1; ++end) {
      }
      for (std::uint32_t l = 0; l < table.levels; ++l) {
        gphash::Level const& level = table.level[l];
        std::uint64_t const each =
            (std::uint64_t{table.slots} << level.log2_buckets) >> table.unit_bits;
        std::uint64_t const from = (level.first_slot + units[i] * each) / 32;
        std::uint64_t const to = (level.first_slot + (units[end - 1] + 1) * each + 31) / 32;
        if (Status s = machine.fill(claims.data() + from, 0, to - from); !s.ok()) return s;
      }
    }
    return machine.wait();
  }

  /// What the stash has is free for others where so many may not be.
  Status make_free(Machine& machine, std::uint64_t n) {
    if (free_records >= n) return {};
    return stash.give_back(machine, records, free_records, pm::Memory(options.base));
  }

  void add_get_counts(exec::Counts const& counts) {
    std::lock_guard const lock(mutex);
    for (std::uint32_t k = 0; k < exec::Counts::kNames; ++k) get_counts.value[k] += counts.value[k];
  }

  /// The mirror's words, what they say of the cache, and identities, where the host can read them.
  /// Those who ask at the same time wait for the first.
  Result<gphash::Mirror> mirror_of_host() {
    if constexpr (Machine::kPoolIsFar) {
      std::lock_guard const lock(mutex);
      if (words_changed) {
        if (Status s = download_mirror(); !s.ok()) return s;
      }
      words_changed = false;
      gphash::Mirror here;
      here.words = host_words.get();
      here.sources = host_sources.get();
      here.identities = host_identities.get();
      here.identity_bytes = table.mirror.identity_bytes;
      return here;
    }
    return table.mirror;
  }

  [[nodiscard]] std::uint64_t unit_count() const { return std::uint64_t{1} << table.unit_bits; }

  Status make_cache() {
    PERDURE_ASSERT(cache.capacity == 0 && mirror != nullptr);
    std::uint64_t const entry = entry_bytes();
    std::uint64_t const each = entry + sizeof(std::uint64_t);
    std::uint64_t const needed = options.cache_bytes;
    std::uint64_t const budget = options.memory_budget;
    if (budget != 0 && needed > budget - std::min(budget, mirror_report.bytes))
      return {Code::no_space, "a record cache of " + std::to_string(needed) +
                                  " bytes and the mirror of " +
                                  std::to_string(mirror_report.bytes) +
                                  " exceed the memory budget of " + std::to_string(budget)};
    std::uint64_t const capacity = needed / each;
    if (Status s = cache.entries.resize(capacity * entry); !s.ok()) return s;
    if (Status s = cache.sources.resize(capacity); !s.ok()) return s;
    cache.capacity = capacity;
    PERDURE_ASSERT(capacity * each <= needed);
    mirror_report.cache_bytes = capacity * each;
    show_cache();
    return {};
  }

 private:
  Status download_mirror() {
    gphash::Mirror const& from = table.mirror;
    std::uint64_t const words = mirror_slots * sizeof *from.words;
    std::uint64_t const identities = mirror_slots * from.identity_bytes;
    host_words = std::make_unique_for_overwrite<std::uint64_t[]>(mirror_slots);
    host_identities = std::make_unique_for_overwrite<std::byte[]>(identities);
    Machine machine(machines);
    if (Status s = machine.begin(); !s.ok()) return s;
    auto* const to = reinterpret_cast<std::byte*>(host_words.get());
    auto const* const from_words = reinterpret_cast<std::byte const*>(from.words);
    if (Status s = machine.download_much(to, from_words, words); !s.ok()) return s;
    if (Status s = machine.download_much(host_identities.get(), from.identities, identities);
        !s.ok())
      return s;
    // A load of the cache that goes on meanwhile changes a word after what it says is there.
    if (Status s = machine.wait(); !s.ok()) return s;
    host_sources = std::make_unique_for_overwrite<std::uint64_t[]>(cache.capacity);
    if (cache.capacity == 0) return {};
    auto const* const sources = reinterpret_cast<std::byte const*>(cache.sources.data());
    Status const all = machine.download_much(reinterpret_cast<std::byte*>(host_sources.get()),
                                             sources, cache.capacity * sizeof *from.sources);
    return all.ok() ? machine.wait() : all;
  }

  [[nodiscard]] std::uint32_t entry_bytes() const { return (table.entry_bytes() + 31) / 32 * 32; }
  void show_cache() {
    gphash::Mirror& shown = table.mirror;
    if (cache.capacity == 0 || shown.words == nullptr) return;
    shown.entry_bytes = entry_bytes();
    shown.entries = cache.entries.data();
    shown.sources = cache.sources.data();
  }

  /// What the budget leaves for the mirror; the record cache has the rest.
  [[nodiscard]] std::uint64_t mirror_budget(Machine& machine) const {
    if (options.memory_budget == 0) return machine.free_bytes() / 8 * 7;
    return options.memory_budget - std::min(options.memory_budget, mirror_report.cache_bytes);
  }

  /// Words, tags and what the cache is chosen by; identities where the budget has room for them
  /// too.
  Status allocate_mirror(Machine& machine, MirrorBuffers<Machine>& fresh, std::uint64_t slots) {
    std::uint64_t const budget = mirror_budget(machine);
    bool const counts_uses =
        options.cache_bytes != 0 && options.cache_policy != CachePolicy::random;
    gphash::Mirror made;
    MirrorReport report;
    report.bytes =
        slots * (sizeof *made.words + sizeof *made.tags + (counts_uses ? sizeof *made.uses : 0));
    if (report.bytes > budget)
      return {Code::no_space, "everything: " + std::to_string(slots) + " slots take " +
                                  std::to_string(report.bytes) +
                                  " bytes, and the memory budget leaves " + std::to_string(budget)};
    if (Status s = zeroed(machine, fresh.words, slots, made.words); !s.ok()) return s;
    if (Status s = zeroed(machine, fresh.tags, slots, made.tags); !s.ok()) return s;
    if (counts_uses) {
      if (Status s = zeroed(machine, fresh.uses, slots, made.uses); !s.ok()) return s;
    }
    std::uint32_t const identity =
        gphash::identity_bytes(table.key_bytes, table.value_bytes, options.logged);
    std::uint64_t const more = slots * identity;
    if (identity != 0 && more <= budget - report.bytes) {
      Status const s = zeroed(machine, fresh.identities, more, made.identities);
      if (!s.ok() && (s.code() != Code::no_space || options.logged)) return s;
      if (s.ok()) {
        made.identity_bytes = identity;
        report.bytes += more;
      } else {
        report.lacks = "keys and checksums of records: " + s.message();
      }
    } else if (identity != 0 && options.logged) {
      return {Code::no_space, "the keys of " + std::to_string(slots) + " slots, which take " +
                                  std::to_string(more) + " bytes more than the memory budget"};
    } else if (identity != 0) {
      report.lacks = "keys and checksums of records, which take " + std::to_string(more) +
                     " bytes more; the memory budget leaves " +
                     std::to_string(budget - report.bytes);
    }
    PERDURE_ASSERT(report.bytes <= budget);
    report.cache_bytes = mirror_report.cache_bytes;
    report.cache_records = mirror_report.cache_records;
    table.mirror = made;
    mirror_report = report;
    show_cache();
    return {};
  }

  template <class T>
  static Status zeroed(Machine& machine, typename Machine::template Buffer<T>& buffer,
                       std::uint64_t n, T*& data) {
    if (Status s = buffer.resize(n); !s.ok()) return s;
    data = buffer.data();
    return machine.fill(data, 0, n);
  }

  Status carry_over(Machine& machine, gphash::TableView const& before, gphash::Level const& from,
                    gphash::Level const& to) {
    gphash::Mirror const& old = before.mirror;
    gphash::Mirror const& now = table.mirror;
    PERDURE_ASSERT(same_level(from, to) && old.words != nullptr && now.words != nullptr);
    std::uint64_t const slots = std::uint64_t{before.slots} << from.log2_buckets;
    if (Status s = machine.copy(now.words + to.first_slot, old.words + from.first_slot, slots);
        !s.ok())
      return s;
    if (Status s = machine.copy(now.tags + to.first_slot, old.tags + from.first_slot, slots);
        !s.ok())
      return s;
    if (now.identity_bytes == 0 || old.identity_bytes == 0) return {};
    return machine.copy(now.identity(to.first_slot), old.identity(from.first_slot),
                        slots * now.identity_bytes);
  }
};

}  // namespace perdure
