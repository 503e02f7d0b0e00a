// A generation: the memtables of all families that were filled together, and the memory that their
// values lie in, which is the G-WAL's segment.
//
// Invariants: of a sealed generation nothing changes but how many runs hold its entries. Runs point
// into its memory, so who has a run has the generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "lsm/gwal/gwal.hpp"
#include "lsm/rocks/view.hpp"

namespace perdure::lsm {

class Generation {
 public:
  explicit Generation(std::unique_ptr<GwalSegment> segment) : segment_(std::move(segment)) {}

  /// Null: nothing of it is logged.
  [[nodiscard]] GwalSegment* segment() const { return segment_.get(); }
  void set_segment(std::unique_ptr<GwalSegment> segment) { segment_ = std::move(segment); }

  /// Memory for values that are not logged.
  [[nodiscard]] std::span<std::byte> buffer(std::uint64_t size) {
    buffers_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    buffer_bytes_ += size;
    return {buffers_.back().get(), size};
  }
  /// What goes when this goes: of values, and of the machine.
  [[nodiscard]] std::uint64_t memory() const {
    std::uint64_t all = buffer_bytes_ + (segment_ == nullptr ? 0 : segment_->memory());
    for (View::FamilyRuns const& one : families)
      for (RunPtr const& run : one.runs) all += run->bytes();
    return all;
  }

  // The rest is guarded by whoever publishes views (Tables).
  std::vector<View::FamilyRuns> families;
  std::uint64_t bytes = 0;  // of keys and values
  std::uint64_t requests = 0;
  RequestId last = 0;  // of its requests
  bool sealed = false;
  bool merges = false;  // has operands
  bool synced = false;  // some of it was promised to be on the medium
  bool uncertain = false;  // an ingest failed half way: the MANIFEST says at the next opening
  bool ingested = false;  // the flusher's: RocksDB has it, and its segment goes

  /// Newest first.
  [[nodiscard]] std::vector<RunPtr> runs(std::uint32_t family) const {
    for (View::FamilyRuns const& one : families)
      if (one.family == family) return one.runs;
    return {};
  }
  void set_runs(std::uint32_t family, std::vector<RunPtr> runs) {
    for (View::FamilyRuns& one : families) {
      if (one.family != family) continue;
      one.runs = std::move(runs);
      return;
    }
    families.push_back({family, std::move(runs)});
  }

 private:
  std::unique_ptr<GwalSegment> segment_;
  std::vector<std::unique_ptr<std::byte[]>> buffers_;
  std::uint64_t buffer_bytes_ = 0;
};
using GenerationPtr = std::shared_ptr<Generation>;

}  // namespace perdure::lsm
