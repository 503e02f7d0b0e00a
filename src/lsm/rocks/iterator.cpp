// The two-way merge, the bounds and prefixes, and what a key's value is.
#include "lsm/rocks/iterator.hpp"

#include <optional>
#include <string>
#include <utility>

#include "lsm/rocks/merging.hpp"
#include "lsm/rocks/run_cursor.hpp"

namespace perdure::lsm {
namespace {

// Prefix mode: the caller wants keys of the sought prefix alone. There RocksDB may leave out what
// lies outside of the prefix, which its filters make cheap.
bool in_prefix_mode(rocksdb::ReadOptions const& options, IteratorFamily const& family) {
  return options.prefix_same_as_start && family.prefix_extractor != nullptr;
}

// The merge compares keys of the whole order, so outside of prefix mode the LSM tree's must come in
// total order. The prefix itself is checked above the merge: below it, tombstones of memtables
// would end a scan from the first key too early.
rocksdb::ReadOptions options_of_lsm(rocksdb::ReadOptions options, IteratorFamily const& family) {
  if (!in_prefix_mode(options, family) && !options.auto_prefix_mode) {
    options.total_order_seek = true;
  }
  options.prefix_same_as_start = false;
  options.tailing = false;
  return options;
}

class MergedIterator final : public rocksdb::Iterator {
 public:
  MergedIterator(rocksdb::ReadOptions const& options, IteratorFamily family, IteratorView view,
                 RefreshView refresh)
      : options_(options),
        family_(std::move(family)),
        view_(std::move(view)),
        refresh_(std::move(refresh)),
        columns_(1) {
    take_view();
  }

  bool Valid() const override { return valid_; }
  rocksdb::Slice key() const override { return from_runs_ ? runs_->key() : lsm_->key(); }
  rocksdb::Slice value() const override {
    return from_runs_ ? columns_.front().value() : lsm_->value();
  }
  rocksdb::WideColumns const& columns() const override {
    return from_runs_ ? columns_ : lsm_->columns();
  }
  rocksdb::Status status() const override { return status_.ok() ? lsm_->status() : status_; }

  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(rocksdb::Slice const& target) override;
  void SeekForPrev(rocksdb::Slice const& target) override;
  void Next() override;
  void Prev() override;
  rocksdb::Status Refresh() override;
  rocksdb::Status GetProperty(std::string name, std::string* value) override;

 private:
  void take_view();
  void begin_seek(std::optional<rocksdb::Slice> prefix_of);
  /// After SeekToFirst and SeekToLast: the prefix is that of the key that was found.
  void keep_prefix();
  [[nodiscard]] bool in_prefix(rocksdb::Slice const& key) const;
  void find_forward();
  void find_backward();
  bool failed();
  /// Whether the key that from_runs_ and in_lsm_ tell of is there. After an error, no.
  bool show();
  bool show_merged();
  bool count_skipped();
  void fail(rocksdb::Status status);

  rocksdb::ReadOptions options_;
  IteratorFamily family_;
  IteratorView view_;  // before the cursors, which it outlives
  RefreshView refresh_;
  std::optional<RunCursor> runs_;
  std::optional<LsmCursor> lsm_;

