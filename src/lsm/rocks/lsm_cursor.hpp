// What a view has in RocksDB's LSM tree, as a cursor: an iterator of RocksDB that goes on behind a
// key whose operands do not merge. A memtable may hide such a key, and then it is no failure.
//
// Invariant: the cursor is on a key, behind all keys, or has failed as a whole. The value of the
// key that it is on may be a failure of its own.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <string>

namespace perdure::lsm {

/// A family of RocksDB at a snapshot.
struct LsmSource {
  rocksdb::DB* db = nullptr;
  rocksdb::ColumnFamilyHandle* family = nullptr;
  rocksdb::Snapshot const* snapshot = nullptr;
};

class LsmCursor {
 public:
  /// `options` are those of RocksDB's iterator but for the snapshot. The bounds that they point to
  /// count as they are at each move.
  LsmCursor(LsmSource const& source, rocksdb::ReadOptions const& options);

  [[nodiscard]] bool valid() const {
    return state_ == State::on_key || state_ == State::on_failure;
  }
  [[nodiscard]] rocksdb::Slice key() const {
    return state_ == State::on_key ? iterator_->key() : rocksdb::Slice(failed_key_);
  }
  /// Of the key: why it has no value, or OK.
  [[nodiscard]] rocksdb::Status value_status() const;
  [[nodiscard]] rocksdb::Slice value() const { return iterator_->value(); }
  [[nodiscard]] rocksdb::WideColumns const& columns() const { return iterator_->columns(); }
  [[nodiscard]] bool failed() const { return state_ == State::failed; }  // as a whole
  [[nodiscard]] rocksdb::Status status() const;  // of the whole
  rocksdb::Status property(std::string const& name, std::string* value) const {
    return iterator_->GetProperty(name, value);
  }

  void seek_to_first();
  void seek_to_last();
  void seek(rocksdb::Slice const& key);
  void seek_for_prev(rocksdb::Slice const& key);
  void next();  // valid() and the last move went forward
  void prev();  // valid() and the last move went backward

 private:
  enum class State : std::uint8_t { behind, on_key, on_failure, failed };

  /// All of the LSM tree for seeks, after prev() has passed a failure.
  void leave_part();
  void settle();

  LsmSource source_;
  rocksdb::ReadOptions options_;
  std::unique_ptr<rocksdb::Iterator> all_;
  std::unique_ptr<rocksdb::Iterator> part_;  // the keys below part_end_
  rocksdb::Iterator* iterator_;  // one of the two
  State state_ = State::behind;
  std::string failed_key_;
  std::string part_end_bytes_;
  rocksdb::Slice part_end_;
};

}  // namespace perdure::lsm
