// libGPM's logs as kernels use them (GPM section 5.2): every thread, or partition, is a stack of
// bytes that entries are appended to; the last bytes are read and taken off, in whole entries or
// not. Hierarchical coalesced (hcl): a thread appends to a place of its own without a lock, 4 bytes
// a lane, so that 32 threads side by side fill whole lines. Conventional: partitions behind a lock.
//
// Invariants: an entry is durable when insert() returns, after one ordering point; of a partition's
// bytes the durable ones are the first so many; taking off a part of an entry is one store of its
// check, and gives its room back with the entry's last byte; an entry that finds no room changes
// nothing and says so.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/hooks.hpp"
#include "exec/grid.hpp"
#include "gpm/gpm_format.hpp"

namespace perdure::gpm {

/// What a log's calls inside a kernel answer.
enum class GpmLogError : std::uint32_t {
  none = 0,
  overflow,  // the partition has no room for it: nothing was written; make the log larger, or clear
             // it
  size,  // of 0 bytes, or an entry of more than 256
  partition,  // no such partition
  empty,  // the stack holds nothing
  fewer,  // the stack holds fewer bytes than that: none was read, or taken off
  foreign,  // what stands where the last entry was is none: somebody else wrote there
};

/// Words of a mask of entry sizes.
inline constexpr std::uint32_t kGpmSizeMask = kMostEntryBytes / 32;

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
  // two masks, bit n-1 of n bytes: what the header's sizes and parts name, durably
  std::uint32_t* known = nullptr;
  std::uint64_t* lost = nullptr;  // entries that found no room
};

namespace gpm_detail {

PERDURE_FN std::uint32_t* word_of(GpmLogView const& log, std::uint64_t partition,
                                  std::uint64_t word) {
  return reinterpret_cast<std::uint32_t*>(
      log.base + gpm_word_at(log.kind, log.data, log.words, partition, word));
}

/// Word i of `bytes` bytes, the last one filled up with zeros.
PERDURE_FN std::uint32_t word_from(void const* bytes, std::size_t size, std::uint32_t i) {
  std::uint32_t word = 0;
  std::size_t const left = size - std::size_t{i} * 4;
  memcpy(&word, static_cast<char const*>(bytes) + std::size_t{i} * 4, left < 4 ? left : 4);
  return word;
}

PERDURE_FN std::uint32_t mask_bit(std::uint32_t size) { return 1u << (size - 1) % 32; }

/// Before the first entry of its size, whole or in part: scans look for what the header names.
/// `known` is the view's mask of `named`, an array of the header.
template <class T>
PERDURE_FN void name_size(T& thread, std::uint32_t* known, std::uint32_t* named,
                          std::uint32_t size) {
  std::uint32_t* const mask = &known[(size - 1) / 32];
  std::uint32_t seen = thread.load(mask);
  auto const learn = [&] {
    while ((seen & mask_bit(size)) == 0) {
      std::uint32_t const was = thread.cas(mask, seen, seen | mask_bit(size));
      seen = was == seen ? seen | mask_bit(size) : was;
    }
  };
  if ((seen & mask_bit(size)) != 0) return;
  thread.store(&named[size - 1], 1);
  if (mutated("gpm_size_known_before_order")) learn();
  if (!mutated("gpm_size_not_ordered")) thread.persist();
  learn();
}

PERDURE_FN GpmLogHeader* header_of(GpmLogView const& log) {
  return reinterpret_cast<GpmLogHeader*>(log.base);
}

template <class T>
PERDURE_FN void lock(T& thread, GpmLogView const& log, std::uint64_t partition) {
  if (log.kind != GpmLogKind::conventional || mutated("gpm_lock_ignored")) return;
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

/// Whose stack a call means: -1 = the thread's own. Others below 0 are no partition.
template <class T>
PERDURE_FN std::uint64_t partition_of(T const& thread, std::int64_t partition) {
  return partition == -1 ? thread.global() : static_cast<std::uint64_t>(partition);
}

/// The words of a partition that are in use.
template <class T>
PERDURE_FN std::uint32_t tail_of(T& thread, GpmLogView const& log, std::uint64_t partition) {
  return thread.add(&log.tails[partition], 0);
}

template <class T>
PERDURE_FN GpmLogError append(T& thread, GpmLogView const& log, void const* entry,
                              std::uint32_t size, std::uint64_t partition) {
  std::uint32_t const words = gpm_words_of(size);
  std::uint32_t const first = tail_of(thread, log, partition);
  if (first + words + (mutated("gpm_overflow_forgets_check") ? 0 : 1) > log.words) {
    thread.add(log.lost, 1);
    return GpmLogError::overflow;
  }
  name_size(thread, log.known, header_of(log)->sizes, size);
  GpmCheck check(partition, first);
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint32_t const word = word_from(entry, size, i);
    check.add(word);
    thread.store(word_of(log, partition, first + i), word);
  }
  thread.store(word_of(log, partition, first + words), check.of(log.transaction, size, 0));
  if (!mutated("gpm_entry_not_ordered") && !mutated("gpm_unlocked_before_order")) thread.persist();
  thread.exchange(&log.tails[partition], first + words + 1);
  return GpmLogError::none;
}

/// An entry as it stands: words [first, first + words of `size`), and its check.
struct Entry {
  std::uint32_t first = 0;
  std::uint32_t size = 0;
  std::uint32_t taken = 0;  // of its last bytes
  std::uint64_t state = 0;  // of its check

