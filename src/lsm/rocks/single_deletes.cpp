#include "lsm/rocks/single_deletes.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::Slice;

class Rewriter final : public rocksdb::WriteBatch::Handler {
 public:
  Rewriter(Families const& families, rocksdb::WriteBatch& into)
      : families_(&families), into_(&into) {}

  rocksdb::Status PutCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return with(family, [&](auto* handle) { return into_->Put(handle, key, value); });
  }
  rocksdb::Status DeleteCF(std::uint32_t family, Slice const& key) override {
    return with(family, [&](auto* handle) { return into_->Delete(handle, key); });
  }
  rocksdb::Status SingleDeleteCF(std::uint32_t family, Slice const& key) override {
    return DeleteCF(family, key);
  }
  rocksdb::Status DeleteRangeCF(std::uint32_t family, Slice const& begin,
                                Slice const& end) override {
    return with(family, [&](auto* handle) { return into_->DeleteRange(handle, begin, end); });
  }
  rocksdb::Status MergeCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return with(family, [&](auto* handle) { return into_->Merge(handle, key, value); });
  }
  void LogData(Slice const& blob) override { into_->PutLogData(blob).PermitUncheckedError(); }

 private:
  template <class F>
  rocksdb::Status with(std::uint32_t family, F call) {
    FamilyPtr const known = families_->find(family);
    rocksdb::ColumnFamilyHandle* const handle = known == nullptr ? nullptr : known->base.load();
    if (handle == nullptr) return rocksdb::Status::InvalidArgument("no such column family");
    return call(handle);
  }

  Families const* families_;
  rocksdb::WriteBatch* into_;
};

}  // namespace

bool without_single_deletes(rocksdb::WriteBatch const& batch, Families const& families,
                            rocksdb::WriteBatch& rewritten) {
  Rewriter rewriter(families, rewritten);
  return batch.Iterate(&rewriter).ok();
}

}  // namespace perdure::lsm
