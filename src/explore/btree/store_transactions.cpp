// Runs of a store whose batches are transactions, one after the other: the threads' n-th batches
// are the parts of the n-th one. Invariant: no two of its parts have a key in common.
#include <algorithm>
#include <set>

#include "batch/arithmetic.hpp"
#include "explore/btree/store_runner.hpp"

namespace perdure::explore {
namespace {

/// What a batch makes of the contents; its operations take effect in array order.
void take_effect(StoreBatch const& batch, ByKey& contents) {
  for (StoreOp const& op : batch) {
    auto const at = contents.find(op.key);
    if (op.kind == OpKind::erase) contents.erase(op.key);
    if (op.kind == OpKind::put) contents[op.key] = op.value;
    if (op.kind == OpKind::update && at != contents.end())
      at->second = combine(op.rmw, at->second, op.value);
  }
}

}  // namespace

bool StoreRunner::run_transactions(OpenedStore& opened, exec::SimScheduler& scheduler) {
  std::size_t transactions = 0;
  for (auto const& mine : scenario_.batches) transactions = std::max(transactions, mine.size());
  Contents now = oracles_[0].old;
  oracles_.clear();
  for (std::size_t n = 0; n < transactions; ++n) {
    std::vector<StoreBatch> parts = parts_of(n);
    Contents after = now;
    for (StoreBatch const& part : parts) take_effect(part, after);
    oracles_.push_back({{now, {}}, after});
    tracker_.recorder.set_oracle(oracles_.size() - 1);
    // Who commits comes after whoever had the log's locks before.
    LocksOfThreads const locks(keeps());
    if (scenario_.loads && n == 0) {
      opened.load(parts[0]);
    } else {
      opened.begin_batch();
      bool const done = scheduler.launch(static_cast<std::uint32_t>(parts.size()),
                                         [&](std::uint32_t me) { opened.apply_part(parts[me]); });
      if (!done) return false;
    }
    if (!opened.commit_batch()) return false;
    now = std::move(after);
  }
  // From here on the last one is there.
  oracles_.push_back({{now, {}}, now});
  tracker_.recorder.set_oracle(oracles_.size() - 1);
  return true;
}

/// Of the n-th transaction; what a later part has in common with an earlier one goes.
std::vector<StoreBatch> StoreRunner::parts_of(std::size_t n) const {
  std::vector<StoreBatch> parts;
  std::set<std::uint64_t> taken;
  for (auto const& mine : scenario_.batches) {
    if (n >= mine.size()) continue;
    StoreBatch part;
    for (StoreOp const& op : mine[n])
      if (!taken.contains(op.key)) part.push_back(op);
    for (StoreOp const& op : part) taken.insert(op.key);
    if (!part.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace perdure::explore
