// What runs over a G-WAL do, drawn from one number: writes to memtables, their hand-over to
// RocksDB step by step, and openings. Invariant: a seed always gives the same scenario.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace perdure::explore {

inline constexpr std::uint32_t kGwalKeys = 3;
/// That RocksDB alone is written to while there are memtables.
inline constexpr std::uint32_t kGwalDirectKey = kGwalKeys;

/// A put replaces what its key has by one operand, a merge adds one. So what is applied twice
/// shows.
struct GwalOp {
  enum class Kind : std::uint8_t { put, merge, erase } kind;
  std::uint32_t key;
  std::uint32_t operand;
};

/// The operands of each key, in order.
struct GwalContents {
  std::array<std::vector<std::uint32_t>, kGwalKeys + 1> of;
  void apply(GwalOp const& op);
  friend bool operator==(GwalContents const&, GwalContents const&) = default;
  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] std::string describe() const;
};

/// As a record's payload holds it.
[[nodiscard]] std::uint64_t gwal_word(GwalOp const& op);
[[nodiscard]] GwalOp gwal_op(std::uint64_t word);

struct GwalStep {
  enum class Kind : std::uint8_t {
    write,     // one batch, to the memtables
    direct,    // the same to RocksDB, where there is no memtable
    seal,      // the next generation begins
    intend,    // of the oldest generation
    withdraw,  // that intent, and RocksDB takes a write of another key
    ingest,
    retire,
    reopen,
  } kind;
  bool sync = false;
  std::vector<GwalOp> ops = {};
};

struct GwalScenario {
  std::vector<GwalStep> steps;
  [[nodiscard]] std::string describe() const;
};
[[nodiscard]] GwalScenario make_gwal_scenario(std::uint64_t seed);

}  // namespace perdure::explore
