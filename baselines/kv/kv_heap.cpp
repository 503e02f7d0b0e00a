// Values by an allocator, minimal persistence.
#include "kv_design.hpp"

namespace perdure::kv_baselines {
namespace {

class Heap final : public TreeDesign {
 public:
  using TreeDesign::TreeDesign;

 private:
  void write_with(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) override {
    std::visit([&](auto& h) { BtreeWrites(parts_, h, batch, tally).run(all(batch)); }, host);
  }
};

}  // namespace

std::unique_ptr<Design> make_heap(Base const& base, BtreeOptions const& options) {
  return std::make_unique<Heap>(base, options);
}

}  // namespace perdure::kv_baselines
