// The two-way merge, and how it turns round.
#include "lsm/rocks/merged_cursor.hpp"

#include <utility>

namespace perdure::lsm {

MergedCursor::MergedCursor(Engine& engine, IteratorView view, rocksdb::ReadOptions const& options)
    : engine_(&engine), options_(options) {
  renew(std::move(view));
}

void MergedCursor::renew(IteratorView view) {
  runs_.reset();  // before what they read
  lsm_.reset();
  view_ = std::move(view);
  runs_.emplace(*engine_, view_.runs, view_.limit, options_.pin_data);
  lsm_.emplace(view_.lsm, options_);
  in_runs_ = in_lsm_ = false;
}

rocksdb::Slice MergedCursor::keep(rocksdb::Slice const& key) {
  kept_.assign(key.data(), key.size());
  return kept_;
}

rocksdb::Status MergedCursor::status() const {
  if (runs_->status().ok()) return lsm_->status();
  return rocksdb::Status::IOError("Memtables of an iterator", runs_->status().message());
}

void MergedCursor::choose(Direction direction) {
  direction_ = direction;
  bool const failed = !runs_->status().ok() || lsm_->failed();
  in_runs_ = !failed && runs_->valid();
  in_lsm_ = !failed && lsm_->valid();
  if (!in_runs_ || !in_lsm_) return;
  int const order = runs_->key().compare(lsm_->key());
  if (order == 0) return;
  bool const runs_come_first = (order < 0) == (direction == Direction::forward);
  in_runs_ = runs_come_first;
  in_lsm_ = !runs_come_first;
}

void MergedCursor::seek_to_first() {
  runs_->seek_to_first();
  lsm_->seek_to_first();
  choose(Direction::forward);
}

void MergedCursor::seek_to_last() {
  runs_->seek_to_last();
  lsm_->seek_to_last();
  choose(Direction::backward);
}

void MergedCursor::seek(rocksdb::Slice const& key) {
  rocksdb::Slice const kept = keep(key);
  runs_->seek(kept);
  lsm_->seek(kept);
  choose(Direction::forward);
}

void MergedCursor::seek_for_prev(rocksdb::Slice const& key, rocksdb::Slice const* end) {
  rocksdb::Slice const kept = keep(key);
  if (end != nullptr && end->compare(kept) <= 0) {
    runs_->seek_before(*end);
  } else {
    runs_->seek_for_prev(kept);
  }
  lsm_->seek_for_prev(kept);
  choose(Direction::backward);
}

void MergedCursor::next() {
  if (direction_ == Direction::forward) {
    if (in_runs_) runs_->next();
    if (in_lsm_) lsm_->next();
  } else {
    rocksdb::Slice const from = keep(key());
    runs_->next();
    lsm_->seek(from);
    if (lsm_->valid() && lsm_->key() == from) lsm_->next();
  }
  choose(Direction::forward);
}

void MergedCursor::prev() {
  if (direction_ == Direction::backward) {
    if (in_runs_) runs_->prev();
    if (in_lsm_) lsm_->prev();
  } else {
    rocksdb::Slice const from = keep(key());
    runs_->prev();
    lsm_->seek_for_prev(from);
    if (lsm_->valid() && lsm_->key() == from) lsm_->prev();
  }
  choose(Direction::backward);
}

}  // namespace perdure::lsm
