#include "lsm/rocks/transaction_batch.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "lsm/rocks/merging.hpp"

namespace perdure::lsm {
namespace {

rocksdb::Status apply(rocksdb::WriteBatchBase& batch, Change const& change) {
  switch (change.kind) {
    case ChangeKind::put: return batch.Put(change.family, change.key, change.value);
    case ChangeKind::merge: return batch.Merge(change.family, change.key, change.value);
    case ChangeKind::erase: return batch.Delete(change.family, change.key);
    case ChangeKind::erase_single: return batch.SingleDelete(change.family, change.key);
  }
  return rocksdb::Status::InvalidArgument("unknown kind of write");
}

}  // namespace

TransactionBatch::TransactionBatch(rocksdb::DB& db, TransactionStore& store)
    : db_(db),
      store_(store),
      comparator_(store.rocksdb_handle(nullptr)->GetComparator()),
      batch_(comparator_, 0, true) {}

rocksdb::Status TransactionBatch::add(Change const& change) {
  if (!index_writes_) return apply(plain(), change);
  // The index learns another comparator only from a write that it gets at once.
  if (!is_indexed_ && change.family->GetComparator() != comparator_) build_index();
  return is_indexed_ ? apply(batch_, change) : apply(plain(), change);
}

rocksdb::Status TransactionBatch::put_log_data(rocksdb::Slice const& blob) {
  return plain().PutLogData(blob);
}

void TransactionBatch::clear() {
  batch_.Clear();
  is_indexed_ = false;
}

rocksdb::Status TransactionBatch::rollback_to_savepoint() {
  return is_indexed_ ? batch_.RollbackToSavePoint() : plain().RollbackToSavePoint();
}

rocksdb::WriteBatchWithIndex& TransactionBatch::indexed() {
  if (!is_indexed_) build_index();
  return batch_;
}

void TransactionBatch::build_index() {
  is_indexed_ = true;
  if (empty()) return;
  // RocksDB builds its index anew after a rollback; this one takes nothing back.
  batch_.SetSavePoint();
  batch_.RollbackToSavePoint().PermitUncheckedError();
}

TransactionBatch::Pending TransactionBatch::find(rocksdb::ColumnFamilyHandle* family,
                                                 rocksdb::Slice const& key) {
  Pending pending;
  if (empty()) return pending;
  std::unique_ptr<rocksdb::WBWIIterator> const at(indexed().NewIterator(family));
  rocksdb::Comparator const* const order = family->GetComparator();
  for (at->SeekForPrev(key); at->Valid(); at->Prev()) {
    rocksdb::WriteEntry const entry = at->Entry();
    if (order->Compare(entry.key, key) != 0) break;
    if (entry.type == rocksdb::kMergeRecord) {
      pending.operands.push_back(entry.value);
      continue;
    }
    bool const is_put = entry.type == rocksdb::kPutRecord;
    pending.base = is_put ? Pending::Base::put : Pending::Base::nothing;
    if (is_put) pending.put = entry.value;
    break;
  }
  std::reverse(pending.operands.begin(), pending.operands.end());
  return pending;
}

rocksdb::Status TransactionBatch::get(rocksdb::ReadOptions const& options,
                                      rocksdb::ColumnFamilyHandle* family,
                                      rocksdb::Slice const& key, rocksdb::PinnableSlice* value) {
  Pending const pending = find(family, key);
  if (pending.base != Pending::Base::database)
    return answer(pending, rocksdb::Status::OK(), {}, family, key, value);
  if (pending.operands.empty()) return db_.Get(options, family, key, value);
  rocksdb::PinnableSlice below;
  rocksdb::Status const status = db_.Get(options, family, key, &below);
  return answer(pending, status, below, family, key, value);
}

rocksdb::Status TransactionBatch::answer(Pending const& pending,
                                         rocksdb::Status const& below_status,
                                         rocksdb::PinnableSlice const& below,
                                         rocksdb::ColumnFamilyHandle* family,
                                         rocksdb::Slice const& key, rocksdb::PinnableSlice* value) {
  rocksdb::Slice const* base = nullptr;
  if (pending.base == Pending::Base::put) base = &pending.put;
  if (pending.base == Pending::Base::database) {
    if (!below_status.ok() && !below_status.IsNotFound()) return below_status;
    if (below_status.ok()) base = &below;
  }
  if (pending.operands.empty() && base == nullptr) return rocksdb::Status::NotFound();
  Merged merged;
  std::shared_ptr<rocksdb::MergeOperator> const merge_operator =
      pending.operands.empty() ? nullptr : store_.merge_operator(family);
  rocksdb::Status status =
      merged.fold(merge_operator.get(), store_.logger(), key, base, pending.operands);
  value->Reset();
  if (status.ok()) value->PinSelf(merged.value());
  return status;
}

void TransactionBatch::multi_get(rocksdb::ReadOptions const& options,
                                 rocksdb::ColumnFamilyHandle* family, std::size_t count,
                                 rocksdb::Slice const* keys, rocksdb::PinnableSlice* values,
                                 rocksdb::Status* statuses, bool sorted) {
  if (count == 0) return;
  if (empty()) {
    db_.MultiGet(options, family, count, keys, values, statuses, sorted);
    return;
  }
  std::vector<Pending> pending;
  std::vector<rocksdb::Slice> asked;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < count; ++i) {
    pending.push_back(find(family, keys[i]));
    if (pending[i].base != Pending::Base::database) {
      statuses[i] = answer(pending[i], rocksdb::Status::OK(), {}, family, keys[i], &values[i]);
    } else {
      asked.push_back(keys[i]);
      places.push_back(i);
    }
  }
  if (asked.empty()) return;
  std::vector<rocksdb::PinnableSlice> below(asked.size());
  std::vector<rocksdb::Status> found(asked.size());
  db_.MultiGet(options, family, asked.size(), asked.data(), below.data(), found.data(), sorted);
  for (std::size_t j = 0; j < asked.size(); ++j) {
    std::size_t const i = places[j];
    if (pending[i].operands.empty()) {
      values[i] = std::move(below[j]);
      statuses[i] = found[j];
    } else {
      statuses[i] = answer(pending[i], found[j], below[j], family, keys[i], &values[i]);
    }
  }
}

rocksdb::Iterator* TransactionBatch::iterate(rocksdb::ReadOptions const& options,
                                             rocksdb::ColumnFamilyHandle* family) {
  // The iterator sees later writes too, so these must be indexed, and at once.
  return indexed().NewIteratorWithBase(family, db_.NewIterator(options, family), &options);
}

}  // namespace perdure::lsm
