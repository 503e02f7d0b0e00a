#include "explore/crashed_medium.hpp"

#include <algorithm>

namespace perdure::explore {

void CrashedMedium::prepare(Window const& window) {
  std::size_t const n = window.events.size();
  window_ = &window;
  chains_.clear();
  base_.clear();
  after_.assign(n, {});
  for (std::size_t e = 0; e < n; ++e) {
    chains_[window.events[e].word].push_back(static_cast<std::uint16_t>(e));
    base_[window.events[e].word] = arena_->now(window.events[e].word);
    for (std::size_t b = 0; b < e; ++b)
      if (window.events[e].before[b]) after_[b].set(e);
  }
}

void CrashedMedium::crash(std::vector<std::uint8_t> const& choices) {
  crashed_ = true;
  unread_ = chains_;
  for (auto const& [word, chain] : chains_) arena_->set(word, kPoison);
  in_.reset();
  out_.reset();
  wanted_ = choices;
  arrived_.reset();
  trail_.clear();
  read_hash_ = 0;
  ++epoch_;
  arena_->file_bytes = window_->file_bytes;
}

void CrashedMedium::bounds(Chain const& chain, std::size_t& least, std::size_t& most) const {
  least = 0;
  most = chain.size();
  for (std::size_t k = 0; k < chain.size(); ++k) {
    if (in_[chain[k]]) least = k + 1;
    if (out_[chain[k]]) most = std::min(most, k);
  }
}

/// The first `arrived` writes of the word are there, and so is what comes before them; the others
/// are not, nor is what comes after. Closed this way, any further choice within bounds() can be
/// completed.
void CrashedMedium::take(Chain const& chain, std::size_t arrived) {
  std::uint32_t const word = window_->events[chain[0]].word;
  if (arrived > 0) {
    in_.set(chain[arrived - 1]);
    in_ |= window_->events[chain[arrived - 1]].before;
    arena_->set(word, window_->events[chain[arrived - 1]].value);
  } else {
    arena_->set(word, base_.at(word));
  }
  if (arrived < chain.size()) {
    out_.set(chain[arrived]);
    out_ |= after_[chain[arrived]];
  }
}

void CrashedMedium::resolve(std::uint32_t word, Chain const& chain) {
  std::size_t least = 0, most = 0;
  bounds(chain, least, most);
  std::size_t taken = least;
  if (most > least) {
    std::size_t const at = trail_.size();
    if (at < wanted_.size()) taken = std::min(least + wanted_[at], most);
    if (arrived_) {
      auto const n = std::ranges::count_if(chain, [&](std::uint16_t e) { return (*arrived_)[e]; });
      taken = std::clamp(static_cast<std::size_t>(n), least, most);
    }
    trail_.push_back({word, static_cast<std::uint8_t>(taken - least),
                      static_cast<std::uint8_t>(most - least + 1)});
  }
  take(chain, taken);
}

Image CrashedMedium::image() const {
  Image words;
  for (auto const& [word, chain] : chains_) {
    std::size_t least = 0, most = 0;
    bounds(chain, least, most);
    if (least > 0) words.emplace_back(word, window_->events[chain[least - 1]].value);
  }
  return words;
}

void CrashedMedium::will_read_word(std::uint32_t word) {
  if (!crashed_ || seen_[word] == epoch_) return;
  seen_[word] = epoch_;
  if (auto const unread = unread_.find(word); unread != unread_.end()) {
    resolve(word, unread->second);
    unread_.erase(unread);
  }
  if (arena_->now(word) != 0) read_hash_ += mix(word, arena_->now(word));
}

void CrashedMedium::overwritten(std::uint32_t word) {
  if (!crashed_) return;
  seen_[word] = epoch_;
  unread_.erase(word);
}

}  // namespace perdure::explore
