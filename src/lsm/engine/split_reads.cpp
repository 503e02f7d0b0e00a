#include "lsm/engine/split_reads.hpp"

#include <algorithm>
#include <numeric>

namespace perdure::lsm {

RunParts::Part RunParts::next() const {
  auto const begins = [&](RunPtr const& run) {
    return TwoSidedRun::of(*run).on(wish_) != nullptr ? wish_ : other(wish_);
  };
  Side const side = begins(runs_.front());
  std::size_t n = 1;
  for (; n < runs_.size(); ++n) {
    // a launch that is due anyway takes what the device has besides
    bool const goes_on = side == Side::device
                             ? TwoSidedRun::of(*runs_[n]).on(Side::device) != nullptr
                             : begins(runs_[n]) == side;
    if (!goes_on) break;
  }
  return {side, runs_.first(n)};
}

Side RunParts::take(RunPointers& part) {
  part.clear();
  auto const [side, runs] = next();
  for (RunPtr const& run : runs) part.add(TwoSidedRun::of(*run).on(side));
  runs_ = runs_.subspan(runs.size());
  return side;
}

OpenKeys::OpenKeys(Column const& keys, Limits const& limits)
    : all_(keys), all_limits_(limits), which_(keys.count), column_(keys), limits_(limits) {
  std::iota(which_.begin(), which_.end(), std::size_t{0});
}

void OpenKeys::gather() {
  bytes_.clear();
  each_.clear();
  offsets_.assign(1, 0);
  auto const begin = [&](std::size_t i) {
    return all_.offsets != nullptr ? all_.offsets[i]
                                   : static_cast<std::int64_t>(i * std::size_t{all_.width});
  };
  for (std::size_t const i : which_) {
    bytes_.insert(bytes_.end(), all_.data + begin(i), all_.data + begin(i + 1));
    offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
    if (!all_limits_.each.empty()) each_.push_back(all_limits_.each[i]);
  }
  column_ = all_;
  column_.data = bytes_.data();
  column_.count = which_.size();
  if (all_.offsets != nullptr) column_.offsets = offsets_.data();
  limits_.each = each_;
}

AnswerRows SomeAnswers::take(std::size_t keys, AnswerRows const& asked) {
  answers_.resize(keys);
  if (asked.words == nullptr) return {};
  rows_.resize(keys * asked.stride);
  return {rows_.data(), asked.stride};
}

void SomeAnswers::put(OpenKeys const& open, std::span<Answer> answers,
                      AnswerRows const& rows) const {
  for (std::size_t k = 0; k < answers_.size(); ++k) {
    std::size_t const key = open.which()[k];
    answers[key] = answers_[k];
    if (rows.words != nullptr)
      std::copy_n(rows_.data() + k * rows.stride, rows.stride, rows.from(key).words);
  }
}

void GrowingChains::add(OpenKeys const& open, Chains const& part) {
  for (std::size_t k = 0; k < open.which().size(); ++k) {
    auto const begin = part.versions.begin() + static_cast<std::ptrdiff_t>(part.offsets[k]);
    auto const end = part.versions.begin() + static_cast<std::ptrdiff_t>(part.offsets[k + 1]);
    std::vector<Version>& chain = versions_[open.which()[k]];
    chain.insert(chain.end(), begin, end);
  }
}

void GrowingChains::finish(Chains& chains) const {
  chains.offsets.assign(1, 0);
  chains.versions.clear();
  for (std::vector<Version> const& chain : versions_) {
    chains.versions.insert(chains.versions.end(), chain.begin(), chain.end());
    chains.offsets.push_back(chains.versions.size());
  }
}

}  // namespace perdure::lsm
