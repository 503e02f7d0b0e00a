// Calls of the MergeOperator. Invariant: statuses are those that RocksDB returns itself, so that
// a caller cannot tell which of the two folded.
#include "lsm/rocks/merging.hpp"

#include "base/assert.hpp"
#include "lsm/rocks/rocksdb_version.hpp"

namespace perdure::lsm {
namespace {

// RocksDB's words.
constexpr char kEntity[] = "Merge currently not supported for wide-column entities";

}  // namespace

rocksdb::Status Merged::fold(rocksdb::MergeOperator const* merge_operator, rocksdb::Logger* logger,
                             rocksdb::Slice const& key, rocksdb::Slice const* base,
                             std::vector<rocksdb::Slice> const& operands) {
  if (operands.empty()) {
    PERDURE_ASSERT(base != nullptr);
    value_ = *base;
    return rocksdb::Status::OK();
  }
  if (merge_operator == nullptr) {
    return rocksdb::Status::InvalidArgument(
        "merge_operator must be set",
        "the family has operands of Merge: open it with the operator that they were written for");
  }
  FullMerge const merge = full_merge(*merge_operator, logger, key, base, operands, owned_);
  if (merge.result == FullMerge::Result::failed) return merge_failure();
  if (merge.result == FullMerge::Result::columns) return entity_does_not_merge();
  value_ = merge.value;
  return rocksdb::Status::OK();
}

rocksdb::Status Merged::resolve(rocksdb::MergeOperator const* merge_operator,
                                rocksdb::Logger* logger, rocksdb::Slice const& key,
                                std::span<Version const> chain, rocksdb::Slice const* below) {
  PERDURE_ASSERT(!chain.empty() && chain.front().kind != Kind::erase);
  operands_.clear();
  rocksdb::Slice put;
  rocksdb::Slice const* base = below;
  if (!is_open(chain)) {
    put = slice_of(chain.back().value);
    base = chain.back().kind == Kind::put ? &put : nullptr;
    chain = chain.first(chain.size() - 1);
  }
  operands_.reserve(chain.size());
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) operands_.push_back(slice_of(at->value));
  return fold(merge_operator, logger, key, base, operands_);
}

rocksdb::Status entity_does_not_merge() { return rocksdb::Status::NotSupported(kEntity); }

bool is_failed_merge(rocksdb::Status const& status) {
  rocksdb::Slice const text = status.getState() != nullptr ? status.getState() : "";
  return is_merge_failure(status) || (status.IsNotSupported() && text.starts_with(kEntity));
}

}  // namespace perdure::lsm
