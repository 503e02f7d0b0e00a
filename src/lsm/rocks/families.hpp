// Column families as the store knows them, and the handles that users hold.
//
// Invariants: RocksDB's own handle of a family lives as long as the database, whatever the user
// does with his, for flushes need it. RocksDB gets its own handles alone: it casts them.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.hpp"

namespace perdure::lsm {

struct Family {
  std::uint32_t id = 0;
  std::string name;
  rocksdb::ColumnFamilyHandle* base = nullptr;  // RocksDB's; null once the database is closed
  rocksdb::Comparator const* comparator = nullptr;
  std::shared_ptr<rocksdb::MergeOperator> merge_operator;
  std::string why_passed_through;  // not empty: RocksDB alone serves it
  std::atomic<bool> dropped = false;
};
using FamilyPtr = std::shared_ptr<Family>;

/// What a user holds.
class Handle final : public rocksdb::ColumnFamilyHandle {
 public:
  explicit Handle(FamilyPtr family) : family_(std::move(family)) {}
  std::string const& GetName() const override { return family_->name; }
  std::uint32_t GetID() const override { return family_->id; }
  rocksdb::Comparator const* GetComparator() const override { return family_->comparator; }
  rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor* descriptor) override;
  [[nodiscard]] Family& family() const { return *family_; }

 private:
  FamilyPtr family_;
};

/// RocksDB's handle for a user's; one of RocksDB's own stays what it is.
[[nodiscard]] rocksdb::ColumnFamilyHandle* unwrap(rocksdb::ColumnFamilyHandle* handle);
[[nodiscard]] std::vector<rocksdb::ColumnFamilyHandle*> unwrap(
    std::vector<rocksdb::ColumnFamilyHandle*> const& handles);

class Families {
 public:
  /// Takes RocksDB's handle. `owned`: it is deleted with the database, which the default family's
  /// is not.
  FamilyPtr add(rocksdb::ColumnFamilyHandle* base, rocksdb::ColumnFamilyOptions const& options,
                bool owned);
  [[nodiscard]] FamilyPtr find(std::uint32_t id) const;
  [[nodiscard]] std::vector<FamilyPtr> all() const;
  void drop(std::uint32_t id);
  /// RocksDB's handles go; before RocksDB does.
  void close(rocksdb::DB& base);

 private:
  struct Held {
    FamilyPtr family;
    bool owned = false;
  };
  mutable Mutex mutex_;
  std::vector<Held> held_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
