// Two databases with the same writes: the truth is one plain RocksDB. The other has the older
// writes in RocksDB and the newer ones in runs, which the iterator under test merges.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>

#include <array>
#include <deque>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "lsm/rocks/iterator.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "rocks/counting_engine.hpp"
#include "rocks/engine_model.hpp"

namespace perdure::lsm::test {

inline void must(rocksdb::Status const& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

/// Lists operands. One that ends in '=' replaces what is below it, and is the result itself where
/// it is the newest. One that begins with '!' does not merge.
class ListOperator final : public rocksdb::MergeOperator {
 public:
  char const* Name() const override { return "ListOperator"; }
  bool FullMergeV2(MergeOperationInput const& in, MergeOperationOutput* out) const override {
    bool some = in.existing_value != nullptr;
    out->new_value = some ? in.existing_value->ToString() : "";
    for (rocksdb::Slice const& operand : in.operand_list) {
      if (operand.starts_with("!")) return false;
      bool const replaces = !operand.empty() && operand[operand.size() - 1] == '=';
      if (some && !replaces) out->new_value += ",";
      out->new_value = (replaces ? "" : out->new_value) + operand.ToString();
      some = true;
    }
    rocksdb::Slice const& newest = in.operand_list.back();
    if (newest.empty() || newest[newest.size() - 1] != '=') return true;
    out->existing_operand = newest;
    out->new_value = "counts for nothing beside an existing operand";
    return true;
  }
};

struct Writes : std::vector<Write> {
  using std::vector<Write>::vector;
};

class Database {
 public:
  Database(rocksdb::Env* env, std::string const& name, rocksdb::Options options) {
    options.env = env;
    options.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    must(lsm::open_rocksdb(&db, options, name));
    db_.reset(db);
  }
  rocksdb::DB* operator->() const { return db_.get(); }
  rocksdb::DB* get() const { return db_.get(); }

  void apply(Writes const& writes) {
    for (Write const& write : writes) {
      rocksdb::WriteOptions const plain;
      if (write.kind == Kind::put) must(db_->Put(plain, write.key, write.value));
      if (write.kind == Kind::erase) must(db_->Delete(plain, write.key));
      if (write.kind == Kind::merge) must(db_->Merge(plain, write.key, write.value));
    }
  }
  void flush() { must(db_->Flush({})); }

 private:
  std::unique_ptr<rocksdb::DB> db_;
};

struct Plan {
  Writes older;  // RocksDB has them in both databases
  bool flush_older = false;
  std::vector<Writes> runs;  // oldest first
  Writes unseen;  // newer than the snapshot; in the newest run
  Writes junk;  // that RocksDB gets after the view's snapshot
};

inline std::ostream& operator<<(std::ostream& os, Writes const& writes) {
  constexpr std::array kinds{"put", "erase", "merge"};
  for (Write const& write : writes) {
    os << "\n  " << kinds[static_cast<std::size_t>(write.kind)] << ' ' << write.key << ' '
       << write.value;
  }
  return os << "\n";
}

inline std::ostream& operator<<(std::ostream& os, Plan const& plan) {
  os << "older" << (plan.flush_older ? ", flushed:" : ":") << plan.older;
  for (Writes const& run : plan.runs) os << "run:" << run;
  return os << "unseen:" << plan.unseen << "junk:" << plan.junk;
}

inline rocksdb::Options small_blocks(bool prefixes) {
  rocksdb::Options options;
  options.merge_operator = std::make_shared<ListOperator>();
  options.max_sequential_skip_in_iterations = 2;
  options.write_buffer_size = 1 << 20;
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 64;
  table.use_delta_encoding = false;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  if (prefixes) options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(2));
  if (prefixes) options.memtable_prefix_bloom_size_ratio = 0.1;
  return options;
}

class World {
 public:
  World(Plan const& plan, rocksdb::Options const& options)
      : options_(options),
        env_(rocksdb::NewMemEnv(rocksdb::Env::Default())),
        truth(env_.get(), "/truth", options),
        base(env_.get(), "/base", options) {
    for (Database const* db : {&truth, &base}) {
      const_cast<Database*>(db)->apply(plan.older);
      if (plan.flush_older) const_cast<Database*>(db)->flush();
    }
    for (Writes const& run : plan.runs) truth.apply(run);
    truth_snapshot_ = truth->GetSnapshot();
    truth.apply(plan.unseen);
    base_snapshot_ = base->GetSnapshot();
    base.apply(plan.junk);
    std::vector<Writes> runs = plan.runs;
    if (runs.empty()) runs.emplace_back();
    for (Writes const& run : runs) limit += run.size();
    runs.back().insert(runs.back().end(), plan.unseen.begin(), plan.unseen.end());
    for (Writes const& run : runs) add_run(run);
  }
  ~World() {
    truth->ReleaseSnapshot(truth_snapshot_);
    base->ReleaseSnapshot(base_snapshot_);
  }
  World(World const&) = delete;
  World& operator=(World const&) = delete;

  void add_run(Writes const& writes) {
    if (writes.empty()) return;
    std::vector<std::string> keys;
    std::vector<Kind> kinds;
    std::vector<ValueRef> values;
    for (Write const& write : writes) {
      keys.push_back(write.key);
      kinds.push_back(write.kind);
      values_.push_back(write.value);
      std::string const& value = values_.back();
      values.push_back({reinterpret_cast<std::byte const*>(value.data()), value.size()});
    }
    KeyColumn const column(keys);
    Entries entries;
    entries.keys = column.column();
    entries.kinds = kinds;
    entries.values = values;
    entries.first_request = next_request_;
    next_request_ += writes.size();
    runs_.insert(runs_.begin(), engine.build(entries).value());
  }

  void drop_runs() { runs_.clear(); }

  IteratorView view() {
    return {owner, runs_, limit, {base.get(), base->DefaultColumnFamily(), base_snapshot_}};
  }
  IteratorFamily family() {
    return {&engine, options_.merge_operator, options_.prefix_extractor, nullptr};
  }
  std::unique_ptr<rocksdb::Iterator> tested(rocksdb::ReadOptions const& options) {
    return new_iterator(options, family(), view(), {});
  }
  std::unique_ptr<rocksdb::Iterator> true_one(rocksdb::ReadOptions options) {
    options.snapshot = truth_snapshot_;
    return std::unique_ptr<rocksdb::Iterator>(truth->NewIterator(options));
  }

 private:
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::Env> env_;

 public:
  Database truth;
  Database base;
  exec::Workers workers{1};
  CountingEngine engine{make_cpu_engine(workers).value()};
  RequestId limit = 0;
  std::shared_ptr<void const> owner = std::make_shared<int>(0);

 private:
  rocksdb::Snapshot const* truth_snapshot_ = nullptr;
  rocksdb::Snapshot const* base_snapshot_ = nullptr;
  RequestId next_request_ = 1;
  std::deque<std::string> values_;
  std::vector<RunPtr> runs_;
};

/// What a caller sees of an iterator.
inline std::string seen(rocksdb::Iterator const& iterator) {
  if (!iterator.Valid()) return "invalid, " + iterator.status().ToString();
  std::string text = iterator.key().ToString(true) + " = " + iterator.value().ToString();
  for (rocksdb::WideColumn const& column : iterator.columns()) {
    text += " [" + column.name().ToString() + ":" + column.value().ToString() + "]";
  }
  return text + ", " + iterator.status().ToString();
}

}  // namespace perdure::lsm::test
