// Databases with transactions for tests: RocksDB's own, which tell what is right, and ours, over
// plain RocksDB and over perdure::rocks::open(). All in memory.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction_db.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lsm/rocks/rocksdb_version.hpp"
#include "perdure/rocks.h"
#include "rocks/temporary_directory.hpp"

namespace perdure::test {

enum class Locking : std::uint8_t { pessimistic, optimistic };
enum class Maker : std::uint8_t {
  rocksdb,
  perdure,    // over plain RocksDB
  memtables,  // over open(); all writes go to memtables
  mixed,      // and there single ones to RocksDB, while there are no memtables
};

/// Operands are put behind the value, with a comma between.
class Appending final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(rocksdb::Slice const&, rocksdb::Slice const* before, rocksdb::Slice const& operand,
             std::string* after, rocksdb::Logger*) const override {
    *after = before == nullptr ? operand.ToString() : before->ToString() + "," + operand.ToString();
    return true;
  }
  char const* Name() const override { return "Appending"; }
};

inline void must(rocksdb::Status const& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

using TransactionPtr = std::unique_ptr<rocksdb::Transaction>;

class TransactionDatabase {
 public:
  TransactionDatabase(Maker maker, Locking locking,
                      rocksdb::TransactionDBOptions const& transactions = {})
      : env_(rocksdb::NewMemEnv(rocksdb::Env::Default())) {
    options_.create_if_missing = true;
    options_.merge_operator = std::make_shared<Appending>();
    if (maker >= Maker::memtables) {
      open_perdure(maker, locking, transactions);
      return;
    }
    options_.env = env_.get();
    if (maker == Maker::rocksdb) {
      open_rocksdb(locking, transactions);
    } else {
      wrap(locking, transactions);
    }
  }

  [[nodiscard]] rocksdb::DB& db() const { return *db_; }
  [[nodiscard]] rocksdb::TransactionDB& locking() const { return *pessimistic_; }
  /// Below the transactions: what goes there takes no locks.
  [[nodiscard]] rocksdb::DB& base() const {
    return *static_cast<rocksdb::StackableDB&>(*db_).GetBaseDB();
  }

  TransactionPtr begin(rocksdb::TransactionOptions const& options = {}) const {
    return TransactionPtr(begin_over(options, nullptr));
  }
  rocksdb::Transaction* begin_over(rocksdb::TransactionOptions const& options,
                                   rocksdb::Transaction* old) const {
    if (pessimistic_ != nullptr) return pessimistic_->BeginTransaction({}, options, old);
    rocksdb::OptimisticTransactionOptions optimistic;
    optimistic.set_snapshot = options.set_snapshot;
    return optimistic_->BeginTransaction({}, optimistic, old);
  }

  [[nodiscard]] std::string get(std::string const& key) const {
    std::string value;
    rocksdb::Status const status = db_->Get({}, key, &value);
    return status.ok() ? value : status.IsNotFound() ? "-" : status.ToString();
  }

 private:
  void open_rocksdb(Locking locking, rocksdb::TransactionDBOptions const& transactions) {
    if (locking == Locking::pessimistic) {
      must(rocksdb::TransactionDB::Open(options_, transactions, "/db", &pessimistic_));
      db_.reset(pessimistic_);
    } else {
      must(rocksdb::OptimisticTransactionDB::Open(options_, "/db", &optimistic_));
      db_.reset(optimistic_);
    }
  }
  void open_perdure(Maker maker, Locking locking,
                    rocksdb::TransactionDBOptions const& transactions) {
    directory_ = std::make_unique<testing::TemporaryDirectory>();
    options_.allow_fallocate = false;
    rocks::GpuOptions gpu;
    gpu.device = rocks::Device::cpu;
    gpu.threads = 1;
    gpu.threshold = maker == Maker::memtables ? 1 : 2;
    gpu.memtable_bytes = 1 << 20;
    std::string const path = *directory_ / "db";
    if (locking == Locking::pessimistic) {
      must(rocks::open_transactions(options_, gpu, transactions, path, &pessimistic_));
      db_.reset(pessimistic_);
    } else {
      must(rocks::open_optimistic_transactions(options_, gpu, path, &optimistic_));
      db_.reset(optimistic_);
    }
  }
  void wrap(Locking locking, rocksdb::TransactionDBOptions const& transactions) {
    rocksdb::DB* base = nullptr;
    must(lsm::open_rocksdb(&base, options_, "/db"));
    if (locking == Locking::pessimistic) {
      must(rocks::wrap_transactions(base, transactions, {}, &pessimistic_));
      db_.reset(pessimistic_);
    } else {
      must(rocks::wrap_optimistic_transactions(base, {}, &optimistic_));
      db_.reset(optimistic_);
    }
  }

  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<testing::TemporaryDirectory> directory_;
  rocksdb::Options options_;
  rocksdb::TransactionDB* pessimistic_ = nullptr;
  rocksdb::OptimisticTransactionDB* optimistic_ = nullptr;
  std::unique_ptr<rocksdb::DB> db_;
};

/// Does not wait.
inline rocksdb::TransactionOptions impatient() {
  rocksdb::TransactionOptions options;
  options.lock_timeout = 0;
  return options;
}

inline std::string told(rocksdb::Status const& status) {
  if (status.ok()) return "ok";
  return std::to_string(status.code()) + "/" + std::to_string(status.subcode());
}

}  // namespace perdure::test
