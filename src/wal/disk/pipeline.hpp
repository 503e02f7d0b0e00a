// Transfers of a file one after another, some of them under way at a time. Invariant: when run()
// returns, none is, be it by a failure: the buffers are the caller's again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "perdure/status.h"
#include "wal/disk/block_file.hpp"

namespace perdure::wal {

/// Nothing else is in flight meanwhile. At most `depth` transfers are under way, each with a buffer
/// of its own.
class Pipeline {
 public:
  Pipeline(BlockFile& file, std::uint32_t depth) : file_(&file), depth_(depth) {}

  /// The tag by which transfer i in buffer `slot` is begun.
  [[nodiscard]] std::uint64_t tag(std::uint64_t i, std::uint32_t slot) const {
    return i * depth_ + slot;
  }

  /// `begin(i, slot)` starts transfer i and is told which buffer is free; `end(i, slot, bytes)`
  /// hears of its end. The first failure is answered, once what is under way has ended.
  template <class Begin, class End>
  Status run(std::uint64_t n, Begin const& begin, End const& end) {
    std::vector<std::uint32_t> free(depth_);
    std::iota(free.begin(), free.end(), 0u);
    std::vector<Done> done;
    Status failed;
    std::uint64_t next = 0, ended = 0;
    for (;;) {
      for (; failed.ok() && next < n && !free.empty(); ++next) {
        failed = caught([&] { return begin(next, free.back()); });
        if (!failed.ok()) break;
        free.pop_back();
      }
      if (ended == next) return failed;
      done.clear();
      if (Status s = file_->wait(done); !s.ok())
        return failed.ok() ? s : failed;  // nothing is under way any more
      for (Done const& d : done) {
        auto const slot = static_cast<std::uint32_t>(d.tag % depth_);
        PERDURE_ASSERT(ended < next && free.size() < depth_);
        ++ended;
        free.push_back(slot);
        if (failed.ok()) failed = d.status;
        if (failed.ok()) failed = caught([&] { return end(d.tag / depth_, slot, d.bytes); });
      }
    }
  }

 private:
  BlockFile* file_;
  std::uint32_t depth_;
};

}  // namespace perdure::wal
