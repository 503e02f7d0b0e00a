// The k-way merge of the runs, in both directions.
#include "lsm/rocks/run_cursor.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/annotate.hpp"

namespace perdure::lsm {
namespace {

// As many as a core has lines on their way: searches side by side, and values that a scan comes to.
constexpr std::uint32_t kTogether = 16;
constexpr std::uint32_t kValues = 12;

}  // namespace

RunCursor::RunCursor(Engine& engine, RunList runs, RequestId limit, bool pin_keys)
    : ahead_(std::clamp<std::uint32_t>(
          kValues / std::max<std::uint32_t>(1, static_cast<std::uint32_t>(runs.size())), 2, 8)) {
  sources_.reserve(runs.size());
  for (RunPtr const& run : runs) sources_.emplace_back(engine, run, limit, pin_keys);
  words_.resize(sources_.size());
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
  bool changed = false;
  for (RunSource& source : sources_) changed |= source.look();
  if (!changed) return;
  shared_ = shared_bytes();
  direct_ = std::ranges::all_of(sources_, [](auto const& one) { return one.direct().is_there(); });
}

std::uint32_t RunCursor::shared_bytes() const {
  rocksdb::Slice shared;
  bool is_first = true;
  for (RunSource const& source : sources_) {
    if (!source.direct().is_there()) return 0;
    if (source.direct().view().count == 0) continue;
    rocksdb::Slice const mine = source.direct().shared();
    if (is_first) shared = mine;
    is_first = false;
    shared = {shared.data(), shared.difference_offset(mine)};
  }
  return static_cast<std::uint32_t>(shared.size());
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
  if (find_bounds(key, bound, direction)) step(direction);
}

bool RunCursor::find_bounds(rocksdb::Slice const& key, Bound bound, Direction direction) {
  std::array<Search, kTogether> searches;
  std::array<RunSource*, kTogether> who;
  std::uint32_t n = 0;
  auto const search_all = [&] {
    search(HostWarp{}, searches.data(), n);
    for (std::uint32_t i = 0; i < n; ++i) who[i]->seek(searches[i], bound, direction);
    n = 0;
  };
  for (RunSource& source : sources_) {
    if (!source.direct().is_there()) {
      if (!check(source.seek(key, bound))) return false;
      continue;
    }
    who[n] = &source;
    searches[n++] = source.direct().search_for(key);
    if (n == kTogether) search_all();
  }
  search_all();
  return true;
}

void RunCursor::seek(rocksdb::Slice const& key) { seek_all(key, Bound::lower, Direction::forward); }
void RunCursor::seek_for_prev(rocksdb::Slice const& key) {
  seek_all(key, Bound::upper, Direction::backward);
}
void RunCursor::seek_before(rocksdb::Slice const& key) {
  seek_all(key, Bound::lower, Direction::backward);
}

bool RunCursor::tied_comes_before(std::uint32_t a, std::uint32_t b) {
  bool const a_ends = sources_[a].at_end(direction_);
  bool const b_ends = sources_[b].at_end(direction_);
  if (a_ends || b_ends) return a_ends == b_ends ? a < b : b_ends;
  int const order = sources_[a].head().compare(sources_[b].head());
  if (order == 0) return a < b;  // the newest run's first
  return (order < 0) == (direction_ == Direction::forward);
}

PERDURE_HOT bool RunCursor::find_word(std::uint32_t source, Direction direction, bool direct) {
  RunSource& one = sources_[source];
  std::uint64_t word = ~std::uint64_t{0};
  if (!one.at_end(direction)) {
    if (direct || one.direct().is_there()) {
      word = one.find_head(direction, shared_);
    } else if (!check(one.find_head(direction, word))) {
      return false;
    }
    if (direction == Direction::backward) word = ~word;
  }
  words_[source] = word;
  return true;
}

PERDURE_HOT bool RunCursor::pass_head(std::uint32_t source, Direction direction, bool direct) {
  RunSource& one = sources_[source];
  if (!direct && !one.direct().is_there()) return check(one.pass(key_, direction, chain_));
  one.pass_head(key_, direction, chain_);
  one.prefetch(direction, ahead_);
  return true;
}

PERDURE_HOT bool RunCursor::take(Direction direction, bool direct) {
  std::uint32_t source = order_.winner();
  std::uint64_t const word = words_[source];
  key_ = sources_[source].keep_head(room_);
  chain_.versions.clear();
  chain_.closed = false;
  do {
    if (!pass_head(source, direction, direct) || !find_word(source, direction, direct))
      return false;
    order_.play_again(words_, [&](auto a, auto b) { return tied_comes_before(a, b); });
    source = order_.winner();
  } while (words_[source] == word && !is_at_end() && sources_[source].head() == key_);
  return true;
}

bool RunCursor::take() {
  if (!direct_) return take(direction_, false);
  if (direction_ == Direction::backward) return take(Direction::backward, true);
  return take(Direction::forward, true);
}

void RunCursor::step(Direction direction) {
  if ((!ordered_ || direction_ != direction) && !turn(direction)) return;
  do {
    valid_ = false;
    if (is_at_end() || !take()) return;
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
  for (std::uint32_t i = 0; i < sources_.size(); ++i) {
    if (!find_word(i, direction, false)) return false;
  }
  for (RunSource const& source : sources_) {
    if (!source.direct().is_there()) continue;
    for (std::uint32_t ahead = 0; ahead < ahead_; ++ahead) source.prefetch(direction, ahead);
  }
  order_.begin(words_, [&](auto a, auto b) { return tied_comes_before(a, b); });
  ordered_ = true;
  return true;
}

}  // namespace perdure::lsm