  [[nodiscard]] PERDURE_FN std::uint32_t left() const { return size - taken; }
};

/// Whether an entry of `size` bytes ends at the tail.
template <class T>
PERDURE_FN bool ends_there(T& thread, GpmLogView const& log, std::uint64_t partition,
                           std::uint32_t tail, std::uint32_t size, bool parts, Entry& entry) {
  std::uint32_t const words = gpm_words_of(size), first = tail - words - 1;
  GpmCheck check(partition, first);
  for (std::uint32_t i = 0; i < words; ++i)
    check.add(thread.load(word_of(log, partition, first + i)));
  std::uint32_t const stands = thread.load(word_of(log, partition, tail - 1));
  entry = {first, size, check.taken(stands, log.transaction, size, parts), check.state};
  return entry.taken != size;
}

/// The entry that ends at the tail, which is not 0. `likely`: its size, or any number.
template <class T>
PERDURE_FN bool last_entry(T& thread, GpmLogView const& log, std::uint64_t partition,
                           std::uint32_t tail, std::size_t likely, Entry& entry) {
  if (likely != 0 && likely <= kMostEntryBytes) {
    auto const size = static_cast<std::uint32_t>(likely);
    std::uint32_t const mask = thread.load(&log.known[(size - 1) / 32]);
    if ((mask & mask_bit(size)) != 0 && gpm_words_of(size) < tail &&
        ends_there(thread, log, partition, tail, size, false, entry))
      return true;
  }
  for (std::uint32_t i = 0; i < kGpmSizeMask; ++i) {
    std::uint32_t const sizes = thread.load(&log.known[i]);
    std::uint32_t const parts = sizes == 0 ? 0 : thread.load(&log.known[kGpmSizeMask + i]);
    for (std::uint32_t bit = 0; bit < 32 && sizes >> bit != 0; ++bit) {
      std::uint32_t const size = i * 32 + bit + 1;
      if ((sizes >> bit & 1) == 0 || gpm_words_of(size) >= tail) continue;
      if (ends_there(thread, log, partition, tail, size, (parts >> bit & 1) != 0, entry))
        return true;
    }
  }
  return false;
}

/// The check goes first, so that of a partition's entries the first so many stay.
template <class T>
PERDURE_FN void take_off(T& thread, GpmLogView const& log, std::uint64_t partition,
                         Entry const& entry) {
  if (!mutated("gpm_removal_keeps_check"))
    thread.store(word_of(log, partition, entry.first + gpm_words_of(entry.size)), 0u);
  if (!mutated("gpm_removal_not_ordered")) thread.persist();
  thread.exchange(&log.tails[partition], entry.first);
}

/// Takes off the last `bytes` of what is left of an entry, which is more.
template <class T>
PERDURE_FN void take_part(T& thread, GpmLogView const& log, std::uint64_t partition,
                          Entry const& entry, std::uint32_t bytes) {
  if (!mutated("gpm_part_not_named"))
    name_size(thread, log.known + kGpmSizeMask, header_of(log)->parts, entry.size);
  GpmCheck check(partition, entry.first);
  check.state = entry.state;
  thread.store(word_of(log, partition, entry.first + gpm_words_of(entry.size)),
               check.of(log.transaction, entry.size, entry.taken + bytes));
  if (!mutated("gpm_part_not_ordered")) thread.persist();
}

/// The stack's last `bytes` bytes, by the entries that they lie in: act(entry, how many of what is
/// left of it), newest first, until it answers false. `last`: the newest entry. Whether all of them
/// are entries, and act() never said false.
template <class T, class F>
PERDURE_FN bool for_last(T& thread, GpmLogView const& log, std::uint64_t partition, Entry last,
                         std::size_t bytes, F act) {
  while (true) {
    std::uint32_t const left = last.left();
    if (!act(last, bytes < left ? static_cast<std::uint32_t>(bytes) : left)) return false;
    if (bytes <= left) return true;
    bytes -= left;
    if (last.first == 0 || !last_entry(thread, log, partition, last.first, bytes, last))
      return false;
  }
}

/// Finds the newest entry, and sees that `bytes` bytes are there.
template <class T>
PERDURE_FN GpmLogError look(T& thread, GpmLogView const& log, std::uint64_t partition,
                            std::size_t bytes, Entry& last) {
  std::uint32_t const tail = tail_of(thread, log, partition);
  if (tail == 0) return GpmLogError::empty;
  if (!last_entry(thread, log, partition, tail, bytes, last)) return GpmLogError::foreign;
  if (bytes <= last.left()) return GpmLogError::none;
  std::uint32_t lowest = tail;
  bool const there =
      for_last(thread, log, partition, last, bytes, [&](Entry const& entry, std::uint32_t) {
        lowest = entry.first;
        return true;
      });
  if (there) return GpmLogError::none;
  return lowest == 0 ? GpmLogError::fewer : GpmLogError::foreign;
}

/// Bytes [from, from + n) of an entry.
template <class T>
PERDURE_FN void copy_bytes(T& thread, GpmLogView const& log, std::uint64_t partition,
                           std::uint32_t first, std::uint32_t from, std::uint32_t n, char* to) {
  for (std::uint32_t i = 0; i < n;) {
    std::uint32_t const skip = (from + i) % 4, here = n - i < 4 - skip ? n - i : 4 - skip;
    std::uint32_t const word =
        thread.load(word_of(log, partition, first + (from + i) / 4)) >> 8 * skip;
    memcpy(to + i, &word, here);
    i += here;
  }
}

template <class T>
PERDURE_FN GpmLogError read_last(T& thread, GpmLogView const& log, void* to, std::size_t bytes,
                                 std::uint64_t partition) {
  Entry last;
  if (GpmLogError const error = look(thread, log, partition, bytes, last);
      error != GpmLogError::none)
    return error;
  char* end = static_cast<char*>(to) + bytes;
  for_last(thread, log, partition, last, bytes, [&](Entry const& entry, std::uint32_t n) {
    end -= n;
    copy_bytes(thread, log, partition, entry.first, entry.left() - n, n, end);
    return true;
  });
  return GpmLogError::none;
}

template <class T>
PERDURE_FN GpmLogError remove_last(T& thread, GpmLogView const& log, std::size_t bytes,
                                   std::uint64_t partition) {
  Entry last;
  if (GpmLogError const error = look(thread, log, partition, bytes, last);
      error != GpmLogError::none)
    return error;
  for_last(thread, log, partition, last, bytes, [&](Entry const& entry, std::uint32_t n) {
    if (n == entry.left()) {
      take_off(thread, log, partition, entry);
    } else {
      take_part(thread, log, partition, entry, n);
    }
    return true;
  });
  return GpmLogError::none;
}

template <class T, class F>
PERDURE_FN GpmLogError locked(T& thread, GpmLogView const& log, std::int64_t which, F act) {
  std::uint64_t const partition = partition_of(thread, which);
  if (partition >= log.partitions) return GpmLogError::partition;
  lock(thread, log, partition);
  GpmLogError const answer = act(partition);
  unlock(thread, log, partition);
  if (mutated("gpm_unlocked_before_order")) thread.persist();
  return answer;
}

}  // namespace gpm_detail

