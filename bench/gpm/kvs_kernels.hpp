// The key-value store's table, what batches ask of it, and the kernels that answer.
// Invariant: a kernel that sets a pair logs what was there first.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "transact.hpp"

namespace perdure::bench::gpm {

inline constexpr std::uint32_t kKvsSlots = 8;
inline constexpr std::uint32_t kKvsNowhere = 0xffffffffu;

/// A bucket is 8 keys and then their 8 values: 128 bytes. Key 0 stands for an empty slot.
struct KvsTable {
  std::uint64_t* words;
  std::uint64_t buckets;  // a power of two

  PERDURE_FN std::uint64_t places() const { return buckets * kKvsSlots; }
  PERDURE_FN std::uint64_t* key_at(std::uint32_t place) const {
    return words + std::uint64_t{place} / kKvsSlots * (2 * kKvsSlots) + place % kKvsSlots;
  }
  PERDURE_FN std::uint64_t* value_at(std::uint32_t place) const {
    return key_at(place) + kKvsSlots;
  }
  PERDURE_FN std::uint64_t bucket_of(std::uint64_t key, std::uint32_t which) const {
    return nth_hash(key, 1 + which) & (buckets - 1);
  }

  /// Where a key stands in a bucket, and what room the bucket has; empty slots are met from `start`
  /// on.
  struct Look {
    std::uint32_t found, empty, room;
  };
  PERDURE_FN Look look(std::uint64_t bucket, std::uint64_t key, std::uint32_t start) const {
    Look seen{kKvsNowhere, kKvsNowhere, 0};
    auto const first = static_cast<std::uint32_t>(bucket * kKvsSlots);
    for (std::uint32_t i = 0; i < kKvsSlots; ++i) {
      std::uint32_t const place = first + (start + i) % kKvsSlots;
      std::uint64_t const here = *key_at(place);
      if (here == key) seen.found = place;
      if (here != 0) continue;
      if (seen.room++ == 0) seen.empty = place;
    }
    return seen;
  }
  PERDURE_FN std::uint32_t find(std::uint64_t key) const {
    std::uint32_t const found = look(bucket_of(key, 0), key, 0).found;
    return found != kKvsNowhere ? found : look(bucket_of(key, 1), key, 0).found;
  }
  /// Where a SET of the key belongs: where it stands, else in the emptier bucket.
  PERDURE_FN std::uint32_t room_for(std::uint64_t key) const {
    auto const start = static_cast<std::uint32_t>(nth_hash(key, 3) % kKvsSlots);
    Look const one = look(bucket_of(key, 0), key, start);
    if (one.found != kKvsNowhere) return one.found;
    Look const two = look(bucket_of(key, 1), key, start);
    if (two.found != kKvsNowhere) return two.found;
    return two.room > one.room ? two.empty : one.empty;
  }
};

/// What stood in a slot before a SET.
struct KvsEntry {
  std::uint32_t key[2], value[2];
  std::uint32_t place;

  PERDURE_FN static std::uint64_t joined(std::uint32_t const* half) {
    return half[0] | std::uint64_t{half[1]} << 32;
  }
  PERDURE_FN static void split(std::uint32_t* half, std::uint64_t word) {
    half[0] = static_cast<std::uint32_t>(word);
    half[1] = static_cast<std::uint32_t>(word >> 32);
  }
};
static_assert(sizeof(KvsEntry) == 20);

/// What keys are asked for; the same whenever and wherever it is asked.
struct KvsRequests {
  static constexpr std::uint64_t kPreload = std::uint64_t{1}
                                            << 40;  // numbers of batches that fill a fresh table

  std::uint64_t seed;
  std::uint64_t ranks;
  std::uint64_t const*
      until;  // until[r]: of 2^64 draws those for ranks 0 to r; null: all ranks alike
  std::uint32_t operations;  // of a batch
  std::uint32_t every;  // one of so many operations in a row is a SET

  PERDURE_FN static std::uint64_t key_of(std::uint64_t seed, std::uint64_t rank) {
    return random_at(seed, rank) | 1;
  }
  /// Seven of eight keys are there from the start.
  PERDURE_FN static std::uint64_t preloaded(std::uint64_t n) { return n / 7 * 8 + n % 7; }
  PERDURE_FN std::uint64_t rank_of(std::uint64_t batch, std::uint64_t op) const {
    if (batch >= kPreload) return preloaded((batch - kPreload) * operations + op);
    std::uint64_t const draw = random_at(seed + 1, batch * operations + op);
    if (until == nullptr) return draw % ranks;
    std::uint64_t low = 0, high = ranks - 1;
    while (low < high) {
      std::uint64_t const middle = (low + high) / 2;
      if (draw <= until[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
  PERDURE_FN std::uint64_t key(std::uint64_t batch, std::uint64_t op) const {
    return key_of(seed, rank_of(batch, op));
  }
};

/// A batch whose keys have been made.
struct KvsBatch {
  std::uint64_t const* keys;
  std::uint64_t number;
  std::uint64_t seed;
  std::uint32_t operations;
  std::uint32_t every;

  PERDURE_FN std::uint32_t sets() const { return operations / every; }
  /// The operation that is SET number n.
  PERDURE_FN std::uint32_t set_at(std::uint32_t n) const {
    if (every == 1) return n;
    return n * every +
           static_cast<std::uint32_t>(random_at(seed + 2, number * operations + n) % every);
  }
  PERDURE_FN bool is_set(std::uint32_t op) const { return set_at(op / every) == op; }
  PERDURE_FN std::uint64_t value(std::uint32_t op) const {
    return random_at(seed + 3, number * operations + op);
  }
};

struct KvsMake {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsRequests requests;
  std::uint64_t batch;
  std::uint64_t* keys;
  std::uint32_t operations;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t op = thread.global(); op < operations; op += thread.total())
      keys[op] = requests.key(batch, op);
  }
};

struct KvsGet {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsTable near;
  KvsBatch batch;
  std::uint64_t* answers;  // by operation; 0: no such key, or no GET

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < batch.operations; i += thread.total()) {
      auto const op = static_cast<std::uint32_t>(i);
      std::uint32_t const place = batch.is_set(op) ? kKvsNowhere : near.find(batch.keys[op]);
      answers[op] = place != kKvsNowhere ? *near.value_at(place) : 0;
    }
  }
};

/// What the kernels of a pass have in machine memory.
struct KvsPass {
  std::uint32_t left;  // SETs that are not complete
  std::uint32_t const* which;  // their numbers; null: all of the batch
  std::uint64_t*
      requested;  // of each: the slot, and below it the SET's number; Write finds them in order
  std::uint32_t* writers;  // of each SET of the batch: its writer in the log
  std::uint32_t* next;  // numbers of SETs for the next pass
  std::uint32_t* counts;  // [0]: of these; [1]: SETs that found no room

