// The scans of workload e: what each must give, a call of Store::range for each from several
// clients side by side, and the check of every answer.
//
// Invariants: the clock runs while clients call the store, and nothing else happens meanwhile; a
// scan is right only if it gives all records there are from its first on, up to its length, each
// key and value byte by byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataset.hpp"
#include "pass.hpp"
#include "perdure/store.h"
#include "ycsb.hpp"

namespace perdure::bench {

/// Records 0, 1, 2, ... in the order of their keys, byte by byte.
class KeyOrder {
 public:
  explicit KeyOrder(Dataset const& dataset) : dataset_(dataset) {}

  /// Records 0 .. records-1 are there; never fewer than before.
  void grow(std::uint64_t records);
  struct Entry {
    std::uint64_t prefix = 0;  // the first 8 bytes of the key, as a number of the same order
    std::uint64_t id = 0;
    bool operator<(Entry const& other) const { return prefix < other.prefix; }
  };
  /// Record `id` and those behind it, `most` at most.
  [[nodiscard]] std::span<Entry const> from(std::uint64_t id, std::size_t most) const;

 private:
  [[nodiscard]] Entry entry(std::uint64_t id) const;

  Dataset dataset_;
  std::vector<Entry> entries_;
};

/// What the longest scan gives; a page of the store has 32 MiB at most.
[[nodiscard]] inline std::uint64_t longest_scan_bytes(Dataset const& dataset) {
  return std::uint64_t{kLongestScan} * (dataset.key_bytes() + dataset.value_bytes());
}
inline constexpr std::uint64_t kPageBytes = std::uint64_t{32} << 20;

class Scanner {
 public:
  /// Clients that scan at once; 0 = one a hardware thread.
  Scanner(Dataset const& dataset, std::uint32_t clients);

  /// Adds to the pass; answers how many seconds it took. The store holds what the stream says.
  double run(Store& store, RequestStream const& stream, std::span<Request const> scans, Pass& pass);

 private:
  double call(Store& store, std::span<Request const> scans);
  void check(RequestStream const& stream, std::span<Request const> scans, Pass& pass) const;
  [[nodiscard]] std::string fault_of(RangePage const& page, Request const& scan,
                                     RequestStream const& stream) const;

  Dataset dataset_;
  std::uint32_t clients_;
  std::size_t chunk_;  // scans between two checks
  KeyOrder order_;
  std::vector<RangeQuery> queries_;
  std::vector<RangePage> pages_;
};

}  // namespace perdure::bench
