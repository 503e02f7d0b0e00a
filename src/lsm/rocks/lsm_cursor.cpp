// RocksDB's iterator ends at a key that does not merge, and says which one that was. Forward, a
// seek goes past it. Backward there is no seek below a key, so a second iterator ends below it.
#include "lsm/rocks/lsm_cursor.hpp"

#include "lsm/rocks/merging.hpp"

namespace perdure::lsm {

LsmCursor::LsmCursor(LsmSource const& source, rocksdb::ReadOptions const& options)
    : source_(source), options_(options) {
  options_.snapshot = source.snapshot;
  all_.reset(source_.db->NewIterator(options_, source_.family));
  iterator_ = all_.get();
}

rocksdb::Status LsmCursor::value_status() const {
  return state_ == State::on_failure ? iterator_->status() : rocksdb::Status::OK();
}

rocksdb::Status LsmCursor::status() const {
  return state_ == State::on_failure ? rocksdb::Status::OK() : iterator_->status();
}

void LsmCursor::settle() {
  state_ = State::on_key;
  if (iterator_->Valid()) return;
  rocksdb::Status const status = iterator_->status();
  state_ = status.ok() ? State::behind : State::failed;
  if (is_failed_merge(status) &&
      iterator_->GetProperty("rocksdb.iterator.internal-key", &failed_key_).ok()) {
    state_ = State::on_failure;
  }
}

void LsmCursor::leave_part() {
  iterator_ = all_.get();
  part_.reset();
}

void LsmCursor::seek_to_first() {
  leave_part();
  iterator_->SeekToFirst();
  settle();
}

void LsmCursor::seek_to_last() {
  leave_part();
  iterator_->SeekToLast();
  settle();
}

void LsmCursor::seek(rocksdb::Slice const& key) {
  leave_part();
  iterator_->Seek(key);
  settle();
}

void LsmCursor::seek_for_prev(rocksdb::Slice const& key) {
  leave_part();
  iterator_->SeekForPrev(key);
  settle();
}

void LsmCursor::next() {
  if (state_ == State::on_failure) {
    failed_key_.push_back('\0');  // the least key above it
    iterator_->Seek(failed_key_);
  } else {
    iterator_->Next();
  }
  settle();
}

void LsmCursor::prev() {
  if (state_ == State::on_failure) {
    part_end_bytes_ = failed_key_;
    part_end_ = part_end_bytes_;
    rocksdb::ReadOptions options = options_;
    options.iterate_upper_bound = &part_end_;
    part_.reset(source_.db->NewIterator(options, source_.family));
    iterator_ = part_.get();
    iterator_->SeekToLast();
  } else {
    iterator_->Prev();
  }
  settle();
}

}  // namespace perdure::lsm