  PERDURE_FN std::uint32_t set(std::uint64_t i) const {
    return which != nullptr ? which[i] : static_cast<std::uint32_t>(i);
  }
  PERDURE_FN static std::uint64_t wants(std::uint64_t place, std::uint32_t n) {
    return place << 32 | n;
  }
  PERDURE_FN std::uint32_t place_at(std::uint64_t i) const {
    return static_cast<std::uint32_t>(requested[i] >> 32);
  }
  PERDURE_FN std::uint32_t set_at(std::uint64_t i) const {
    return static_cast<std::uint32_t>(requested[i]);
  }
  /// The last of those that want what the i-th wants.
  PERDURE_FN std::uint64_t last_like(std::uint64_t i) const {
    std::uint32_t const place = place_at(i);
    if (i + 1 == left || place_at(i + 1) != place) return i;
    std::uint64_t low = i + 1, high = left - 1;
    while (low < high) {
      std::uint64_t const middle = (low + high + 1) / 2;
      if (place_at(middle) == place) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

/// Chooses slots. Writes no table, so that all choose from the same one.
struct KvsSeek {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsTable near;
  KvsBatch batch;
  KvsPass pass;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < pass.left; i += thread.total()) {
      std::uint32_t const n = pass.set(i), place = near.room_for(batch.keys[batch.set_at(n)]);
      if (place == kKvsNowhere) thread.add(&pass.counts[1], 1);
      pass.requested[i] = KvsPass::wants(place == kKvsNowhere ? near.places() : place, n);
    }
  }
};

/// The last that wants a slot logs what is there, and writes.
struct KvsWrite {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsTable table;  // durable
  KvsTable near;
  KvsBatch batch;
  KvsPass pass;
  WriteLog log;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < pass.left; i += thread.total()) {
      std::uint32_t const n = pass.set_at(i), place = pass.place_at(i);
      // Who writes in a later pass has left the place in the log unused that it had in the first.
      if (pass.which == nullptr) pass.writers[n] = static_cast<std::uint32_t>(i);
      if (place == near.places()) continue;
      std::uint32_t const op = batch.set_at(n);
      std::uint64_t const last = pass.last_like(i);
      if (last == i) {
        write(thread, pass.writers[n], op, place);
      } else if (batch.keys[batch.set_at(pass.set_at(last))] != batch.keys[op]) {
        pass.next[thread.add(&pass.counts[0], 1)] = n;
      }
    }
  }

  template <class T>
  PERDURE_FN void write(T& thread, std::uint32_t writer, std::uint32_t op,
                        std::uint32_t place) const {
    std::uint64_t const key = batch.keys[op], value = batch.value(op),
                        old_key = *near.key_at(place);
    KvsEntry entry;
    KvsEntry::split(entry.key, old_key);
    KvsEntry::split(entry.value, *near.value_at(place));
    entry.place = place;
    if (!log.insert(thread, &entry, sizeof entry, writer)) {
      thread.add(&pass.counts[1], 1);
      return;
    }
    thread.store(table.value_at(place), value);
    if (old_key != key) thread.store(table.key_at(place), key);
    if (near.words != table.words) {
      *near.value_at(place) = value;
      *near.key_at(place) = key;
    }
    thread.persist();  // as in figure 6; the host, which waits before it commits, would do without
  }
};

/// Overwritten keys and values come back, and slots that were empty become empty.
struct KvsUndo {
  using Entry = KvsEntry;
  KvsTable table;
  KvsTable near;

  template <class T>
  PERDURE_FN void put_back(T& thread, KvsEntry const& entry) const {
    std::uint64_t const key = KvsEntry::joined(entry.key), value = KvsEntry::joined(entry.value);
    thread.store(table.key_at(entry.place), key);
    thread.store(table.value_at(entry.place), value);
    *near.key_at(entry.place) = key;
    *near.value_at(entry.place) = value;
  }
};

/// Of all keys and values, wherever they stand.
struct KvsDigest {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsTable table;
  std::uint64_t* sum;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    std::uint64_t mine = 0;
    for (std::uint64_t place = thread.global(); place < table.places(); place += thread.total()) {
      auto const here = static_cast<std::uint32_t>(place);
      if (std::uint64_t const key = *table.key_at(here))
        mine += nth_hash(nth_hash(key, 4) ^ *table.value_at(here), 5);
    }
    thread.add(sum, mine);
  }
};

}  // namespace perdure::bench::gpm
