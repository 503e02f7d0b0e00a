// What runs over libGPM's logs and checkpoints do, drawn from one number. Invariant: a seed always
// gives the same scenario, whichever machine draws it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/grid.hpp"
#include "gpm/gpm_format.hpp"
#include "gpm/gpm_path.hpp"

namespace perdure::explore {

class GpmRandom {
 public:
  explicit GpmRandom(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x7654321) {}
  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(draw() % n); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

 private:
  std::uint64_t draw() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

// ------------------------------------------------------------------------------------------------
// Logs

enum class GpmOpKind : std::uint8_t { insert, read, remove, clear };

struct GpmOp {
  GpmOpKind kind;
  std::uint32_t partition;
  std::uint32_t words;  // of the entry; of a read or removal: as many bytes as such an entry has
  std::uint32_t value;  // that its bytes follow from
};

inline constexpr std::uint32_t kMostGpmWords = 3;                         // of an entry here
inline constexpr std::array<std::size_t, kMostGpmWords> kGpmSizes{
    4, 7, 12};  // bytes of an entry of 1, 2, 3 words
using GpmWords = std::array<std::uint32_t, kMostGpmWords>;

/// The bytes of an entry, filled up with zeros. Entries have words in common, as a torn one and the
/// next may have.
[[nodiscard]] GpmWords gpm_entry(std::uint32_t words, std::uint32_t value);

struct GpmStep {
  enum class Kind : std::uint8_t { launch, clear, reopen } kind;
  bool ordered;  // a launch: the host's ordering point follows
  std::vector<std::vector<GpmOp>> operations;  // of each thread
};

struct GpmLogScenario {
  gpm::GpmLogKind kind;
  exec::GridShape shape;
  std::uint32_t partitions;
  std::uint32_t words;  // of a partition, an even number
  std::vector<GpmStep> steps;
  [[nodiscard]] std::string describe() const;
};
[[nodiscard]] GpmLogScenario make_gpm_log_scenario(std::uint64_t seed, gpm::GpmLogKind kind);

// ------------------------------------------------------------------------------------------------
// Checkpoints

struct GpmElementShape {
  std::uint32_t bytes;
  std::uint32_t skew;  // of its address, from one that is a multiple of 8
};

struct GpmCheckpointStep {
  std::uint32_t group;
  std::uint32_t changes;  // bit set: this element's bytes change first
  bool restores;  // the newest checkpoint is brought back before
};

struct GpmCheckpointScenario {
  gpm::GpmPath path;
  std::vector<std::vector<GpmElementShape>> groups;
  std::vector<GpmCheckpointStep> steps;
  [[nodiscard]] std::uint32_t most_elements() const;
  [[nodiscard]] std::uint64_t most_bytes() const;  // of a group, in whole lines
  [[nodiscard]] std::string describe() const;
};
[[nodiscard]] GpmCheckpointScenario make_gpm_checkpoint_scenario(std::uint64_t seed);

}  // namespace perdure::explore
