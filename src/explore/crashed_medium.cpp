#include "explore/crashed_medium.hpp"

#include <algorithm>

namespace perdure::explore {

void CrashedMedium::prepare(Window const& window) {
  std::size_t const n = window.events.size();
  window_ = &window;
  for (Chain const& chain : chains_) chain_of_[chain.word] = kNone;
  chains_.clear();
  after_.assign(n, {});
  for (std::size_t e = 0; e < n; ++e) {
    std::uint32_t const word = window.events[e].word;
    std::uint32_t& chain = chain_of_[word];
    if (chain == kNone) {
      chain = static_cast<std::uint32_t>(chains_.size());
      chains_.push_back({word, arena_->now(word), {}});
    }
    chains_[chain].writes.push_back(static_cast<std::uint16_t>(e));
    for (std::size_t b = 0; b < e; ++b)
      if (window.events[e].before[b]) after_[b].set(e);
  }
}

void CrashedMedium::crash(std::vector<std::uint8_t> const& choices) {
  crashed_ = true;
  for (Chain& chain : chains_) {
    chain.unread = true;
    arena_->set(chain.word, kPoison);
  }
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
  most = chain.writes.size();
  for (std::size_t k = 0; k < chain.writes.size(); ++k) {
    if (in_[chain.writes[k]]) least = k + 1;
    if (out_[chain.writes[k]]) most = std::min(most, k);
  }
}

/// The first `arrived` writes of the word are there, and so is what comes before them; the others
/// are not, nor is what comes after. Closed this way, any further choice within bounds() can be
/// completed.
void CrashedMedium::take(Chain const& chain, std::size_t arrived) {
  if (arrived > 0) {
    Event const& last = window_->events[chain.writes[arrived - 1]];
    in_.set(chain.writes[arrived - 1]);
    in_ |= last.before;
    arena_->set(chain.word, last.value);
  } else {
    arena_->set(chain.word, chain.base);
  }
  if (arrived < chain.writes.size()) {
    out_.set(chain.writes[arrived]);
    out_ |= after_[chain.writes[arrived]];
  }
}

void CrashedMedium::resolve(Chain const& chain) {
  std::size_t least = 0, most = 0;
  bounds(chain, least, most);
  std::size_t taken = least;
  if (most > least) {
    std::size_t const at = trail_.size();
    if (at < wanted_.size()) taken = std::min(least + wanted_[at], most);
    if (arrived_) {
      auto const n =
          std::ranges::count_if(chain.writes, [&](std::uint16_t e) { return (*arrived_)[e]; });
      taken = std::clamp(static_cast<std::size_t>(n), least, most);
    }
    trail_.push_back({chain.word, static_cast<std::uint8_t>(taken - least),
                      static_cast<std::uint8_t>(most - least + 1)});
  }
  take(chain, taken);
}

Image CrashedMedium::image() const {
  Image words;
  for (Chain const& chain : chains_) {
    std::size_t least = 0, most = 0;
    bounds(chain, least, most);
    if (least > 0) words.emplace_back(chain.word, window_->events[chain.writes[least - 1]].value);
  }
  return words;
}

void CrashedMedium::will_read_word(std::uint32_t word) {
  if (!crashed_ || seen_[word] == epoch_) return;
  seen_[word] = epoch_;
  if (std::uint32_t const c = chain_of_[word]; c != kNone && chains_[c].unread) {
    chains_[c].unread = false;
    resolve(chains_[c]);
  }
  if (arena_->now(word) != 0) read_hash_ += mix(word, arena_->now(word));
}

void CrashedMedium::overwritten(std::uint32_t word) {
  if (!crashed_) return;
  seen_[word] = epoch_;
  if (std::uint32_t const c = chain_of_[word]; c != kNone) chains_[c].unread = false;
}

}  // namespace perdure::explore
