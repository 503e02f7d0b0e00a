// Perdure's store on CPU warps as the CPU-assisted path's index.
#include <utility>

#include "cpu_index.hpp"

namespace perdure::peers {
namespace {

class GphashIndex final : public CpuIndex {
 public:
  explicit GphashIndex(Store store) : store_(std::move(store)) {}

  Status get(Column const& keys, MutableColumn const& values, std::span<KeyStatus> statuses) override {
    return store_.get(keys, values, statuses);
  }
  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return store_.put(keys, values, statuses);
  }
  Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return store_.update(keys, values, Rmw::replace, Element::u8, statuses);
  }
  Status erase(Column const& keys, std::span<KeyStatus> statuses) override { return store_.erase(keys, statuses); }

  [[nodiscard]] PeerStats stats() const override {
    Stats const stats = store_.stats();
    return {stats.records, stats.slots, stats.growths, 0, stats.accesses, stats.machine};
  }
  void reset_counts() override { store_.reset_counts(); }

 private:
  Store store_;
};

}  // namespace

Result<std::unique_ptr<CpuIndex>> make_gphash_index(std::string const& path, PeerOptions const& options, bool fresh) {
  CreateOptions create;
  create.key_bytes = options.key_bytes;
  create.value_bytes = options.value_bytes;
  create.expected_records = options.expected_records;
  OpenOptions open;
  open.threads = options.threads;
  open.count_accesses = options.count_accesses;
  open.verify_reads = false;  // as the other peers
  auto store = fresh ? Store::create(path, create, open) : Store::open(path, open);
  if (!store) return store.status();
  return std::unique_ptr<CpuIndex>(new GphashIndex(std::move(*store)));
}

}  // namespace perdure::peers
