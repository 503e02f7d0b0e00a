// The k-way merge of the runs, in both directions.
#include "lsm/rocks/run_cursor.hpp"

#include <algorithm>
#include <utility>

namespace perdure::lsm {
namespace {

/// For a heap whose front comes first in the direction: of one key, the newest run's.
struct ComesLater {
  std::vector<RunSource> const& sources;
  Direction direction;

  bool operator()(std::uint32_t a, std::uint32_t b) const {
    std::strong_ordering const order = sources[a].order(sources[b]);
    if (order == 0) return a > b;
    return (order > 0) == (direction == Direction::forward);
  }
};

}  // namespace

RunCursor::RunCursor(Engine& engine, RunList runs, RequestId limit, bool pin_keys)
    : pin_keys_(pin_keys) {
  sources_.reserve(runs.size());
  for (RunPtr const& run : runs) sources_.emplace_back(engine, run, limit, pin_keys);
}

bool RunCursor::check(Status status) {
  if (status.ok()) return true;
  status_ = std::move(status);
  valid_ = false;
  ordered_ = false;
  return false;
}

void RunCursor::begin_seek() {
  status_ = {};
  valid_ = false;
  ordered_ = false;
}

void RunCursor::seek_to_first() {
  begin_seek();
  for (RunSource& source : sources_) source.seek_to_first();
  step(Direction::forward);
}

void RunCursor::seek_to_last() {
  begin_seek();
  for (RunSource& source : sources_) source.seek_to_last();
  step(Direction::backward);
}

void RunCursor::seek_all(rocksdb::Slice const& key, Bound bound, Direction direction) {
  begin_seek();
  for (RunSource& source : sources_) {
    if (!check(source.seek(key, bound))) return;
  }
  step(direction);
}

void RunCursor::seek(rocksdb::Slice const& key) { seek_all(key, Bound::lower, Direction::forward); }
void RunCursor::seek_for_prev(rocksdb::Slice const& key) {
  seek_all(key, Bound::upper, Direction::backward);
}
void RunCursor::seek_before(rocksdb::Slice const& key) {
  seek_all(key, Bound::lower, Direction::backward);
}

void RunCursor::step(Direction direction) {
  if ((!ordered_ || direction_ != direction) && !turn(direction)) return;
  do {
    valid_ = false;
    if (order_.empty() || !take(direction)) return;
  } while (chain_.versions.empty());
  valid_ = true;
}

bool RunCursor::turn(Direction direction) {
  if (valid_) {
    chain_.versions.clear();
    chain_.closed = true;
    for (RunSource& source : sources_) {
      if (!check(source.pass(key_, direction, chain_))) return false;
    }
  }
  direction_ = direction;
  order_.clear();
  for (std::uint32_t i = 0; i < sources_.size(); ++i) {
    if (!enter(i, direction)) return false;
  }
  ordered_ = true;
  return true;
}

bool RunCursor::enter(std::uint32_t source, Direction direction) {
  if (sources_[source].at_end(direction)) return true;
  if (!check(sources_[source].find_head(direction))) return false;
  order_.push_back(source);
  std::ranges::push_heap(order_, ComesLater{sources_, direction});
  return true;
}

bool RunCursor::take(Direction direction) {
  key_ = sources_[order_.front()].head();
  if (!pin_keys_) {  // windows move on while the key stays
    key_bytes_.assign(key_.data(), key_.size());
    key_ = key_bytes_;
  }
  same_.clear();
  while (!order_.empty() && sources_[order_.front()].head() == key_) {
    std::ranges::pop_heap(order_, ComesLater{sources_, direction});
    same_.push_back(order_.back());
    order_.pop_back();
  }
  chain_.versions.clear();
  chain_.closed = false;
  for (std::uint32_t const i : same_) {
    if (!check(sources_[i].pass(key_, direction, chain_))) return false;
  }
  return std::ranges::all_of(same_, [&](auto i) { return enter(i, direction); });
}

}  // namespace perdure::lsm
