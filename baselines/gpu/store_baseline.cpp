// Perdure's store as a baseline among baselines: the CPU-assisted path's index, and what the
// benchmark compares them with.
#include <utility>

#include "baseline.hpp"

namespace perdure::baselines {
namespace {

class StoreBaseline final : public Baseline {
 public:
  explicit StoreBaseline(Store store) : store_(std::move(store)) {}

  Status get(Column const& keys, MutableColumn const& values,
             std::span<KeyStatus> statuses) override {
    return store_.get(keys, values, statuses);
  }
  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return store_.put(keys, values, statuses);
  }
  Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return store_.update(keys, values, Rmw::replace, Element::u8, statuses);
  }
  Status erase(Column const& keys, std::span<KeyStatus> statuses) override {
    return store_.erase(keys, statuses);
  }

  [[nodiscard]] BaselineStats stats() const override {
    Stats const stats = store_.stats();
    return {stats.records, stats.slots, stats.growths, 0, stats.accesses, stats.machine};
  }
  void reset_counts() override { store_.reset_counts(); }

 private:
  Store store_;
};

}  // namespace

std::unique_ptr<Baseline> as_baseline(Store store) {
  return std::make_unique<StoreBaseline>(std::move(store));
}

}  // namespace perdure::baselines
