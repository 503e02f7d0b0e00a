// The checksums of a record's payload: a CRC, and a hash beside it, for a CRC is linear, and so
// does not see that a value that ends with its own CRC stands where an older file's stood. A
// payload is summed in chunks, which different threads may take.
//
// Invariants: the CRC is that of all bytes one behind the other, however they are cut, so it
// detects what it would detect of the whole. The hash is a hash of the chunks' hashes in their
// order, none of them shortened: to miss a change, one of 64 bits or that of all has to collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/gwal/gwal_format.hpp"

namespace perdure::lsm {

class GwalPayloadSum {
 public:
  /// Sums nothing yet. The payload stays, and as it is, as long as this.
  explicit GwalPayloadSum(std::span<std::byte const> payload);

  [[nodiscard]] std::size_t chunks() const { return several_.empty() ? 1 : several_.size(); }
  /// Each once, by any threads, before the answers.
  void sum_chunk(std::size_t i);
  /// All of them. Without workers, by the caller alone.
  void sum_all(exec::Workers* workers);

  [[nodiscard]] std::uint32_t hash() const;
  /// Of what has the CRC `before`, and the payload behind it.
  [[nodiscard]] std::uint32_t crc(std::uint32_t before) const;

 private:
  struct Chunk {
    std::uint64_t hash = 0;
    std::uint32_t crc = 0;
  };
  [[nodiscard]] std::span<std::byte const> bytes_of(std::size_t i) const;
  /// How many of the chunks count.
  [[nodiscard]] std::size_t summed() const;

  std::span<std::byte const> payload_;
  std::uint64_t hash_ = 0;  // of a single chunk, which needs no memory
  std::vector<Chunk> several_;
};

[[nodiscard]] std::uint32_t gwal_crc(GwalIdentity const& identity, GwalRecordHeader h,
                                     GwalPayloadSum const& payload);

}  // namespace perdure::lsm
