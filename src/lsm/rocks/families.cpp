#include "lsm/rocks/families.hpp"

#include <rocksdb/comparator.h>
#include <rocksdb/table.h>

#include <typeinfo>
#include <utility>

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

}  // namespace

rocksdb::Status Handle::GetDescriptor(rocksdb::ColumnFamilyDescriptor* descriptor) {
  if (family_->base == nullptr)
    return rocksdb::Status::InvalidArgument("the database of column family " + family_->name +
                                            " is closed");
  return family_->base->GetDescriptor(descriptor);
}

rocksdb::ColumnFamilyHandle* unwrap(rocksdb::ColumnFamilyHandle* handle) {
  if (handle == nullptr || typeid(*handle) != typeid(Handle)) return handle;
  return static_cast<Handle*>(handle)->family().base;
}

std::vector<rocksdb::ColumnFamilyHandle*> unwrap(
    std::vector<rocksdb::ColumnFamilyHandle*> const& handles) {
  std::vector<rocksdb::ColumnFamilyHandle*> base;
  base.reserve(handles.size());
  for (rocksdb::ColumnFamilyHandle* const handle : handles) base.push_back(unwrap(handle));
  return base;
}

FamilyPtr Families::add(rocksdb::ColumnFamilyHandle* base,
                        rocksdb::ColumnFamilyOptions const& options, bool owned) {
  auto family = std::make_shared<Family>();
  family->id = base->GetID();
  family->name = base->GetName();
  family->base = base;
  family->comparator = base->GetComparator();
  family->merge_operator = options.merge_operator;
  family->why_passed_through = reason_to_pass_through(options);
  MutexLock lock(mutex_);
  held_.push_back({family, owned});
  return family;
}

FamilyPtr Families::find(std::uint32_t id) const {
  MutexLock lock(mutex_);
  for (Held const& held : held_)
    if (held.family->id == id) return held.family;
  return nullptr;
}

std::vector<FamilyPtr> Families::all() const {
  MutexLock lock(mutex_);
  std::vector<FamilyPtr> families;
  for (Held const& held : held_) families.push_back(held.family);
  return families;
}

void Families::drop(std::uint32_t id) {
  if (FamilyPtr const family = find(id)) family->dropped = true;
}

void Families::close(rocksdb::DB& base) {
  MutexLock lock(mutex_);
  for (Held& held : held_) {
    rocksdb::ColumnFamilyHandle* const handle = std::exchange(held.family->base, nullptr);
    if (held.owned && handle != nullptr)
      base.DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  held_.clear();
}

}  // namespace perdure::lsm
