// The k-way merge of the runs, in both directions.
#include "lsm/rocks/run_cursor.hpp"

#include <algorithm>

namespace perdure::lsm {
namespace {

// A key with more versions than this in one run is passed by a search instead of step by step.
constexpr std::uint32_t kManyVersions = 64;

std::uint64_t first_word(rocksdb::Slice const& key) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < sizeof(word); ++i) {
    word = word << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0);
  }
  return word;
}

}  // namespace

RunCursor::RunCursor(Engine& engine, RunList runs, RequestId limit, bool pin_keys)
    : limit_(limit), pin_keys_(pin_keys) {
  sources_.reserve(runs.size());
  for (RunPtr const& run : runs) sources_.push_back({RunWindow(engine, run, pin_keys), 0, {}, 0});
}

bool RunCursor::check(Status status) {
  if (status.ok()) return true;
  status_ = std::move(status);
  valid_ = false;
  ordered_ = false;
  return false;
}

void RunCursor::seek_to_first() {
  for (Source& source : sources_) source.position = 0;
  status_ = {};
  valid_ = ordered_ = false;
  step(Direction::forward);
}

void RunCursor::seek_to_last() {
  for (Source& source : sources_) source.position = source.window.count();
  status_ = {};
  valid_ = ordered_ = false;
  step(Direction::backward);
}

void RunCursor::seek_all(rocksdb::Slice const& key, Bound bound, Direction direction) {
  status_ = {};
  valid_ = ordered_ = false;
  for (Source& source : sources_) {
    if (!check(source.window.seek(key, bound, source.position))) return;
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
  if (!ordered_ || direction_ != direction) {
    if (!turn(direction)) return;
  }
  do {
    valid_ = false;
    if (order_.empty() || !take(direction)) return;
  } while (chain_.empty());
  valid_ = true;
}

bool RunCursor::turn(Direction direction) {
  if (valid_) {
    chain_.clear();
    closed_ = true;  // the versions are known, or not asked for
    for (Source& source : sources_) {
      if (!(direction == Direction::forward ? pass_forward(source) : pass_backward(source))) {
        return false;
      }
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

bool RunCursor::behind(std::uint32_t a, std::uint32_t b, Direction direction) const {
  Source const& x = sources_[a];
  Source const& y = sources_[b];
  int order = x.head_word < y.head_word ? -1 : x.head_word > y.head_word ? 1 : 0;
  if (order == 0) order = x.head.compare(y.head);
  if (order == 0) return a > b;  // of the same key, the newest run comes first
  return (order > 0) == (direction == Direction::forward);
}

bool RunCursor::enter(std::uint32_t index, Direction direction) {
  Source& source = sources_[index];
  bool const forward = direction == Direction::forward;
  if (source.position == (forward ? source.window.count() : 0)) return true;
  std::uint32_t const entry = forward ? source.position : source.position - 1;
  if (!check(source.window.load(entry, direction))) return false;
  source.head = source.window.key(entry);
  source.head_word = first_word(source.head);
  order_.push_back(index);
  std::ranges::push_heap(order_, [&](auto a, auto b) { return behind(a, b, direction); });
  return true;
}

bool RunCursor::take(Direction direction) {
  key_ = sources_[order_.front()].head;
  if (!pin_keys_) {  // windows move on while the key stays
    key_bytes_.assign(key_.data(), key_.size());
    key_ = key_bytes_;
  }
  chain_.clear();
  closed_ = false;
  same_.clear();
  while (!order_.empty() && sources_[order_.front()].head == key_) {
    std::ranges::pop_heap(order_, [&](auto a, auto b) { return behind(a, b, direction); });
    same_.push_back(order_.back());
    order_.pop_back();
  }
  for (std::uint32_t const i : same_) {
    Source& source = sources_[i];
    if (!(direction == Direction::forward ? pass_forward(source) : pass_backward(source))) {
      return false;
    }
  }
  return std::ranges::all_of(same_, [&](auto i) { return enter(i, direction); });
}

bool RunCursor::pass_forward(Source& source) {
  if (!closed_ && !add_from(source, source.position)) return false;
  std::uint32_t passed = 0;
  for (; source.position < source.window.count(); ++source.position, ++passed) {
    if (!source.window.holds(source.position) && passed > kManyVersions) {
      return check(source.window.seek(key_, Bound::upper, source.position));
    }
    if (!check(source.window.load(source.position, Direction::forward))) return false;
    if (!at_key(source, source.position)) break;
  }
  return true;
}

bool RunCursor::pass_backward(Source& source) {
  passed_.clear();
  std::uint32_t passed = 0;
  for (; source.position > 0; --source.position, ++passed) {
    if (passed > kManyVersions) {
      if (!check(source.window.seek(key_, Bound::lower, source.position))) return false;
      std::uint32_t newest = source.position;
      return closed_ || add_from(source, newest);
    }
    if (!check(source.window.load(source.position - 1, Direction::backward))) return false;
    if (!at_key(source, source.position - 1)) break;
    Version const& version = source.window.version(source.position - 1);
    if (closed_ || version.request > limit_) continue;
    if (version.kind != Kind::merge) passed_.clear();  // nothing older counts
    passed_.push_back(version);
  }
  if (closed_ || passed_.empty()) return true;
  closed_ = passed_.front().kind != Kind::merge;
  chain_.insert(chain_.end(), passed_.rbegin(), passed_.rend());
  return true;
}

bool RunCursor::add_from(Source& source, std::uint32_t& position) {
  for (; !closed_ && position < source.window.count(); ++position) {
    if (!check(source.window.load(position, Direction::forward))) return false;
    if (!at_key(source, position)) break;
    Version const& version = source.window.version(position);
    if (version.request > limit_) continue;
    chain_.push_back(version);
    closed_ = version.kind != Kind::merge;
  }
  return true;
}

}  // namespace perdure::lsm
