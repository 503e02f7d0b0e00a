#include "explore/recorder.hpp"

#include "exec/sim/sim_scheduler.hpp"

namespace perdure::explore {
namespace {

std::uint32_t running_thread() {
  if (exec::sim_actor != 0) return static_cast<std::uint32_t>(exec::sim_actor) | 1u << 31;
  return exec::sim_scheduler == nullptr ? 0 : exec::sim_scheduler->thread();
}

}  // namespace

void Recorder::record(bool on) {
  recording_ = on;
  open_ = {};
  last_write_.clear();
  last_in_line_.clear();
  threads_.clear();
  told_.clear();
  durable_.reset();
}

void Recorder::cut(bool even_empty) {
  if (!recording_) return;
  if (!open_.events.empty() || even_empty) {
    open_.file_bytes = arena_->file_bytes;
    open_.oracle = oracle_;
    windows_.push_back(std::move(open_));
  }
  record(true);
}

void Recorder::fence() {
  if (!recording_) return;
  Thread& t = threads_[running_thread()];
  (model_ == Model::flush ? durable_ : t.fenced) |= t.since;
  t.since.reset();
}

void Recorder::flush(void const* at, std::size_t bytes) {
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

void Recorder::wrote_word(std::uint32_t word, std::uint64_t value) {
  if (!recording_) return;
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

void Recorder::heed(std::uint32_t word) {
  if (!recording_ || model_ != Model::fence) return;
  auto const writer = last_write_.find(word);
  if (writer == last_write_.end() || open_.events[writer->second].thread == running_thread())
    return;
  Thread& t = threads_[running_thread()];
  t.since |= open_.events[writer->second].before;
  t.since.set(writer->second);
}

/// Volatile words have 4 bytes here, or several of them.
void Recorder::told(void const* at, std::size_t bytes, bool durable) {
  if (!passes_on(durable) || told_.empty()) return;
  Thread& t = threads_[running_thread()];
  auto const first = reinterpret_cast<std::uintptr_t>(at) / 4;
  for (std::uintptr_t word = first; word < first + (bytes + 3) / 4; ++word)
    if (auto const known = told_.find(word); known != told_.end()) t.fenced |= known->second;
}

void Recorder::tells(void const* at, std::size_t bytes, bool durable) {
  if (!passes_on(durable)) return;
  EventSet const& fenced = threads_[running_thread()].fenced;
  auto const first = reinterpret_cast<std::uintptr_t>(at) / 4;
  for (std::uintptr_t word = first; word < first + (bytes + 3) / 4; ++word) told_[word] = fenced;
}

}  // namespace perdure::explore
