#include "pm/value_log/value_log.hpp"

#include <string>
#include <utility>

#include "base/hooks.hpp"

namespace perdure::pm {

ValueLog::ValueLog(Pool& pool, Mutex& memory, MakeLogIndex make_index, LogSettings const& options)
    : options_(options),
      make_index_(std::move(make_index)),
      segments_(pool, memory, options),
      recovery_(segments_, make_index_, locks_),
      collector_(segments_, make_index_) {}

void ValueLog::announce(Pool& pool, std::uint64_t segment_bytes) {
  Root root = pool.root();
  root.set(kValueLogEntry, 0, segment_bytes);
  pool.publish_root(root);
}

Result<std::uint64_t> ValueLog::segment_bytes(Pool const& pool) {
  RootEntry const* const entry = pool.root().find(kValueLogEntry);
  if (entry == nullptr) return std::uint64_t{0};
  std::uint64_t const bytes = entry->value;
  bool const possible = bytes >= pool.superblock_bytes() && bytes <= kMostSegment &&
                        bytes % pool.superblock_bytes() == 0;
  if (!possible)
    return Status{Code::corrupt, "the root says that segments of the value log have " +
                                     std::to_string(bytes) + " bytes, which is impossible"};
  return bytes;
}

Result<LogRecovered> ValueLog::recover(exec::Workers& workers) {
  LogRecovered found;
  if (Status s = recovery_.scan(workers, found); !s.ok()) return s;
  if (!mutated("vlog_sequence_restarts")) sequence_ = found.last_sequence;
  return found;
}

void ValueLog::begin_reading() { recovery_.finish(); }

void ValueLog::begin() {
  if (!mutated("vlog_holes_not_filled")) recovery_.fill_holes();
  recovery_.finish();
  collector_.begin(options_.collectors);
}

void ValueLog::close() {
  collector_.stop();
  segments_.seal_all();
}

ValueLog::Counters ValueLog::counters() const {
  return {segments_.counters(), collector_.counters(), appended_};
}

}  // namespace perdure::pm
