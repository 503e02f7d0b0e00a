// Batches of a store whose tree is durable as a whole, cut off at each store and each flush of a
// line: what a kill leaves there is opened. The tree, the runs and the log are the store's own, on
// a Host that looks. Invariant: one batch at a time, by this thread.
#pragma once

#include <functional>
#include <memory>

#include "ordered_store.hpp"
#include "pm/root.hpp"
#include "store/btree/full/full_engine_on.hpp"
#include "support/cut_pool.hpp"

namespace perdure::test {

using Contents = std::map<Bytes, Bytes>;

struct CutOp {
  OpKind kind;
  Bytes key;
  Bytes value;
};

inline Contents applied(Contents now, std::vector<CutOp> const& ops) {
  for (CutOp const& op : ops) {
    if (op.kind == OpKind::erase)
      now.erase(op.key);
    else
      now[op.key] = op.value;
  }
  return now;
}

class CutBatches {
 public:
  using Keys = btree::ByteKeys<BtreeRecords>;

  CutBatches() {
    if (!engine_->recover(false, false).ok()) throw std::runtime_error("no engine");
    space_.load_later();
    pm::Root root = pool_.root();
    root.clean = 0;
    pool_.publish_root(root);
    numbers_.begin();
  }

  /// As one batch. judge() gets what an opening finds where a kill had come at every `each`th
  /// point, and at the end.
  void run(std::vector<CutOp> const& ops, std::uint64_t each) {
    std::vector<Bytes> keys, values;
    std::vector<OpKind> kinds;
    for (CutOp const& op : ops) {
      keys.push_back(op.key);
      values.push_back(op.value);
      kinds.push_back(op.kind);
    }
    Packed const k(keys, 0), v(values, 0);
    Call call;
    call.keys = k.column();
    call.values = v.column();
    call.kinds = kinds;
    std::vector<std::uint8_t> status(ops.size(), kPending);
    threads::Batch const batch{&call, status.data(), numbers_.take(ops.size())};
    threads::Tally tally;
    std::uint64_t point = 0;
    at_point = [&] {
      if (point++ % each == 0) look();
    };
    engine_->begin();
    engine_->write(batch, {nullptr, 0, ops.size()}, tally);
    records_ += tally.inserted - tally.erased;
    if (!engine_->commit(records_).ok()) throw std::runtime_error("no commit");
    at_point = nullptr;
    look();
  }
  std::function<void(Store&, bool undone)> judge;

 private:
  void look() {
    Store store = cut_.killed();
    judge(store, store.recovery().undone != 0);
  }

  CutPool cut_{Kind{"", 0, KeyOrder::bytes, Persist::full}.create()};
  pm::Pool& pool_ = cut_.pool();
  Mutex memory_;
  threads::Space space_{pool_, memory_};
  threads::BatchNumbers numbers_{pool_, memory_};
  std::atomic<bool> given_up_{false};
  std::unique_ptr<BtreeEngine> engine_ = std::make_unique<full::EngineOn<Keys, CutHost>>(
      pool_, memory_, Keys(BtreeRecords(pool_.base(), pool_.superblock_bytes())), space_, numbers_,
      BtreeOptions{0, 0, KeyOrder::bytes, true, false, &given_up_});
  std::uint64_t records_ = 0;
};

/// Batches that split leaves and merge them, with keys that differ late, and what is wrong where
/// one is cut; empty: nothing. `each`: of large batches.
inline std::string cut_everywhere(std::uint64_t each) {
  auto const key = [](std::uint64_t n) {
    return Bytes(n % 3 == 0 ? "shared prefix " : "") + std::to_string(n * 7919 % 1000);
  };
  std::vector<CutOp> many, few, most_gone;
  for (std::uint64_t n = 0; n < 60; ++n) {
    many.push_back({OpKind::put, key(n), "value " + std::to_string(n)});
    if (n % 9 != 0) most_gone.push_back({OpKind::erase, key(n), ""});
  }
  std::vector<CutOp> again;  // so many that what they replace would be taken again
  for (std::uint64_t n = 0; n < 1600; ++n)
    again.push_back({OpKind::put, key(n % 60), "again " + std::to_string(n)});
  for (std::uint64_t n = 0; n < 3; ++n) few.push_back({OpKind::put, key(20 * n), "another"});
  few.push_back({OpKind::erase, key(5), ""});
  few.push_back({OpKind::put, "a new one", Bytes(3000, 'l')});
  CutBatches store;
  Contents now;
  std::string wrong;
  bool undone_once = false;
  for (auto const* batch : {&many, &few, &again, &most_gone, &few}) {
    Contents const before = now, after = applied(now, *batch);
    bool committed = false;
    store.judge = [&](Store& found, bool undone) {
      undone_once = undone_once || undone;
      auto const all = all_of(found, {});
      Contents const held(all.begin(), all.end());
      committed = held == after;
      if (!committed && held != before) wrong = "part of a batch is there";
      auto report = found.verify();
      if (!report.ok()) wrong = report.status().message();
      if (report.ok() && report->fault_count != 0) wrong = report->faults.front();
    };
    store.run(*batch, batch == &few ? 1 : batch == &again ? 40 * each : each);
    if (!committed && wrong.empty()) wrong = "a batch that was acknowledged is not there";
    if (!wrong.empty()) return wrong;
    now = after;
  }
  return undone_once ? "" : "no batch was ever undone";
}

}  // namespace perdure::test
