// Operations on one key that several warps carried out at once, and whether some order of them
// explains what they answered: an order in which whatever had ended before another began comes
// before it. (Operations on different keys commute, so each key is judged by itself.)
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "perdure/batch.h"

namespace perdure::explore {

/// An operation as its caller saw it. Moments are those of one clock.
struct Seen {
  OpKind kind = OpKind::get;
  // an update that adds to the value, and inserts the operand where there is none
  bool adds = false;
  std::uint64_t operand = 0;
  KeyStatus status = KeyStatus::ok;
  std::uint64_t value = 0;  // of a get that found one; of an update that adds, the sum
  std::uint64_t began = 0;
  std::uint64_t ended = 0;
  // else, after a crash: it took effect or it did not, and nobody knows its answer
  bool acknowledged = true;
  Rmw rmw = Rmw::replace;  // else an update computes, where there is a value, and answers none
  bool erases_run_out = false;  // an erasure may answer no_space, of a key that is there
};

/// Whether a key that was `before` can be `after` now. At most 64 operations.
[[nodiscard]] bool explained(std::span<Seen const> seen, std::optional<std::uint64_t> before,
                             std::optional<std::uint64_t> after);

}  // namespace perdure::explore
