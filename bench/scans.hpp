// The scans of workload e: what each must give, a call for each from several clients side by side,
// and the check of every answer.
//
// Invariants: the clock runs while clients call the system, and nothing else happens meanwhile; a
// scan is right only if it gives all records there are from its first on, up to its length, each
// key and value byte by byte.
#pragma once

#include <cstdint>
#include <functional>
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

/// Throws Failure where the longest scan is more than a page of the store, 32 MiB.
void check_scan_bytes(Dataset const& dataset);

/// Answers as Store::range does, from any thread.
using RangeCall = std::function<Result<RangePage>(RangeQuery const&)>;

class Scanner {
 public:
  /// Clients that scan at once; 0 = one a hardware thread.
  Scanner(Dataset const& dataset, std::uint32_t clients);

  /// Adds to the pass; answers how many seconds it took. What is scanned holds what the stream
  /// says.
  double run(RangeCall const& range, RequestStream const& stream, std::span<Request const> scans,
             Pass& pass);

 private:
  double call(RangeCall const& range, std::span<Request const> scans);
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
