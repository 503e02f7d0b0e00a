#include "lsm/rocks/batch_entries.hpp"

#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::Slice;

class Collector final : public rocksdb::WriteBatch::Handler {
 public:
  explicit Collector(BatchEntries& into) : into_(&into) {}

  rocksdb::Status PutCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return add(family, Kind::put, key, value);
  }
  rocksdb::Status DeleteCF(std::uint32_t family, Slice const& key) override {
    return add(family, Kind::erase, key, Slice());
  }
  rocksdb::Status SingleDeleteCF(std::uint32_t family, Slice const& key) override {
    return add(family, Kind::erase, key, Slice());
  }
  rocksdb::Status MergeCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return add(family, Kind::merge, key, value);
  }
  // The defaults of all others refuse, and so end the iteration: they are RocksDB's.
  void LogData(Slice const&) override {}

 private:
  rocksdb::Status add(std::uint32_t family, Kind kind, Slice const& key, Slice const& value) {
    FamilyEntries& to = into_->of(family);
    std::byte const* const bytes = as_bytes(key.data());
    to.keys.insert(to.keys.end(), bytes, bytes + key.size());
    to.offsets.push_back(static_cast<std::int64_t>(to.keys.size()));
    to.kinds.push_back(kind);
    to.requests.push_back(into_->requests++);
    to.values.push_back({as_bytes(value.data()), value.size()});
    to.merges |= kind == Kind::merge;
    return rocksdb::Status::OK();
  }

  BatchEntries* into_;
};

}  // namespace

Entries FamilyEntries::entries() const {
  Entries entries;
  std::size_t const n = size();
  bool const uniform = n > 0 && offsets[1] > 0 && [&] {
    for (std::size_t i = 1; i < n; ++i)
      if (offsets[i + 1] - offsets[i] != offsets[1]) return false;
    return true;
  }();
  entries.keys = {keys.data(), uniform ? nullptr : offsets.data(),
                  uniform ? static_cast<std::uint32_t>(offsets[1]) : 0, n, MemorySpace::host};
  entries.kinds = kinds;
  entries.requests = requests;
  entries.values = values;
  return entries;
}

FamilyEntries& BatchEntries::of(std::uint32_t family) {
  for (FamilyEntries& one : families)
    if (one.family == family) return one;
  families.emplace_back().family = family;
  return families.back();
}

std::vector<FamilyBatch> BatchEntries::batches() const {
  std::vector<FamilyBatch> all;
  for (FamilyEntries const& one : families) all.push_back({one.family, one.entries(), one.merges});
  return all;
}

bool BatchEntries::read(rocksdb::WriteBatch const& batch) {
  Collector collector(*this);
  return batch.Iterate(&collector).ok();
}

void BatchEntries::add(BatchEntries const& other, std::byte const* original, std::byte const* copy,
                       RequestId first) {
  for (FamilyEntries const& from : other.families) {
    FamilyEntries& to = of(from.family);
    std::int64_t const keys_before = to.offsets.back();
    to.keys.insert(to.keys.end(), from.keys.begin(), from.keys.end());
    to.kinds.insert(to.kinds.end(), from.kinds.begin(), from.kinds.end());
    for (std::size_t i = 0; i < from.size(); ++i) {
      to.offsets.push_back(keys_before + from.offsets[i + 1]);
      to.requests.push_back(first + from.requests[i]);
      ValueRef const& value = from.values[i];
      bool const is_erase = from.kinds[i] == Kind::erase;
      to.values.push_back(is_erase ? ValueRef{}
                                   : ValueRef{copy + (value.data - original), value.size});
    }
    to.merges |= from.merges;
  }
  requests += other.requests;
}

}  // namespace perdure::lsm
