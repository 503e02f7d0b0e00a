// What an orderly close leaves of a segment, and the sum of it, for the next opening to compare
// (soundness.hpp). Invariant: the sum is of all that the close leaves, but for the words that
// openings change.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/crc32c.hpp"
#include "index/dash/damage.hpp"
#include "index/dash/segment_buckets.hpp"

namespace perdure::dash {

// slots in use, and guests
inline constexpr std::uint64_t kSummedState = (std::uint64_t{1} << 2 * kSlots) - 1;

/// Of a segment that nobody can have locked since it was made sound: what an orderly close does
/// not leave. Empty: nothing.
template <class Keys, class K, class Host>
std::string fault_of_states(SegmentBuckets<Keys, K> const& ops, Host& host, Segment s) {
  for (std::uint32_t b = 0, end = ops.buckets_of(host, s); b < end; ++b) {
    State const state = ops.state_of(host, s, b);
    if (state.locked()) return told("its bucket ", b, " is locked");
    if (!state.possible()) return told("its bucket ", b, " counts slots that there are none of");
  }
  return {};
}

/// Of all that an orderly close leaves of a segment that nobody changes, what is free in it among
/// it: its header but for the version, which openings change, and its buckets but for the
/// versions of their locks.
template <class Keys, class K, class Host>
[[nodiscard]] std::uint64_t sum_of(SegmentBuckets<Keys, K> const& ops, Host& host, Segment s) {
  SegmentHeader header;
  host.read(s.header, sizeof header);
  std::memcpy(&header, s.header, sizeof header);
  header.version = header.sum = 0;
  std::uint32_t crc = crc32c(0, &header, sizeof header);
  auto const add = [&](Bucket const& at) {
    host.read(&at, sizeof at);
    Bucket bucket;
    std::memcpy(&bucket, &at, sizeof bucket);
    bucket.state &= kSummedState;
    crc = crc32c(crc, &bucket, sizeof bucket);
  };
  for (std::uint32_t b = 0; b < ops.all(); ++b) add(s.bucket(b));
  for (std::uint64_t const at : ops.chain_of(host, s)) add(ops.chained_at(at));
  return kSummed | crc;
}

/// Mends what keeps that from being the sum in the header, of a segment that nobody has: locks
/// that nobody holds, and one bit. False: there is more.
template <class Keys, class K, class Host>
bool mend_bit(SegmentBuckets<Keys, K> const& ops, Host& host, Segment s) {
  constexpr std::uint64_t kLocks = (State::kVersion - 1) & ~kSummedState;
  for (std::uint32_t b = 0, end = ops.buckets_of(host, s); b < end; ++b) {
    std::uint64_t& state = ops.bucket_at(host, s, b).state;
    if ((host.load(&state) & kLocks) != 0) host.store(&state, host.load(&state) & ~kLocks);
  }
  std::uint64_t const stored = host.load(&s.header->sum), is = sum_of(ops, host, s);
  if (stored == is || std::has_single_bit(stored ^ is)) return true;  // else it is the sum itself
  auto const bit = wrong_bit(static_cast<std::uint32_t>(stored ^ is),
                             (ops.buckets_of(host, s) + 1) * sizeof(Bucket));
  if (!bit) return false;
  // the header, then buckets
  auto const part = static_cast<std::uint32_t>(*bit / (8 * sizeof(Bucket)));
  static_assert(sizeof(SegmentHeader) == sizeof(Bucket));
  auto* const words = part == 0
                          ? reinterpret_cast<std::uint64_t*>(s.header)
                          : reinterpret_cast<std::uint64_t*>(&ops.bucket_at(host, s, part - 1));
  std::uint64_t& word = words[*bit % (8 * sizeof(Bucket)) / 64];
  host.store(&word, host.load(&word) ^ std::uint64_t{1} << *bit % 64);
  host.flush(&word, sizeof word);
  return sum_of(ops, host, s) == stored;
}

}  // namespace perdure::dash
