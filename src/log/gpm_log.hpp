// libGPM's logs as kernels use them (GPM section 5.2): every thread, or partition, is a stack of entries. Hierarchical
// coalesced (hcl): a thread appends to a place of its own without a lock, 4 bytes a lane, so that 32 threads side by
// side fill whole lines. Conventional: partitions behind a lock.
//
// Invariants: an entry is durable when insert() returns, after one ordering point; of a partition's entries the durable
// ones are the first so many; an entry that finds no room changes nothing and says so.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/mutants.hpp"
#include "exec/grid.hpp"
#include "log/gpm_format.hpp"

namespace perdure::log {

/// What a log's calls inside a kernel answer.
enum class GpmLogError : std::uint32_t {
  none = 0,
  overflow,  // the partition has no room for it: nothing was written; make the log larger, or clear it
  size,  // of 0, or more than 256 bytes
  partition,  // no such partition
  empty,  // there is no entry
  mismatch,  // the newest entry is of another size
};

/// A log as a kernel gets it, by value. `tails`, `locks`, `known` and `lost` are machine memory.
struct GpmLogView {
  std::byte* base = nullptr;  // of the file
  GpmLogKind kind = GpmLogKind::hcl;
  std::uint64_t data = 0;
  std::uint64_t words = 0;
  std::uint64_t partitions = 0;
  std::uint64_t transaction = 0;
  std::uint32_t* tails = nullptr;  // words in use, a partition
  std::uint32_t* locks = nullptr;  // conventional: 1 = taken
  std::uint32_t* known = nullptr;  // [w-1]: the file's header names entries of w words, durably
  std::uint64_t* lost = nullptr;  // entries that found no room
};

namespace gpm_detail {

PERDURE_FN std::uint32_t* word_of(GpmLogView const& log, std::uint64_t partition, std::uint64_t word) {
  return reinterpret_cast<std::uint32_t*>(log.base + gpm_word_at(log.kind, log.data, log.words, partition, word));
}

/// Word i of `bytes` bytes, the last one filled up with zeros.
PERDURE_FN std::uint32_t word_from(void const* bytes, std::size_t size, std::uint32_t i) {
  std::uint32_t word = 0;
  std::size_t const left = size - std::size_t{i} * 4;
  memcpy(&word, static_cast<char const*>(bytes) + std::size_t{i} * 4, left < 4 ? left : 4);
  return word;
}

PERDURE_FN void word_into(void* bytes, std::size_t size, std::uint32_t i, std::uint32_t word) {
  std::size_t const left = size - std::size_t{i} * 4;
  memcpy(static_cast<char*>(bytes) + std::size_t{i} * 4, &word, left < 4 ? left : 4);
}

/// Before the first entry of its size: scans look for the sizes that the header names.
template <class T>
PERDURE_FN void name_size(T& thread, GpmLogView const& log, std::uint32_t words) {
  if (thread.load(&log.known[words - 1]) != 0) return;
  thread.store(reinterpret_cast<GpmLogHeader*>(log.base)->sizes + (words - 1), 1);
  if (mutated(Mutant::gpm_size_known_before_order)) thread.exchange(&log.known[words - 1], 1);
  if (!mutated(Mutant::gpm_size_not_ordered)) thread.persist();
  thread.exchange(&log.known[words - 1], 1);
}

template <class T>
PERDURE_FN void lock(T& thread, GpmLogView const& log, std::uint64_t partition) {
  if (log.kind != GpmLogKind::conventional || mutated(Mutant::gpm_lock_ignored)) return;
  while (thread.cas(&log.locks[partition], 0, 1) != 0) thread.pause();
  thread.local_fence();
}

/// Who takes the lock next sees the tail that this thread left.
template <class T>
PERDURE_FN void unlock(T& thread, GpmLogView const& log, std::uint64_t partition) {
  if (log.kind != GpmLogKind::conventional) return;
  thread.local_fence();
  thread.exchange(&log.locks[partition], 0);
}

/// The words of an entry of `size` bytes.
PERDURE_FN std::uint32_t words_of(std::size_t size) { return static_cast<std::uint32_t>((size + 3) / 4); }

/// Whose stack a call means: -1 = the thread's own.
template <class T>
PERDURE_FN std::uint64_t partition_of(T const& thread, std::int64_t partition) {
  return partition < 0 ? thread.global() : static_cast<std::uint64_t>(partition);
}

/// Whether words [first, first + words) and the check after them are an entry.
template <class T>
PERDURE_FN bool is_entry(T& thread, GpmLogView const& log, std::uint64_t partition, std::uint64_t first,
                         std::uint32_t words) {
  GpmCheck check(partition, first);
  for (std::uint32_t i = 0; i < words; ++i) check.add(thread.load(word_of(log, partition, first + i)));
  return thread.load(word_of(log, partition, first + words)) == check.of(log.transaction);
}

template <class T>
PERDURE_FN GpmLogError append(T& thread, GpmLogView const& log, void const* entry, std::size_t size,
                              std::uint64_t partition) {
  std::uint32_t const words = words_of(size);
  std::uint32_t const first = thread.add(&log.tails[partition], 0);
  if (first + words + (mutated(Mutant::gpm_overflow_forgets_check) ? 0 : 1) > log.words) {
    thread.add(log.lost, 1);
    return GpmLogError::overflow;
  }
  name_size(thread, log, words);
  GpmCheck check(partition, first);
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint32_t const word = word_from(entry, size, i);
    check.add(word);
    thread.store(word_of(log, partition, first + i), word);
  }
  thread.store(word_of(log, partition, first + words), check.of(log.transaction));
  if (!mutated(Mutant::gpm_entry_not_ordered) && !mutated(Mutant::gpm_unlocked_before_order)) thread.persist();
  thread.exchange(&log.tails[partition], first + words + 1);
  return GpmLogError::none;
}

/// Where the newest entry begins if it has `size` bytes.
template <class T>
PERDURE_FN GpmLogError newest(T& thread, GpmLogView const& log, std::size_t size, std::uint64_t partition,
                              std::uint32_t& first) {
  std::uint32_t const tail = thread.add(&log.tails[partition], 0);
  std::uint32_t const words = words_of(size);
  if (tail == 0) return GpmLogError::empty;
  if (tail < words + 1) return GpmLogError::mismatch;
  first = tail - words - 1;
  return is_entry(thread, log, partition, first, words) ? GpmLogError::none : GpmLogError::mismatch;
}

/// The check goes first, so that of a partition's entries the first so many stay.
template <class T>
PERDURE_FN void take_off(T& thread, GpmLogView const& log, std::uint64_t partition, std::uint32_t first,
                         std::uint32_t words) {
  if (!mutated(Mutant::gpm_removal_keeps_check)) thread.store(word_of(log, partition, first + words), 0u);
  if (!mutated(Mutant::gpm_removal_not_ordered)) thread.persist();
  thread.exchange(&log.tails[partition], first);
}

/// The words of the last entry before `tail`, whatever its size; 0: there is none.
template <class T>
PERDURE_FN std::uint32_t last_words(T& thread, GpmLogView const& log, std::uint64_t partition, std::uint32_t tail) {
  std::uint32_t last = 0;
  for (std::uint32_t first = 0; first < tail; first += last + 1) {
    last = 0;
    for (std::uint32_t words = 1; words <= kMostEntryWords && last == 0; ++words)
      if (thread.load(&log.known[words - 1]) != 0 && is_entry(thread, log, partition, first, words)) last = words;
    if (last == 0) return 0;
  }
  return last;
}

template <class T, class F>
PERDURE_FN GpmLogError locked(T& thread, GpmLogView const& log, std::size_t size, std::int64_t which, F act) {
  if (size == 0 || words_of(size) > kMostEntryWords) return GpmLogError::size;
  std::uint64_t const partition = partition_of(thread, which);
  if (partition >= log.partitions) return GpmLogError::partition;
  lock(thread, log, partition);
  GpmLogError const answer = act(partition);
  unlock(thread, log, partition);
  if (mutated(Mutant::gpm_unlocked_before_order)) thread.persist();
  return answer;
}

}  // namespace gpm_detail

