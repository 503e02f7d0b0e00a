#include "records.hpp"

#include <algorithm>

namespace perdure::baselines {
namespace {

// Whole sectors of a GPU's memory system: no two records share one, so none is read with its
// neighbour.
constexpr std::uint64_t kAlign = 32;
constexpr std::uint64_t kLeast = 1024;  // records a run

}  // namespace

Records::Records(Arena& arena, std::uint64_t record_bytes)
    : arena_(&arena), stride_((record_bytes + kAlign - 1) / kAlign * kAlign) {
  for (Run const& run : arena.runs_of(Use::records)) {
    marks_.push_back({run, std::vector<bool>(run.bytes / stride_, false)});
    total_ += run.bytes / stride_;
  }
}

Status Records::take(std::span<std::uint64_t> out) {
  std::size_t const again = std::min(out.size(), free_.size());
  std::copy(free_.end() - static_cast<std::ptrdiff_t>(again), free_.end(), out.begin());
  free_.resize(free_.size() - again);
  for (std::size_t i = again; i < out.size(); ++i, next_ += stride_) {
    if (next_ != end_) {
      out[i] = next_;
      continue;
    }
    std::uint64_t const more = std::max({out.size() - i, total_ / 2, kLeast});
    auto const run = arena_->add(Use::records, 0, more * stride_);
    if (!run) {
      for (std::size_t k = 0; k < i; ++k) give(out[k]);
      return run.status();
    }
    std::uint64_t const records = run.value().bytes / stride_;
    total_ += records;
    next_ = run.value().at.bytes;
    end_ = next_ + records * stride_;
    out[i] = next_;
  }
  return {};
}

bool Records::mark(Offset record) {
  for (Marked& m : marks_) {
    if (record.bytes < m.run.at.bytes || record.bytes >= m.run.at.bytes + m.run.bytes) continue;
    std::uint64_t const inside = record.bytes - m.run.at.bytes;
    std::uint64_t const index = inside / stride_;
    if (inside % stride_ != 0 || index >= m.in_use.size() || m.in_use[index]) return false;
    m.in_use[index] = true;
    return true;
  }
  return false;
}

void Records::finish_marking() {
  for (Marked const& m : marks_) {
    for (std::uint64_t i = m.in_use.size(); i-- > 0;)
      if (!m.in_use[i]) give(m.run.at.bytes + i * stride_);
  }
  marks_.clear();
}

}  // namespace perdure::baselines
