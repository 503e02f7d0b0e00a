// Reads of many keys, and iterators.
#include <algorithm>
#include <utility>

#include "lsm/rocks/database.hpp"
#include "lsm/rocks/iterator.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::Iterator;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;

/// RocksDB's own iterator, made while there were no memtables. Refresh() looks whether there are.
class RefreshedIterator final : public Iterator {
 public:
  using Make = std::function<Iterator*()>;
  /// `view`: whose snapshot of RocksDB `now` reads; null where it reads the present.
  RefreshedIterator(ViewPtr view, Iterator* now, Make make)
      : view_(std::move(view)), now_(now), make_(std::move(make)) {}

  bool Valid() const override { return now_->Valid(); }
  void SeekToFirst() override { now_->SeekToFirst(); }
  void SeekToLast() override { now_->SeekToLast(); }
  void Seek(Slice const& key) override { now_->Seek(key); }
  void SeekForPrev(Slice const& key) override { now_->SeekForPrev(key); }
  void Next() override { now_->Next(); }
  void Prev() override { now_->Prev(); }
  Slice key() const override { return now_->key(); }
  Slice value() const override { return now_->value(); }
  rocksdb::WideColumns const& columns() const override { return now_->columns(); }
  Slice timestamp() const override { return now_->timestamp(); }
  rocksdb::Status status() const override { return now_->status(); }
  rocksdb::Status GetProperty(std::string name, std::string* value) override {
    return now_->GetProperty(std::move(name), value);
  }
  /// From 9.8 on, where the options leave values for later.
#if PERDURE_ROCKSDB >= 908
  bool PrepareValue() override { return now_->PrepareValue(); }
#endif
  /// As RocksDB: not of an iterator at a snapshot of the user's.
  rocksdb::Status Refresh() override {
    if (!make_) return now_->Refresh();
    now_.reset(make_());
    view_ = nullptr;
    return now_->status();
  }

 private:
  ViewPtr view_;
  std::unique_ptr<Iterator> now_;
  Make make_;
};

/// Keys of several families, asked family by family.
struct ByFamily {
  rocksdb::ColumnFamilyHandle* family;
  std::vector<std::size_t> at;
  std::vector<Slice> keys;
};

std::vector<ByFamily> by_family(std::size_t n, rocksdb::ColumnFamilyHandle* const* families,
                                Slice const* keys) {
  std::vector<ByFamily> groups;
  for (std::size_t i = 0; i < n; ++i) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](ByFamily const& one) {
      return one.family->GetID() == families[i]->GetID();
    });
    if (group == groups.end()) group = groups.insert(group, {families[i], {}, {}});
    group->at.push_back(i);
    group->keys.push_back(keys[i]);
  }
  return groups;
}

/// Families whose keys have timestamps are RocksDB's alone.
bool any_timestamps(rocksdb::ColumnFamilyHandle* const* families, std::size_t n) {
  return std::any_of(families, families + n, [](rocksdb::ColumnFamilyHandle* family) {
    return family->GetComparator()->timestamp_size() != 0;
  });
}

}  // namespace

/// All families at one snapshot.
void Database::MultiGet(ReadOptions const& o, size_t n, CF** cfs, Slice const* keys,
                        PinnableSlice* values, std::string* timestamps, Status* statuses,
                        bool sorted) {
  if (timestamps != nullptr) {
    if (any_timestamps(cfs, n))
      return db_->MultiGet(o, n, cfs, keys, values, timestamps, statuses, sorted);
    std::fill_n(timestamps, n, std::string());
  }
  if (std::all_of(cfs, cfs + n, [&](CF* cf) { return cf == *cfs; })) {
    if (n != 0) parts_.reader->multi_get(o, *cfs, {keys, n}, values, statuses, sorted);
    return;
  }
  std::vector<ByFamily> const groups = by_family(n, cfs, keys);
  ReadOptions options = o;
  std::unique_ptr<ViewSnapshot> snapshot;
  if (options.snapshot == nullptr && groups.size() > 1) {
    snapshot = parts_.tables->snapshot();
    options.snapshot = snapshot.get();
  }
  for (ByFamily const& group : groups) {
    std::vector<PinnableSlice> found(group.keys.size());
    std::vector<Status> said(group.keys.size());
    parts_.reader->multi_get(options, group.family, group.keys, found.data(), said.data(), sorted);
    for (std::size_t i = 0; i < group.keys.size(); ++i) {
      values[group.at[i]] = std::move(found[i]);
      statuses[group.at[i]] = said[i];
    }
  }
}

/// With the view in sight, or RocksDB alone where there is none.
Iterator* Database::iterate(ReadOptions const& o, CF* cf, Sight sight) {
  if (!sight.refusal.ok()) return rocksdb::NewErrorIterator(sight.refusal);
  if (o.read_tier == rocksdb::kPersistedTier) return db_->NewIterator(o, cf);  // which refuses it
  FamilyPtr const family = parts_.families->find(cf->GetID());
  bool const passed = family == nullptr || !family->why_passed_through.empty();
  std::function<Iterator*()> again;
  if (o.snapshot == nullptr) again = [this, o, cf] { return NewIterator(o, cf); };
  if (passed || (!o.tailing && (sight.view == nullptr || sight.view->empty()))) {
    Iterator* const alone = db_->NewIterator(sight.view == nullptr ? o : sight.options, cf);
    if (passed && sight.view == nullptr) return alone;
    return new RefreshedIterator(std::move(sight.view), alone, std::move(again));
  }
  auto const see = [this, cf](IteratorView& view, ViewPtr const& now) {
    view.owner = now;
    RunList const runs = now->runs(cf->GetID());
    view.runs.assign(runs.begin(), runs.end());
    view.limit = now->last;
    view.lsm = {db_, cf, now->base_snapshot()};
  };
  IteratorView view;
  see(view, sight.view == nullptr ? parts_.tables->snapshot()->view() : sight.view);
  RefreshView refresh;
  if (o.snapshot == nullptr)
    refresh = [this, see](IteratorView& current) {
      see(current, parts_.tables->snapshot()->view());
      return Status::OK();
    };
  rocksdb::Options const options = db_->GetOptions(cf);
  return new_iterator(o,
                      {parts_.engine.get(), family->merge_operator, options.prefix_extractor,
                       options.info_log, &parts_.counters->table_hits},
                      std::move(view), std::move(refresh))
      .release();
}

Iterator* Database::NewIterator(ReadOptions const& o, CF* cf) {
  return iterate(o, cf, parts_.reader->sight(o));
}

/// All at one snapshot.
rocksdb::Status Database::NewIterators(ReadOptions const& o, std::vector<CF*> const& cfs,
                                       std::vector<Iterator*>* iterators) {
  iterators->clear();
  Sight sight = parts_.reader->sight(o);
  if (!sight.refusal.ok()) return sight.refusal;
  if (o.read_tier == rocksdb::kPersistedTier) return db_->NewIterators(o, cfs, iterators);
  if (sight.view == nullptr && !o.tailing) {
    sight.view = parts_.tables->snapshot()->view();
    sight.options = o;
    sight.options.snapshot = sight.view->base_snapshot();
  }
  for (CF* const cf : cfs) iterators->push_back(iterate(o, cf, sight));
  return Status::OK();
}

}  // namespace perdure::lsm