/// Appends `size` bytes, durable when it returns. `which`: the partition; -1 = the thread's own.
template <class T>
PERDURE_FN GpmLogError gpm_insert(T& thread, GpmLogView const& log, void const* entry,
                                  std::size_t size, std::int64_t which = -1) {
  if (size == 0 || size > kMostEntryBytes) return GpmLogError::size;
  return gpm_detail::locked(thread, log, which, [&](std::uint64_t partition) {
    return gpm_detail::append(thread, log, entry, static_cast<std::uint32_t>(size), partition);
  });
}

/// The last `size` bytes, of whichever entries.
template <class T>
PERDURE_FN GpmLogError gpm_read(T& thread, GpmLogView const& log, void* bytes, std::size_t size,
                                std::int64_t which = -1) {
  if (size == 0) return GpmLogError::size;
  return gpm_detail::locked(thread, log, which, [&](std::uint64_t partition) {
    return gpm_detail::read_last(thread, log, bytes, size, partition);
  });
}

/// Takes off the last `size` bytes, entry by entry, newest first; durable when it returns. A crash
/// before that may leave it done in part.
template <class T>
PERDURE_FN GpmLogError gpm_remove(T& thread, GpmLogView const& log, std::size_t size,
                                  std::int64_t which = -1) {
  if (size == 0) return GpmLogError::size;
  return gpm_detail::locked(thread, log, which, [&](std::uint64_t partition) {
    return gpm_detail::remove_last(thread, log, size, partition);
  });
}

