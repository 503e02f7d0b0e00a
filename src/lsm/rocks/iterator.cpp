// Bounds and prefixes, and what a key's value is.
#include "lsm/rocks/iterator.hpp"

#include <optional>
#include <string>
#include <utility>

#include "lsm/rocks/merging.hpp"
#include "lsm/rocks/rocksdb_version.hpp"

namespace perdure::lsm {
namespace {

// The keys that the caller wants: within the bounds, and in prefix mode those of the sought prefix.
class KeysInScope {
 public:
  KeysInScope(rocksdb::ReadOptions const& options, rocksdb::SliceTransform const* extractor)
      : lower_(options.iterate_lower_bound),
        upper_(options.iterate_upper_bound),
        extractor_(options.prefix_same_as_start ? extractor : nullptr) {}

  [[nodiscard]] bool in_prefix_mode() const { return extractor_ != nullptr; }
  [[nodiscard]] rocksdb::Slice const* lower() const { return lower_; }
  [[nodiscard]] rocksdb::Slice const* upper() const { return upper_; }

  void any_prefix() { prefix_.reset(); }
  void prefix_of(rocksdb::Slice const& key) {
    prefix_.reset();
    if (extractor_ == nullptr || !extractor_->InDomain(key)) return;
    prefix_ = extractor_->Transform(key).ToString();
  }

  /// Of a key to which a move in this direction came.
  [[nodiscard]] bool has(rocksdb::Slice const& key, Direction direction) const {
    if (direction == Direction::forward) {
      if (upper_ != nullptr && key.compare(*upper_) >= 0) return false;
    } else {
      if (lower_ != nullptr && key.compare(*lower_) < 0) return false;
    }
    return !prefix_ || (extractor_->InDomain(key) && extractor_->Transform(key) == *prefix_);
  }

