#include "lsm/rocks/families.hpp"

#include <rocksdb/comparator.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <utility>

#include "lsm/rocks/machine_merges.hpp"

namespace perdure::lsm {

namespace {

/// Why memtables cannot hold a family's writes; empty: they can.
std::string reason_to_pass_through(rocksdb::ColumnFamilyOptions const& options) {
  if (options.comparator->timestamp_size() != 0) return "its keys have timestamps";
  if (options.comparator != rocksdb::BytewiseComparator())
    return std::string("its comparator is ") + options.comparator->Name();
  if (options.compaction_style == rocksdb::kCompactionStyleFIFO)
    return "FIFO compaction never drops ingested files";
  if (options.table_factory != nullptr &&
      !options.table_factory->IsInstanceOf(rocksdb::TableFactory::kBlockBasedTableName()))
    return std::string("its table format is ") + options.table_factory->Name();
  return {};
}

/// A compaction filter makes values vanish when nobody writes.
bool changes_by_itself(rocksdb::ColumnFamilyOptions const& options) {
  return options.compaction_filter != nullptr || options.compaction_filter_factory != nullptr;
}

}  // namespace

FamilyPtr Families::add(rocksdb::ColumnFamilyHandle* base,
                        rocksdb::ColumnFamilyOptions const& options, bool ours) {
  auto family = std::make_shared<Family>();
  family->id = base->GetID();
  family->name = base->GetName();
  family->base = base;
  family->merge_operator = options.merge_operator;
  family->operation = operation_of(options.merge_operator.get());
  family->why_passed_through = reason_to_pass_through(options);
  if (family->why_passed_through.empty() && !changes_by_itself(options) && family->id < kMostCached)
    cached_[family->id / 64] |= std::uint64_t{1} << family->id % 64;
  MutexLock lock(mutex_);
  held_.push_back({family, ours});
  return family;
}

FamilyPtr Families::find(std::uint32_t id) const {
  MutexLock lock(mutex_);
  for (Held const& held : held_)
    if (held.family->id == id) return held.family;
  return nullptr;
}

void Families::drop(std::uint32_t id) {
  if (FamilyPtr const family = find(id)) family->dropped = true;
}

bool Families::uses(rocksdb::ColumnFamilyHandle const* handle) const {
  MutexLock lock(mutex_);
  return std::any_of(held_.begin(), held_.end(),
                     [&](Held const& held) { return held.family->base == handle; });
}

void Families::forget(rocksdb::ColumnFamilyHandle const* handle) {
  MutexLock lock(mutex_);
  for (Held& held : held_)
    if (held.family->base == handle) held.family->base = nullptr;
}

void Families::close(rocksdb::DB& base) {
  std::vector<Held> all;
  {
    MutexLock lock(mutex_);
    all.swap(held_);
  }
  for (Held& held : all) {
    rocksdb::ColumnFamilyHandle* const handle = held.family->base.exchange(nullptr);
    if (held.ours && handle != nullptr)
      base.DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
}

void FamilyListener::set(Deleted deleted) {
  MutexLock lock(mutex_);
  deleted_ = deleted ? std::make_shared<Deleted const>(std::move(deleted)) : nullptr;
}

void FamilyListener::OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) {
  std::shared_ptr<Deleted const> deleted;
  {
    MutexLock lock(mutex_);
    deleted = deleted_;
  }
  if (deleted != nullptr) (*deleted)(handle);
}

}  // namespace perdure::lsm
