#include "explore/tracker.hpp"

#include <algorithm>

#include "exec/sim/sim_scheduler.hpp"

namespace perdure::explore {
namespace {

std::uint32_t running_thread() {
  if (exec::sim_actor != 0) return static_cast<std::uint32_t>(exec::sim_actor) | 1u << 31;
  return exec::sim_scheduler == nullptr ? 0 : exec::sim_scheduler->thread();
}

}  // namespace

// ------------------------------------------------------------------------------------------------
// Recording

void Tracker::record(bool on) {
  recording_ = on;
  open_ = {};
  last_write_.clear();
  last_in_line_.clear();
  threads_.clear();
  told_.clear();
  durable_.reset();
}

void Tracker::cut(bool even_empty) {
  if (!recording_) return;
  if (!open_.events.empty() || even_empty) {
    open_.file_bytes = arena_->file_bytes;
    open_.oracle = oracle_;
    windows_.push_back(std::move(open_));
  }
  record(true);
}

void Tracker::order() { cut(false); }

void Tracker::fence() {
  if (!recording_) return;
  Thread& t = threads_[running_thread()];
  (model_ == Model::flush ? durable_ : t.fenced) |= t.since;
  t.since.reset();
}

void Tracker::flush(void const* at, std::size_t bytes) {
  constexpr std::uintptr_t kLine = 64;
  if (!recording_ || model_ != Model::flush || bytes == 0 || !arena_->holds(at)) return;
  auto const first = reinterpret_cast<std::uintptr_t>(at) / kLine * kLine;
  auto const end = (reinterpret_cast<std::uintptr_t>(at) + bytes + kLine - 1) / kLine * kLine;
  Thread& t = threads_[running_thread()];
  for (std::uint32_t word = arena_->word_of(reinterpret_cast<void const*>(first));
       word < arena_->word_of(reinterpret_cast<void const*>(end)); ++word) {
    auto const last = last_write_.find(word);
    if (last == last_write_.end()) continue;
    t.since |= open_.events[last->second].before;
    t.since.set(last->second);
  }
}

void Tracker::add_event(std::uint32_t word, std::uint64_t value) {
  std::size_t const number = open_.events.size();
  if (number >= kMostEvents) {
    open_.too_large = true;
    return;
  }
  std::uint32_t const thread = running_thread();
  Event e{word, thread, value, {}};
  if (auto const last = last_write_.find(word); last != last_write_.end()) {
    e.before |= open_.events[last->second].before;
    e.before.set(last->second);
  }
  if (lines_) {
    auto const [last, first] =
        last_in_line_.try_emplace(arena_->line_of(word), static_cast<std::uint16_t>(number));
    if (!first) {
      e.before |= open_.events[last->second].before;
      e.before.set(last->second);
      last->second = static_cast<std::uint16_t>(number);
    }
  }
  if (model_ == Model::fence) {
    Thread& t = threads_[thread];
    e.before |= t.fenced;
    t.since |= e.before;
    t.since.set(number);
  } else if (model_ == Model::flush) {
    e.before |= durable_;
  }
  last_write_[word] = static_cast<std::uint16_t>(number);
  open_.events.push_back(e);
}

/// Another thread's write to the word stays before whatever the running thread writes after its
/// next fence.
void Tracker::heed(std::uint32_t word) {
  if (!recording_ || model_ != Model::fence) return;
  auto const writer = last_write_.find(word);
  if (writer == last_write_.end() || open_.events[writer->second].thread == running_thread())
    return;
  Thread& t = threads_[running_thread()];
  t.since |= open_.events[writer->second].before;
  t.since.set(writer->second);
}

/// Volatile words have 4 bytes here, or several of them.
void Tracker::told(void const* at, std::size_t bytes) {
  if (!recording_ || !follow_ || model_ != Model::fence || told_.empty()) return;
  Thread& t = threads_[running_thread()];
  auto const first = reinterpret_cast<std::uintptr_t>(at) / 4;
  for (std::uintptr_t word = first; word < first + (bytes + 3) / 4; ++word)
    if (auto const known = told_.find(word); known != told_.end()) t.fenced |= known->second;
}

void Tracker::tells(void const* at, std::size_t bytes) {
  if (!recording_ || !follow_ || model_ != Model::fence) return;
  EventSet const& fenced = threads_[running_thread()].fenced;
  auto const first = reinterpret_cast<std::uintptr_t>(at) / 4;
  for (std::uintptr_t word = first; word < first + (bytes + 3) / 4; ++word) told_[word] = fenced;
}

void Tracker::wrote(void const* at, std::size_t bytes) {
  if (bytes == 0) return;
  bool const durable = arena_->holds(at);
  if (!durable || follow_durable_) tells(at, bytes);
  if (!durable) return;
  std::uint32_t const first = arena_->word_of(at);
  std::uint32_t const last = arena_->word_of(static_cast<std::byte const*>(at) + bytes - 1);
  for (std::uint32_t word = first; word <= last; ++word) {
    if (crashed_) {  // recovery overwrites it unread: what the crash left there is gone
      seen_[word] = epoch_;
      unread_.erase(word);
    }
    std::uint64_t const value = arena_->now(word);
    if (value == arena_->before(word)) {
      heed(word);  // the same value once more: once that is fenced, the write that it repeats is
                   // there
      continue;
    }
    arena_->keep(word);
    if (recording_) add_event(word, value);
  }
}

// ------------------------------------------------------------------------------------------------
// Standing in for a crash

void Tracker::will_read(void const* at, std::size_t bytes) {
  if (bytes == 0) return;
  bool const durable = arena_->holds(at);
  if (!durable || follow_durable_) told(at, bytes);
  if (!durable) return;
  std::uint32_t const first = arena_->word_of(at);
  std::uint32_t const last = arena_->word_of(static_cast<std::byte const*>(at) + bytes - 1);
  for (std::uint32_t word = first; word <= last && word < arena_->words(); ++word) {
    if (crashed_ && seen_[word] != epoch_) {
      seen_[word] = epoch_;
      if (auto const unread = unread_.find(word); unread != unread_.end()) {
        resolve(word, unread->second);
        unread_.erase(unread);
      }
      if (arena_->now(word) != 0) read_hash_ += mix(word, arena_->now(word));
    }
    heed(word);
  }
}

void Tracker::prepare(Window const& window) {
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

void Tracker::crash(std::vector<std::uint8_t> const& choices) {
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

void Tracker::bounds(std::vector<std::uint16_t> const& chain, std::size_t& least,
                     std::size_t& most) const {
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
void Tracker::take(std::vector<std::uint16_t> const& chain, std::size_t arrived) {
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

void Tracker::resolve(std::uint32_t word, std::vector<std::uint16_t> const& chain) {
  std::size_t least = 0, most = 0;
  bounds(chain, least, most);
  std::size_t taken = least;
  if (most > least) {
    std::size_t const at = trail_.size();
    if (at < wanted_.size()) taken = std::min(least + wanted_[at], most);
    if (arrived_) {
      auto const end = std::lower_bound(chain.begin(), chain.end(), *arrived_);
      taken = std::clamp(static_cast<std::size_t>(end - chain.begin()), least, most);
    }
    trail_.push_back({word, static_cast<std::uint8_t>(taken - least),
                      static_cast<std::uint8_t>(most - least + 1)});
  }
  take(chain, taken);
}

Tracker::Image Tracker::image() const {
  Image words;
  for (auto const& [word, chain] : chains_) {
    std::size_t least = 0, most = 0;
    bounds(chain, least, most);
    if (least > 0) words.emplace_back(word, window_->events[chain[least - 1]].value);
  }
  return words;
}

}  // namespace perdure::explore
