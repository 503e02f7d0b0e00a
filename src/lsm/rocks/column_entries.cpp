#include "lsm/rocks/column_entries.hpp"

namespace perdure::lsm {

namespace {

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

void ColumnEntries::read(wal::BatchOps const& ops, RequestId first,
                         std::span<RequestId const> offsets) {
  std::size_t const n = ops.keys.count;
  entries_ = {};
  entries_.keys = ops.keys;
  kinds_.resize(n);
  values_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    kinds_[i] = kind_of(ops.kinds.empty() ? ops.kind : ops.kinds[i]);
    merges_ |= kinds_[i] == Kind::merge;
    values_[i] = kinds_[i] == Kind::erase ? ValueRef{} : element(ops.values, i);
  }
  requests_.assign(offsets.begin(), offsets.end());
  for (RequestId& request : requests_) request += first;
  entries_.kinds = kinds_;
  entries_.requests = requests_;
  entries_.first_request = first;
  entries_.values = values_;
}

}  // namespace perdure::lsm
