// The catalogue of a pool's named tables, read once and kept: a store's, or a reader's beside its
// writer. Invariants:
//  1. A table counts once the count has reached it, and its entry is there before that. So it is
//     there whole or not at all, in every layout and after every crash.
//  2. No lock that a reader of the catalogue takes is held while records are read or written: a
//     thread with an open transaction, which others wait for, never waits for them here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"
#include "perdure/tables.h"

namespace perdure::tables {

/// Records of table 0, by whoever has the pool.
class CatalogueRecords {
 public:
  struct Found {
    KeyStatus status = KeyStatus::not_found;
    std::vector<std::byte> content;
  };

  virtual ~CatalogueRecords() = default;
  [[nodiscard]] virtual std::string const& path() const = 0;
  [[nodiscard]] virtual std::uint32_t key_bytes() const = 0;
  [[nodiscard]] virtual std::uint32_t most_value_bytes() const = 0;
  virtual Result<std::vector<Found>> read(std::span<std::int64_t const> ids) = 0;
  /// Code::invalid_argument where nothing may be written now.
  virtual Status may_make(std::string_view name) = 0;
  virtual Status write(std::int64_t id, std::vector<std::byte> const& content) = 0;
  /// How many records the pool has, of whatever table.
  virtual Result<std::uint64_t> records() = 0;
};

class Catalogue {
 public:
  /// Made where there is none of that name and `row_bytes` is not 0.
  Result<Table> table(CatalogueRecords& pool, std::string_view name, std::uint32_t row_bytes);
  /// By their numbers.
  Result<std::vector<Table>> all(CatalogueRecords& pool);
  /// Ok if the pool has this very table.
  [[nodiscard]] Status check(CatalogueRecords& pool, Table const& table);

 private:
  [[nodiscard]] std::optional<Table> known(std::string_view name) const;
  [[nodiscard]] std::uint64_t known_tables() const;
  Status refresh(CatalogueRecords& pool);
  Result<std::uint64_t> count(CatalogueRecords& pool) const;
  Result<Table> make(CatalogueRecords& pool, std::string_view name, std::uint32_t row_bytes);
  Status check_new(CatalogueRecords& pool, std::string_view name, std::uint32_t row_bytes) const;
  void keep(std::uint64_t first, std::vector<Table> found);

  Mutex making_ PERDURE_ACQUIRED_BEFORE(mutex_);  // of tables, by one thread at a time
  mutable Mutex mutex_;
  std::vector<Table> tables_ PERDURE_GUARDED_BY(mutex_);  // number n at n - 1
  std::map<std::string, std::uint64_t, std::less<>> numbers_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::tables
