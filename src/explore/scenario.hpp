// What a run does, and what must come of it: batches over a handful of colliding keys on a table of a
// handful of slots, all of it made from one seed; and the plain model that says what each operation
// answers and which contents a crash may leave.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explore/engines.hpp"
#include "perdure/store.h"

namespace perdure::explore {

inline constexpr std::size_t kKeys = 14;
using Contents = std::array<std::optional<std::uint64_t>, kKeys>;

struct Operation {
  OpKind kind;
  std::uint32_t key;  // index into Scenario::keys
  std::uint64_t operand;
};

struct Batch {
  std::vector<Operation> operations;
  Rmw rmw = Rmw::replace;
};

/// How a run's batches are written.
enum class Writing : std::uint8_t { plainly, atomically, in_one_transaction, in_one_aborted };

struct Scenario {
  std::uint64_t seed;
  Layout layout;
  Shape shape;
  Machine machine;
  Writing writing;
  std::array<std::uint64_t, kKeys> keys;
  std::vector<Batch> filling;  // before the run, and not explored
  std::vector<Batch> batches;
  [[nodiscard]] std::string describe() const;
};

/// Bounds of what is drawn.
struct Bounds {
  std::uint32_t warps = 3;
  std::uint32_t operations = 9;  // of a batch: 3 a warp
  std::uint32_t batches = 3;
  bool atomic = false;            // batches are atomic, or make up one transaction
  bool mirrored = false;          // probes go to a mirror of the slots
};

[[nodiscard]] Scenario make_scenario(std::uint64_t seed, Layout layout, Bounds const& bounds);

struct Answer {
  KeyStatus status;
  std::uint64_t value;  // of a get that found something
};

/// Carries out the batch on the plain model.
std::vector<Answer> apply(Batch const& batch, Contents& contents);

/// What a crash may leave of each key: `old`, or `fresh` of the batch in flight.
struct Oracle {
  Contents old, fresh;
  bool whole = false;       // an atomic batch: all keys old, or all fresh
  bool may_refuse = false;  // the pool is being made: it may not open at all
};

}  // namespace perdure::explore