/// Appends `size` bytes, durable when it returns. `which`: the partition; -1 = the thread's own.
template <class T>
PERDURE_FN GpmLogError gpm_insert(T& thread, GpmLogView const& log, void const* entry, std::size_t size,
                                  std::int64_t which = -1) {
  return gpm_detail::locked(thread, log, size, which, [&](std::uint64_t partition) {
    return gpm_detail::append(thread, log, entry, size, partition);
  });
}

/// The newest entry, which must have `size` bytes.
template <class T>
PERDURE_FN GpmLogError gpm_read(T& thread, GpmLogView const& log, void* entry, std::size_t size,
                                std::int64_t which = -1) {
  return gpm_detail::locked(thread, log, size, which, [&](std::uint64_t partition) {
    std::uint32_t first = 0;
    GpmLogError const error = gpm_detail::newest(thread, log, size, partition, first);
    for (std::uint32_t i = 0; error == GpmLogError::none && i < gpm_detail::words_of(size); ++i)
      gpm_detail::word_into(entry, size, i, thread.load(gpm_detail::word_of(log, partition, first + i)));
    return error;
  });
}

/// Takes off the newest entry, which must have `size` bytes; durable when it returns.
template <class T>
PERDURE_FN GpmLogError gpm_remove(T& thread, GpmLogView const& log, std::size_t size, std::int64_t which = -1) {
  return gpm_detail::locked(thread, log, size, which, [&](std::uint64_t partition) {
    std::uint32_t first = 0;
    GpmLogError const error = gpm_detail::newest(thread, log, size, partition, first);
    if (error == GpmLogError::none) gpm_detail::take_off(thread, log, partition, first, gpm_detail::words_of(size));
    return error;
  });
}

/// Takes off all entries of a partition, newest first, an ordering point each. The host's clear() ends all at once.
template <class T>
PERDURE_FN GpmLogError gpm_clear(T& thread, GpmLogView const& log, std::int64_t which = -1) {
  return gpm_detail::locked(thread, log, 1, which, [&](std::uint64_t partition) {
    while (std::uint32_t const tail = thread.add(&log.tails[partition], 0)) {
      std::uint32_t const words = gpm_detail::last_words(thread, log, partition, tail);
      if (words == 0) return GpmLogError::mismatch;
      gpm_detail::take_off(thread, log, partition, tail - words - 1, words);
    }
    return GpmLogError::none;
  });
}

}  // namespace perdure::log