  bool valid_ = false;
  bool from_runs_ = false;  // the key is the runs'
  bool in_lsm_ = false;  // the key is the LSM tree's, too or alone
  Direction direction_ = Direction::forward;
  rocksdb::Status status_;
  std::optional<std::string> prefix_;  // of the keys that the caller wants
  std::string own_key_;  // a copy that outlives a move of the cursors
  Merged merged_;
  rocksdb::WideColumns columns_;  // of a key of the runs
  std::uint64_t skipped_ = 0;  // keys that memtables hide, in this move
};

void MergedIterator::take_view() {
  runs_.emplace(*family_.engine, view_.runs, view_.limit, options_.pin_data);
  lsm_.emplace(view_.lsm, options_of_lsm(options_, family_));
  valid_ = from_runs_ = in_lsm_ = false;
}

void MergedIterator::fail(rocksdb::Status status) {
  valid_ = false;
  status_ = std::move(status);
}

bool MergedIterator::in_prefix(rocksdb::Slice const& key) const {
  if (!prefix_) return true;
  rocksdb::SliceTransform const& extractor = *family_.prefix_extractor;
  return extractor.InDomain(key) && extractor.Transform(key) == *prefix_;
}

void MergedIterator::begin_seek(std::optional<rocksdb::Slice> prefix_of) {
  if (options_.tailing && refresh_) {
    status_ = Refresh();
  } else {
    status_ = rocksdb::Status::OK();
  }
  skipped_ = 0;
  prefix_.reset();
  if (!prefix_of || !in_prefix_mode(options_, family_)) return;
  rocksdb::SliceTransform const& extractor = *family_.prefix_extractor;
  if (extractor.InDomain(*prefix_of)) prefix_ = extractor.Transform(*prefix_of).ToString();
}

void MergedIterator::keep_prefix() {
  if (!valid_ || !in_prefix_mode(options_, family_)) return;
  rocksdb::SliceTransform const& extractor = *family_.prefix_extractor;
  if (extractor.InDomain(key())) prefix_ = extractor.Transform(key()).ToString();
}

void MergedIterator::Seek(rocksdb::Slice const& target) {
  own_key_.assign(target.data(), target.size());  // it may be this iterator's own key()
  begin_seek(own_key_);
  rocksdb::Slice const* const lower = options_.iterate_lower_bound;
  bool const below = lower != nullptr && lower->compare(own_key_) > 0;
  rocksdb::Slice const from = below ? *lower : rocksdb::Slice(own_key_);
  runs_->seek(from);
  lsm_->seek(from);
  find_forward();
}

void MergedIterator::SeekForPrev(rocksdb::Slice const& target) {
  own_key_.assign(target.data(), target.size());
  begin_seek(own_key_);
  rocksdb::Slice const* const upper = options_.iterate_upper_bound;
  if (upper != nullptr && upper->compare(own_key_) <= 0) {
    runs_->seek_before(*upper);
  } else {
    runs_->seek_for_prev(own_key_);
  }
  lsm_->seek_for_prev(own_key_);
  find_backward();
}

void MergedIterator::SeekToFirst() {
  if (options_.iterate_lower_bound != nullptr) return Seek(*options_.iterate_lower_bound);
  begin_seek({});
  runs_->seek_to_first();
  lsm_->seek_to_first();
  find_forward();
  keep_prefix();
}

void MergedIterator::SeekToLast() {
  if (options_.iterate_upper_bound != nullptr) return SeekForPrev(*options_.iterate_upper_bound);
  begin_seek({});
  runs_->seek_to_last();
  lsm_->seek_to_last();
  find_backward();
  keep_prefix();
}

void MergedIterator::Next() {
  skipped_ = 0;
  if (direction_ == Direction::forward) {
    if (from_runs_) runs_->next();
    if (in_lsm_) lsm_->next();
  } else {
    own_key_ = key().ToString();
    runs_->next();
    lsm_->seek(own_key_);
    if (lsm_->valid() && lsm_->key() == own_key_) lsm_->next();
  }
  find_forward();
}

void MergedIterator::Prev() {
  skipped_ = 0;
  if (direction_ == Direction::backward) {
    if (from_runs_) runs_->prev();
    if (in_lsm_) lsm_->prev();
  } else {
    own_key_ = key().ToString();
    runs_->prev();
    lsm_->seek_for_prev(own_key_);
    if (lsm_->valid() && lsm_->key() == own_key_) lsm_->prev();
  }
  find_backward();
}

void MergedIterator::find_forward() {
  direction_ = Direction::forward;
  for (;;) {
    valid_ = from_runs_ = in_lsm_ = false;
    if (failed() || (!runs_->valid() && !lsm_->valid())) return;
    int order = runs_->valid() ? -1 : 1;
    if (runs_->valid() && lsm_->valid()) order = runs_->key().compare(lsm_->key());
    from_runs_ = order <= 0;
    in_lsm_ = order >= 0;
    rocksdb::Slice const* const upper = options_.iterate_upper_bound;
    if (upper != nullptr && key().compare(*upper) >= 0) return;
    if (!in_prefix(key())) return;
    if (show() || !count_skipped()) return;
    if (from_runs_) runs_->next();
    if (in_lsm_) lsm_->next();
  }
}

void MergedIterator::find_backward() {
  direction_ = Direction::backward;
  for (;;) {
    valid_ = from_runs_ = in_lsm_ = false;
    if (failed() || (!runs_->valid() && !lsm_->valid())) return;
    int order = runs_->valid() ? 1 : -1;
    if (runs_->valid() && lsm_->valid()) order = runs_->key().compare(lsm_->key());
    from_runs_ = order >= 0;
    in_lsm_ = order <= 0;
    rocksdb::Slice const* const lower = options_.iterate_lower_bound;
    if (lower != nullptr && key().compare(*lower) < 0) return;
    if (!in_prefix(key())) return;
    if (show() || !count_skipped()) return;
    if (from_runs_) runs_->prev();
    if (in_lsm_) lsm_->prev();
  }
}

bool MergedIterator::failed() {
  if (!status_.ok()) return true;  // of a tailing iterator's new view
  if (!runs_->status().ok()) {
    fail(rocksdb::Status::IOError("Memtables of an iterator", runs_->status().message()));
  } else if (lsm_->failed()) {
    fail(lsm_->status());
  }
  return !status_.ok();
}

bool MergedIterator::count_skipped() {
  if (!status_.ok()) return false;
  if (options_.max_skippable_internal_keys > 0 &&
      skipped_ >= options_.max_skippable_internal_keys) {
    fail(rocksdb::Status::Incomplete("Too many internal keys skipped."));
    return false;
  }
  ++skipped_;
  return true;
}

bool MergedIterator::show() {
  if (!from_runs_) {
    if (rocksdb::Status const status = lsm_->value_status(); !status.ok()) {
      fail(status);
    } else {
      valid_ = true;
    }
    return valid_;
  }
  Version const& newest = runs_->chain().front();
  if (newest.kind == Kind::erase) return false;
  if (newest.kind == Kind::merge) return show_merged();
  columns_.front().value() = slice_of(newest.value);
  return valid_ = true;
}

bool MergedIterator::show_merged() {
  rocksdb::Slice value;
  rocksdb::Slice const* below = nullptr;
  if (in_lsm_ && is_open(runs_->chain())) {
    if (rocksdb::Status const status = lsm_->value_status(); !status.ok()) {
      fail(status);
      return false;
    }
    rocksdb::WideColumns const& columns = lsm_->columns();
    if (columns.size() != 1 || columns.front().name() != rocksdb::kDefaultWideColumnName) {
      fail(entity_does_not_merge());
      return false;
    }
    value = columns.front().value();
    below = &value;
  }
  rocksdb::Status const status = merged_.resolve(family_.merge_operator.get(), family_.logger.get(),
                                                 runs_->key(), runs_->chain(), below);
  if (!status.ok()) {
    fail(status);
    return false;
  }
  columns_.front().value() = merged_.value();
  return valid_ = true;
}

rocksdb::Status MergedIterator::Refresh() {
  if (!refresh_) return rocksdb::Status::NotSupported("Creating renew iterator is not allowed.");
  IteratorView view = view_;
  rocksdb::Status const status = refresh_(view);
  if (!status.ok()) return status;
  valid_ = false;
  status_ = rocksdb::Status::OK();
  if (view.owner == view_.owner) return status;
  runs_.reset();  // before what they read
  lsm_.reset();
  view_ = std::move(view);
  take_view();
  return status;
}

rocksdb::Status MergedIterator::GetProperty(std::string name, std::string* value) {
  if (value == nullptr) return rocksdb::Status::InvalidArgument("prop is nullptr");
  if (name == "rocksdb.iterator.is-key-pinned" && !valid_) {
    *value = "Iterator is not valid.";
    return rocksdb::Status::OK();
  }
  if (name == "rocksdb.iterator.is-key-pinned" && from_runs_) {
    *value = options_.pin_data ? "1" : "0";
    return rocksdb::Status::OK();
  }
  if (name == "rocksdb.iterator.internal-key" && from_runs_) {
    *value = runs_->key().ToString();
    return rocksdb::Status::OK();
  }
  return lsm_->property(name, value);
}

}  // namespace

std::unique_ptr<rocksdb::Iterator> new_iterator(rocksdb::ReadOptions const& options,
                                                IteratorFamily family, IteratorView view,
                                                RefreshView refresh) {
  return std::make_unique<MergedIterator>(options, std::move(family), std::move(view),
                                          std::move(refresh));
}

}  // namespace perdure::lsm
