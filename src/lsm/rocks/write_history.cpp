#include "lsm/rocks/write_history.hpp"

#include <algorithm>

namespace perdure::lsm {

void WriteHistory::unpin(RequestId sequence) {
  auto const one = pins_.find(sequence);
  if (one != pins_.end()) pins_.erase(one);
  trim();
}

void WriteHistory::generations_begin(std::uint64_t base) { direct_.back().last = base; }

void WriteHistory::generations_end(std::uint64_t base, std::uint64_t ahead) {
  if (direct_.back().last == kOpen) return;  // there were none
  if (pins_.empty()) direct_.clear();
  direct_.push_back({base, kOpen, ahead});
}

void WriteHistory::keep(GenerationPtr const& generation) {
  kept_.push_front(generation);
  trim();
}

/// Forgets what happened before every pinned snapshot, and what is too much.
void WriteHistory::trim() {
  RequestId const oldest = pins_.empty() ? kNewest : *pins_.begin();
  while (!kept_.empty() && (kept_.back()->last <= oldest || kept_.size() > kMostKept)) {
    floor_ = std::max(floor_, kept_.back()->last);
    kept_.pop_back();
  }
}

std::vector<RunPtr> WriteHistory::runs(std::uint32_t family) const {
  std::vector<RunPtr> all;
  for (GenerationPtr const& generation : kept_)
    for (RunPtr const& run : generation->runs(family)) all.push_back(run);
  return all;
}

bool WriteHistory::any_direct(RequestId since, std::uint64_t base) const {
  return std::any_of(direct_.begin(), direct_.end(), [&](Direct const& time) {
    std::uint64_t const last = std::min(time.last, base);
    return last > time.before && last + time.ahead > since;
  });
}

bool WriteHistory::is_direct(std::uint64_t base, RequestId since) const {
  return std::any_of(direct_.begin(), direct_.end(), [&](Direct const& time) {
    return base > time.before && base <= time.last && base + time.ahead > since;
  });
}

}  // namespace perdure::lsm