/// Takes off all entries of a partition, newest first, an ordering point each. The host's clear()
/// ends all at once.
template <class T>
PERDURE_FN GpmLogError gpm_clear(T& thread, GpmLogView const& log, std::int64_t which = -1) {
  return gpm_detail::locked(thread, log, which, [&](std::uint64_t partition) {
    gpm_detail::Entry last;
    while (std::uint32_t const tail = gpm_detail::tail_of(thread, log, partition)) {
      if (!gpm_detail::last_entry(thread, log, partition, tail, last.size, last))
        return GpmLogError::foreign;
      gpm_detail::take_off(thread, log, partition, last);
    }
    return GpmLogError::none;
  });
}

/// How many bytes a partition's stack holds.
template <class T>
PERDURE_FN GpmLogError gpm_size(T& thread, GpmLogView const& log, std::uint64_t& bytes,
                                std::int64_t which = -1) {
  bytes = 0;
  return gpm_detail::locked(thread, log, which, [&](std::uint64_t partition) {
    gpm_detail::Entry last;
    for (std::uint32_t tail = gpm_detail::tail_of(thread, log, partition); tail != 0;
         tail = last.first) {
      if (!gpm_detail::last_entry(thread, log, partition, tail, last.size, last))
        return GpmLogError::foreign;
      bytes += last.left();
    }
    return GpmLogError::none;
  });
}

/// Whether it holds none.
template <class T>
PERDURE_FN GpmLogError gpm_empty(T& thread, GpmLogView const& log, bool& empty,
                                 std::int64_t which = -1) {
  return gpm_detail::locked(thread, log, which, [&](std::uint64_t partition) {
    empty = gpm_detail::tail_of(thread, log, partition) == 0;
    return GpmLogError::none;
  });
}

}  // namespace perdure::gpm
