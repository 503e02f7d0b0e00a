#include "pm/value_log/collector.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "base/own_thread.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {

void LogCollector::begin(std::uint32_t threads) {
  PERDURE_ASSERT(threads_.empty());
  if (threads != 0) attended_.emplace(*segments_);
  for (std::uint32_t i = 0; i < threads; ++i) {
    threads_.push_back(own_thread([this, index = (*make_index_)()] {
      while (LogSegment* const victim = segments_->next_to_collect(true)) {
        Status const collected = caught([&]() -> Status {
          collect(*victim, *index);
          return {};
        });
        if (collected.ok()) continue;
        ++failed_;  // there was no memory
        segments_->put_back(*victim, LogSegment::Use::full);
      }
    }));
  }
}

void LogCollector::stop() {
  segments_->stop();
  for (std::thread& each : threads_) each.join();
  threads_.clear();
  attended_.reset();
}

std::uint64_t LogCollector::collect_queued() {
  auto const index = (*make_index_)();
  std::uint64_t collected = 0;
  while (LogSegment* const victim = segments_->next_to_collect(false)) {
    collect(*victim, *index);
    ++collected;
  }
  return collected;
}

void LogCollector::collect(LogSegment& victim, LogIndex& index) {
  exec::SharedHold const begun(rest_);
  LogWalk walk(segments_->base(), victim.at, segments_->segment_bytes(), victim.generation,
               victim.fill.end);
  if (mutated("vlog_freed_before_moved")) segments_->free(victim);
  bool const moved = move_all(walk, index);
  if (!moved || !walk.holes().empty()) {  // what cannot be read may be current
    ++failed_;
    return segments_->put_back(victim, moved ? LogSegment::Use::damaged : LogSegment::Use::full);
  }
  if (!mutated("vlog_freed_before_moved")) segments_->free(victim);
  if (!mutated("vlog_reused_before_readers")) index.epochs().synchronize();
  ++collections_;
  segments_->reuse(victim);
}

/// Its appender lets go of its segment at the end: who then waits for room finds that, too.
bool LogCollector::move_all(LogWalk& walk, LogIndex& index) {
  LogAppender to(*segments_, index.host());
  std::vector<LogRecord> group;
  group.reserve(kGroup);
  bool moved = true;
  for (bool more = true; more && moved;) {
    LogRecord record;
    more = walk.next(record);
    if (more) {
      index.host().read(segments_->base() + record.at.bytes, record.bytes());
      group.push_back(record);
    }
    if (!group.empty() && (!more || group.size() == kGroup)) {
      moved = move(group, index, to);
      group.clear();
    }
  }
  to.settle();
  return moved;
}

/// What of a group has to be kept is appended; segments.hpp says which tombstones that are. False:
/// there is no room for some of it.
bool LogCollector::copy(std::span<LogRecord const> group, std::span<Copy> copies, LogAppender& to) {
  bool const tombstones =
      std::ranges::any_of(group, [](LogRecord const& item) { return item.tag.tombstone; });
  std::uint64_t const lowest = tombstones ? segments_->lowest_death() : 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    LogRecord const& item = group[i];
    bool const needed = copies[i].address == 0 && lowest <= item.header.sequence &&
                        !mutated("vlog_tombstone_dropped_early");
    if (item.tag.tombstone ? !needed : copies[i].address != item.at.bytes) {
      dropped_tombstones_ += item.tag.tombstone;
      continue;
    }
    if (!to.reserve(item.bytes(), LogSegments::For::collecting).ok()) return false;
    std::uint64_t const newer = mutated("vlog_move_with_new_sequence") ? 100 : 0;
    copies[i].to =
        to.append(item.key, item.value, item.header.sequence + newer, item.tag.tombstone).bytes;
    moved_bytes_ += item.bytes();
  }
  return true;
}

/// An item that has been copied died, as far as tombstones of its key are concerned, right after it
/// was written: for while it stands, no tombstone that outranks it may go. Its segment notes that
/// before the index leads to the copy, whose own death says nothing of the first.
void LogCollector::publish(LogRecord const& item, LogIndex& index, std::uint64_t to) {
  std::uint64_t const death =
      mutated("vlog_death_not_noted") ? LogSegment::kNoDeath : item.header.sequence + 1;
  segments_->note_outdated(item.at, 0, death);
  if (std::uint64_t before = 0; mutated("vlog_move_not_checked"))
    static_cast<void>(index.put(item.key, to, before));
  bool const moved = index.swap(item.key, item.at.bytes, to);
  segments_->note_outdated(moved ? item.at : Offset{to}, item.bytes(), death);
}

/// False: there is no room.
bool LogCollector::move(std::span<LogRecord const> group, LogIndex& index, LogAppender& to) {
  std::array<LogKey, kGroup> keys;
  std::array<std::uint64_t, kGroup> addresses{};
  std::array<Copy, kGroup> copies{};
  std::size_t const n = group.size();
  PERDURE_ASSERT(n <= kGroup);
  for (std::size_t i = 0; i < n; ++i) keys[i] = group[i].key;
  {
    exec::EpochGuard const guard(index.epochs());
    index.find(std::span(keys).first(n), std::span(addresses).first(n));
  }
  for (std::size_t i = 0; i < n; ++i) copies[i].address = addresses[i];
  bool const all = copy(group, copies, to);
  to.order();
  exec::EpochGuard const guard(index.epochs());
  for (std::size_t i = 0; i < n; ++i)
    if (copies[i].to != 0 && !group[i].tag.tombstone) publish(group[i], index, copies[i].to);
  return all;
}

LogCollector::Counters LogCollector::counters() const {
  return {collections_, moved_bytes_, dropped_tombstones_, failed_};
}

}  // namespace perdure::pm
