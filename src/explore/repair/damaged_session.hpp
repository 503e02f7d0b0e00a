// The pool that a repair is explored on: a short session, closed in order or killed, and bits of it
// that have changed since. Invariant: all of it follows from the scenario's seed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "explore/scenario.hpp"
#include "explore/sim_arena.hpp"

namespace perdure::explore {

/// What stands in Contents for a value that gets say is damaged.
inline constexpr std::uint64_t kDamagedValue = ~std::uint64_t{0};

/// How the session ends.
enum class Ending : std::uint8_t { closed, killed, killed_in_a_transaction };

/// What was written, as the plain model has it.
struct WrittenSession {
  Ending ending = Ending::closed;
  std::vector<Contents> states{
      Contents{}};  // after each batch that counts; the last one at the end
  std::array<std::set<std::uint64_t>, kKeys> written;  // each value an operation gave the key
  /// Notes what the batch writes, operation by operation, and returns what it leaves.
  Contents note(Batch const& batch, Contents contents);
  /// Whether all keys together were so at one time.
  [[nodiscard]] bool were(Contents const& contents) const;
};

/// How the pools of these runs are opened.
[[nodiscard]] OpenOptions repair_options(bool repair);

/// A pool in the arena that the session has left, as the only change of it. What cannot be done, if
/// anything cannot.
[[nodiscard]] std::optional<std::string> write_session(Arena& a, Scenario const& scenario,
                                                       WrittenSession& session);

struct Flip {
  std::uint32_t word;
  std::uint64_t bits;
};
/// Of words that the pool has in use: one bit or two, or more in one run of four.
[[nodiscard]] std::vector<Flip> draw_damage(Arena const& a, std::uint64_t random);
[[nodiscard]] std::string described(std::vector<Flip> const& damage, Ending ending);

}  // namespace perdure::explore
