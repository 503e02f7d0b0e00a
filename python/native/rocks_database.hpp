// An open database of perdure::rocks as Python holds it, with what depends on it: snapshots and
// cursors. RocksDB asks that these go before the database does, and Python loses objects in any
// order.
// Invariants: a call works on an open database until it returns, because closing waits for it; what
// depends on a database is released before the database closes; in another process than the one
// that opened it nothing of it is touched.
#pragma once

#include <rocksdb/db.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "perdure/rocks.h"
#include "perdure/status.h"
#include "rocks_options.hpp"

namespace perdure::python {

struct RocksOpening {
  OptionTexts options;
  std::map<std::string, OptionTexts> families;  // beside those that are there
  std::string merge_operator;  // of families whose options name none
  bool create = true;
  bool read_only = false;
  rocks::GpuOptions gpu;
};

/// Held by what has to be released before its database closes.
class RocksDependent {
 public:
  RocksDependent() = default;
  RocksDependent(RocksDependent const&) = delete;
  RocksDependent& operator=(RocksDependent const&) = delete;
  virtual ~RocksDependent() = default;
  virtual void release(rocksdb::DB& db) = 0;
};

class RocksSnapshot;

class RocksDatabase {
 public:
  [[nodiscard]] static Result<std::shared_ptr<RocksDatabase>> open(std::string path,
                                                                   RocksOpening const& opening);
  RocksDatabase(RocksDatabase const&) = delete;
  RocksDatabase& operator=(RocksDatabase const&) = delete;
  ~RocksDatabase();

  /// The answer of call(db, family, snapshot), a rocksdb::Status.
  template <class F>
  [[nodiscard]] Status run(std::string const& family, RocksSnapshot const* snapshot, F call);
  /// The answer of call(db).
  template <class F>
  [[nodiscard]] Status run(F call);

  [[nodiscard]] Status create_family(std::string const& name, OptionTexts const& options);
  [[nodiscard]] Status drop_family(std::string const& name);
  [[nodiscard]] Result<std::vector<std::string>> families();
  [[nodiscard]] Status close();
  [[nodiscard]] std::string const& path() const { return path_; }

  void add(RocksDependent& one);  // by who holds the lock through run()
  void remove(RocksDependent& one);

 private:
  RocksDatabase(std::string path, std::string merge_operator);
  [[nodiscard]] Status open_families(RocksOpening const& opening);
  [[nodiscard]] Status usable() const;  // with mutex_ held
  [[nodiscard]] Status is_here() const;
  [[nodiscard]] Status find(std::string const& family, rocksdb::ColumnFamilyHandle*& handle) const;
  [[nodiscard]] Status shut();
  [[nodiscard]] std::string named() const { return "database " + path_; }

  std::string const path_, merge_operator_;
  pid_t const process_;
  std::shared_mutex mutex_;  // shared by calls; alone whoever opens, closes, makes or drops
  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> families_;
  std::mutex dependents_mutex_;
  std::set<RocksDependent*> dependents_;
};

class RocksSnapshot final : public RocksDependent {
 public:
  [[nodiscard]] static Result<std::shared_ptr<RocksSnapshot>> take(
      std::shared_ptr<RocksDatabase> database);
  explicit RocksSnapshot(std::shared_ptr<RocksDatabase> database)
      : database_(std::move(database)) {}
  ~RocksSnapshot() override { database_->remove(*this); }
  void release(rocksdb::DB& db) override;
  void release() { database_->remove(*this); }
  /// Null once it was released.
  [[nodiscard]] rocksdb::Snapshot const* get() const { return snapshot_; }

 private:
  std::shared_ptr<RocksDatabase> database_;
  rocksdb::Snapshot const* snapshot_ = nullptr;
};

/// Where a scan begins and ends: keys of [begin, end) that start with `prefix`.
struct RocksBounds {
  std::optional<std::string> begin, end, prefix;
  bool reverse = false;
};

/// A scan of one family, of one state of it.
class RocksCursor final : public RocksDependent {
 public:
  [[nodiscard]] static Result<std::shared_ptr<RocksCursor>> make(
      std::shared_ptr<RocksDatabase> database, std::string const& family,
      RocksSnapshot const* snapshot, RocksBounds bounds);
  explicit RocksCursor(std::shared_ptr<RocksDatabase> database) : database_(std::move(database)) {}
  ~RocksCursor() override { database_->remove(*this); }
  void release(rocksdb::DB& db) override;

  struct Page {
    VariableValues keys, values;
  };
  /// At most `limit` further pairs, and no more than some MiB of them; none at the end.
  [[nodiscard]] Result<Page> next(std::size_t limit);

 private:
  void seek();
  [[nodiscard]] bool within() const;

  std::shared_ptr<RocksDatabase> database_;
  std::mutex mutex_;
  RocksBounds bounds_;
  rocksdb::Comparator const* order_ = nullptr;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

template <class F>
Status RocksDatabase::run(F call) {
  if (Status s = is_here(); !s.ok()) return s;
  std::shared_lock const lock(mutex_);
  if (Status s = usable(); !s.ok()) return s;
  return status_of(call(*db_), named());
}

template <class F>
Status RocksDatabase::run(std::string const& family, RocksSnapshot const* snapshot, F call) {
  if (Status s = is_here(); !s.ok()) return s;
  std::shared_lock const lock(mutex_);
  if (Status s = usable(); !s.ok()) return s;
  if (snapshot != nullptr && snapshot->get() == nullptr)
    return {Code::closed, named() + ": this snapshot was released; take another"};
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  if (Status s = find(family, handle); !s.ok()) return s;
  return status_of(call(*db_, handle, snapshot == nullptr ? nullptr : snapshot->get()), named());
}

}  // namespace perdure::python
