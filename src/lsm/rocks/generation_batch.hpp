// A small generation as one write of RocksDB's own: of each key its newest version, and operands
// down to what they stand on, in their order.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstdint>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/families.hpp"
#include "lsm/rocks/generation.hpp"

namespace perdure::lsm {

struct GenerationBatch {
  rocksdb::WriteBatch batch;
  std::vector<std::uint64_t> hashes;  // of its keys, for the block cache

  /// `generation` has one run a family. Families that are gone are left out.
  rocksdb::Status read(Engine& engine, Families const& families, Generation const& generation);

 private:
  rocksdb::Status add(Engine& engine, Family const& family, Run const& run);
};

}  // namespace perdure::lsm