 private:
  rocksdb::Slice const* lower_;
  rocksdb::Slice const* upper_;
  rocksdb::SliceTransform const* extractor_;
  std::optional<std::string> prefix_;
};

// In prefix mode RocksDB may leave out what lies outside of the prefix, which its filters make
// cheap. Else the merge needs its keys in total order. The prefix itself is checked above the
// merge: below it, tombstones of memtables would end a scan from the first key too early.
rocksdb::ReadOptions options_of_lsm(rocksdb::ReadOptions options, KeysInScope const& scope) {
  if (!scope.in_prefix_mode() && !options.auto_prefix_mode) options.total_order_seek = true;
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
        refresh_(std::move(refresh)),
        scope_(options, family_.prefix_extractor.get()),
        cursor_(*family_.engine, std::move(view), options_of_lsm(options, scope_)),
        columns_(1) {}
  ~MergedIterator() override { count_shown(); }
  MergedIterator(MergedIterator const&) = delete;
  MergedIterator& operator=(MergedIterator const&) = delete;

  bool Valid() const override { return valid_; }
  rocksdb::Slice key() const override { return cursor_.key(); }
  rocksdb::Slice value() const override {
    return cursor_.in_runs() ? columns_.front().value() : cursor_.lsm().value();
  }
  rocksdb::WideColumns const& columns() const override {
    return cursor_.in_runs() ? columns_ : cursor_.lsm().columns();
  }
  rocksdb::Status status() const override { return status_.ok() ? cursor_.status() : status_; }

  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(rocksdb::Slice const& target) override;
  void SeekForPrev(rocksdb::Slice const& target) override;
  void Next() override;
  void Prev() override;
  rocksdb::Status Refresh() override;
  rocksdb::Status GetProperty(std::string name, std::string* value) override;

 private:
  /// Whether there is a view to seek in.
  bool begin_seek();
  /// From the cursor's key on, the first that is there, or none.
  void find(Direction direction);
  /// Whether the cursor's key is there. After an error, no.
  bool show();
  rocksdb::Status merge();
  /// At seeks and at the end: a counter that all threads share is not for each key.
  void count_shown() {
    if (family_.hits != nullptr && shown_ != 0) *family_.hits += std::exchange(shown_, 0);
  }

  rocksdb::ReadOptions options_;
  IteratorFamily family_;
  RefreshView refresh_;
  KeysInScope scope_;
  MergedCursor cursor_;

  bool valid_ = false;
  std::uint64_t shown_ = 0;  // keys of memtables
  rocksdb::Status status_;
  Merged merged_;
  rocksdb::WideColumns columns_;  // of a key of the runs
};

bool MergedIterator::begin_seek() {
  count_shown();
  valid_ = false;
  status_ = options_.tailing && refresh_ ? Refresh() : rocksdb::Status::OK();
  scope_.any_prefix();
  return status_.ok();
}

void MergedIterator::Seek(rocksdb::Slice const& target) {
  rocksdb::Slice const kept = cursor_.keep(target);
  if (!begin_seek()) return;
  scope_.prefix_of(kept);
  rocksdb::Slice const* const lower = scope_.lower();
  cursor_.seek(lower != nullptr && lower->compare(kept) > 0 ? *lower : kept);
  find(Direction::forward);
}

void MergedIterator::SeekForPrev(rocksdb::Slice const& target) {
  rocksdb::Slice const kept = cursor_.keep(target);
  if (!begin_seek()) return;
  scope_.prefix_of(kept);
  cursor_.seek_for_prev(kept, scope_.upper());
  find(Direction::backward);
}

// From an end, any prefix will do, and it counts from then on.
void MergedIterator::SeekToFirst() {
  if (scope_.lower() != nullptr) return Seek(*scope_.lower());
  if (!begin_seek()) return;
  cursor_.seek_to_first();
  find(Direction::forward);
  if (valid_) scope_.prefix_of(key());
}

void MergedIterator::SeekToLast() {
  if (scope_.upper() != nullptr) return SeekForPrev(*scope_.upper());
  if (!begin_seek()) return;
  cursor_.seek_to_last();
  find(Direction::backward);
  if (valid_) scope_.prefix_of(key());
}

void MergedIterator::Next() {
  cursor_.next();
  find(Direction::forward);
}

void MergedIterator::Prev() {
  cursor_.prev();
  find(Direction::backward);
}

void MergedIterator::find(Direction direction) {
  valid_ = false;
  std::uint64_t const most = options_.max_skippable_internal_keys;
  for (std::uint64_t hidden = 0; cursor_.valid() && scope_.has(key(), direction); ++hidden) {
    valid_ = show();
    if (valid_ || !status_.ok()) return;
    if (most > 0 && hidden >= most) {
      status_ = rocksdb::Status::Incomplete("Too many internal keys skipped.");
      return;
    }
    direction == Direction::forward ? cursor_.next() : cursor_.prev();
  }
}

bool MergedIterator::show() {
  if (!cursor_.in_runs()) {
    status_ = cursor_.lsm().value_status();
    return status_.ok();
  }
  ++shown_;
  columns_.assign(1, {});
  Version const& newest = cursor_.chain().front();
  if (newest.kind == Kind::erase) return false;
  if (newest.kind == Kind::merge) {
    status_ = merge();
    columns_.front().value() = merged_.value();
    return status_.ok();
  }
  columns_.front().value() = slice_of(newest.value);
  return true;
}

rocksdb::Status MergedIterator::merge() {
  rocksdb::Slice value;
  rocksdb::Slice const* below = nullptr;
  if (cursor_.in_lsm() && is_open(cursor_.chain())) {
    rocksdb::Status const status = cursor_.lsm().value_status();
    if (!status.ok()) return status;
    columns_ = cursor_.lsm().columns();
    bool const has_default =
        !columns_.empty() && columns_.front().name() == rocksdb::kDefaultWideColumnName;
    if (!kEntitiesMerge && (columns_.size() != 1 || !has_default)) return entity_does_not_merge();
    if (!has_default) columns_.emplace(columns_.begin(), rocksdb::kDefaultWideColumnName, "");
    value = columns_.front().value();
    below = &value;
  }
  return merged_.resolve(family_.merge_operator.get(), family_.logger.get(), key(), cursor_.chain(),
                         below);
}

rocksdb::Status MergedIterator::Refresh() {
  if (!refresh_) return rocksdb::Status::NotSupported("Creating renew iterator is not allowed.");
  IteratorView view = cursor_.view();
  rocksdb::Status const status = refresh_(view);
  if (!status.ok()) return status;
  valid_ = false;
  status_ = rocksdb::Status::OK();
  if (view.owner != cursor_.view().owner) cursor_.renew(std::move(view));
  return status;
}

rocksdb::Status MergedIterator::GetProperty(std::string name, std::string* value) {
  if (value == nullptr) return rocksdb::Status::InvalidArgument("prop is nullptr");
  if (name == "rocksdb.iterator.is-key-pinned" && (!valid_ || cursor_.in_runs())) {
    *value = !valid_ ? "Iterator is not valid." : options_.pin_data ? "1" : "0";
    return rocksdb::Status::OK();
  }
  if (name == "rocksdb.iterator.internal-key" && cursor_.in_runs()) {
    *value = key().ToString();
    return rocksdb::Status::OK();
  }
  return cursor_.lsm().property(name, value);
}

}  // namespace

std::unique_ptr<rocksdb::Iterator> new_iterator(rocksdb::ReadOptions const& options,
                                                IteratorFamily family, IteratorView view,
                                                RefreshView refresh) {
  return std::make_unique<MergedIterator>(options, std::move(family), std::move(view),
                                          std::move(refresh));
}

}  // namespace perdure::lsm
