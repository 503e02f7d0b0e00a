#include "lsm/rocks/key_span.hpp"

#include <memory>

namespace perdure::lsm {
namespace {

KeySpan find_span(rocksdb::DB& db, rocksdb::Snapshot const* snapshot,
                  rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  options.total_order_seek = true;
  std::unique_ptr<rocksdb::Iterator> const at(db.NewIterator(options, family));
  KeySpan span;
  at->SeekToFirst();
  if (at->Valid()) {
    span.first = at->key().ToString();
    at->SeekToLast();
    if (!at->Valid()) return span;  // it says nothing, then
    span.last = at->key().ToString();
    span.has = KeySpan::Has::some;
  } else if (at->status().ok()) {
    span.has = KeySpan::Has::nothing;
  }
  return span;
}

}  // namespace

KeySpan const& KeySpans::of(rocksdb::DB& db, rocksdb::Snapshot const* snapshot,
                            rocksdb::ColumnFamilyHandle* family) {
  MutexLock const lock(mutex_);
  auto const at = spans_.find(family->GetID());
  if (at != spans_.end()) return at->second;
  return spans_.emplace(family->GetID(), find_span(db, snapshot, family)).first->second;
}

}  // namespace perdure::lsm
