// A long call in pieces, so that somebody may stop it between two of them. Invariants: without
// `stop` a batch is one piece; operations keep their order; what a call did not come to says so,
// key by key.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "batch/call.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"

namespace perdure {

// A piece of either size takes some 50 ms at most, growth included, and is no slower than a batch
// of all.
inline constexpr std::size_t kPieceOperations = 1u << 16;
inline constexpr std::uint64_t kPieceBytes = 32u << 20;  // of keys and values

[[nodiscard]] inline bool stopped(std::atomic<bool> const* stop) {
  return stop != nullptr && stop->load(std::memory_order_relaxed);
}

/// How many operations from `begin` on make a piece: one at least, where any are left.
[[nodiscard]] std::size_t piece_from(Call const& call, std::size_t begin);
/// Operations [begin, begin + count) of a batch.
[[nodiscard]] Call part_of(Call const& call, std::size_t begin, std::size_t count);
[[nodiscard]] Status stopped_after(std::size_t done, std::size_t operations);
/// Of calls that only look, by their name.
[[nodiscard]] Status look_stopped(std::string const& path, char const* call);
/// What the pieces of a batch of gets found, one behind the other.
void append(VariableValues& to, VariableValues from);

/// Runs a batch whose columns have been checked. `goes_on` says of an error whether statuses tell
/// of it, so that the pieces after it run all the same; the call then answers with the first.
template <class Run, class GoesOn>
Status in_pieces(Call const& call, std::span<KeyStatus> statuses, std::atomic<bool> const* stop,
                 Run run, GoesOn goes_on) {
  if (stop == nullptr) return run(call, statuses);
  std::fill(statuses.begin(), statuses.end(), KeyStatus::not_tried);
  Status refused;
  std::size_t begin = 0;
  do {
    if (stopped(stop)) return stopped_after(begin, call.keys.count);
    std::size_t const count = piece_from(call, begin);
    Status s = run(part_of(call, begin, count),
                   statuses.empty() ? statuses : statuses.subspan(begin, count));
    if (!s.ok() && !goes_on(s)) return s;
    if (refused.ok()) refused = std::move(s);
    begin += count;
  } while (begin < call.keys.count);
  return refused;
}

}  // namespace perdure
