#include "lsm/rocks/column_entries.hpp"

#include <algorithm>

namespace perdure::lsm {

namespace {

constexpr std::size_t kEntriesATurn = 1 << 14;

Kind kind_of(OpKind kind) {
  switch (kind) {
    case OpKind::erase: return Kind::erase;
    case OpKind::update: return Kind::merge;
    default: return Kind::put;
  }
}

ValueRef element(Column const& column, std::size_t i) {
  if (column.offsets == nullptr) return {column.data + i * column.width, column.width};
  return {column.data + column.offsets[i],
          static_cast<std::uint64_t>(column.offsets[i + 1] - column.offsets[i])};
}

}  // namespace

void ColumnEntries::read(exec::Workers& workers, wal::BatchOps const& ops, RequestId first,
                         std::span<RequestId const> offsets) {
  std::size_t const n = ops.keys.count;
  entries_ = {};
  entries_.keys = ops.keys;
  bool const all_put = ops.kinds.empty() && ops.kind == OpKind::put;
  kinds_.resize(all_put ? 0 : n);
  values_.resize(n);
  merges_ = ops.kinds.empty()
                ? ops.kind == OpKind::update
                : std::find(ops.kinds.begin(), ops.kinds.end(), OpKind::update) != ops.kinds.end();
  workers.for_chunks(n, kEntriesATurn, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      Kind const kind = kind_of(ops.kinds.empty() ? ops.kind : ops.kinds[i]);
      if (!all_put) kinds_[i] = kind;
      values_[i] = kind == Kind::erase ? ValueRef{} : element(ops.values, i);
    }
  });
  requests_.assign(offsets.begin(), offsets.end());
  for (RequestId& request : requests_) request += first;
  entries_.kinds = kinds_;
  entries_.requests = requests_;
  entries_.first_request = first;
  entries_.values = values_;
}

}  // namespace perdure::lsm
