// Memory of segments that lie in no file. Invariant: it is one segment's as long as that holds it;
// what comes back is used again, a few at most, for pages that are there cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "perdure/status.h"
#include "wal/disk/block_file.hpp"

namespace perdure::lsm {

class GwalBuffers : public std::enable_shared_from_this<GwalBuffers> {
 public:
  /// `most` are kept, none of them larger than `most_bytes`.
  GwalBuffers(std::uint32_t most, std::uint64_t most_bytes)
      : most_(most), most_bytes_(most_bytes) {}

  /// At least so many bytes. It comes back when nobody has it any more.
  Result<std::shared_ptr<std::span<std::byte> const>> take(std::uint64_t bytes)
      PERDURE_EXCLUDES(mutex_);
  /// Of what came back so many stay.
  void trim(std::size_t left) PERDURE_EXCLUDES(mutex_);

 private:
  struct Lent;
  Result<wal::AlignedBuffer> find_or_make(std::uint64_t bytes) PERDURE_EXCLUDES(mutex_);
  void put_back(wal::AlignedBuffer memory) PERDURE_EXCLUDES(mutex_);

  std::uint32_t const most_;
  std::uint64_t const most_bytes_;
  Mutex mutex_;
  std::vector<wal::AlignedBuffer> free_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
