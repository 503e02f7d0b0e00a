// The seam of the CPU-assisted path: an index that the CPU serves from durable memory, over columns in host
// memory. Ours is Perdure's own GPHash on CPU warps, standing in for the indexes of the paper's comparison
// (Clevel, Dash, SEPH; section 4.1); another one comes in here.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "peer.hpp"

namespace perdure::peers {

class CpuIndex {
 public:
  virtual ~CpuIndex() = default;
  virtual Status get(Column const& keys, MutableColumn const& values, std::span<KeyStatus> statuses) = 0;
  virtual Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) = 0;
  virtual Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) = 0;
  virtual Status erase(Column const& keys, std::span<KeyStatus> statuses) = 0;
  [[nodiscard]] virtual PeerStats stats() const = 0;
  virtual void reset_counts() = 0;
};

/// A new one at `path`, or with `fresh` false the one that is there.
Result<std::unique_ptr<CpuIndex>> make_gphash_index(std::string const& path, PeerOptions const& options, bool fresh);

}  // namespace perdure::peers
