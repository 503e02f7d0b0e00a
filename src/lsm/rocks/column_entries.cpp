#include "lsm/rocks/column_entries.hpp"

#include <atomic>

namespace perdure::lsm {

namespace {

constexpr std::size_t kEntriesATurn = 1 << 16;

Kind kind_of(OpKind kind) {
  switch (kind) {
    case OpKind::erase: return Kind::erase;
    case OpKind::update: return Kind::merge;
    default: return Kind::put;
  }
}

}  // namespace

void ColumnEntries::read(exec::Workers& workers, wal::BatchOps const& ops, RequestId first,
                         std::span<RequestId const> requests) {
  std::size_t const n = ops.keys.count;
  bool const all_put = ops.kinds.empty() && ops.kind == OpKind::put;
  kinds_.resize(all_put ? 0 : n);
  std::atomic<bool> merges = ops.kinds.empty() && ops.kind == OpKind::update;
  workers.for_chunks(kinds_.size(), kEntriesATurn, [&](std::size_t begin, std::size_t end) {
    bool some = false;
    for (std::size_t i = begin; i < end; ++i) {
      kinds_[i] = kind_of(ops.kinds.empty() ? ops.kind : ops.kinds[i]);
      some |= kinds_[i] == Kind::merge;
    }
    if (some) merges.store(true, std::memory_order_relaxed);
  });
  merges_ = merges;
  entries_ = {};
  entries_.keys = ops.keys;
  entries_.kinds = kinds_;
  entries_.first_request = first;
  entries_.requests = requests;
  entries_.value_column = ops.values;
}

}  // namespace perdure::lsm
