// Values by an allocator, minimal persistence: an opening reads all records, and makes the tree of
// those that count.
#include "kv_design.hpp"

namespace perdure::kv_baselines {
namespace {

class Heap final : public HeapDesign<btree::DramNodes> {
 public:
  using HeapDesign::HeapDesign;

  Result<std::uint64_t> recover(AnyHost& host) override {
    enters(host, pm::Part::space);
    parts_.space.find_superblocks();
    auto const superblocks = parts_.space.superblocks();
    if (Status s = create(); !s.ok()) return s;
    BtreeFound found;
    std::visit([&](auto& h) { BtreeLook(parts_, h).rebuild(superblocks, found); }, host);
    if (!found.full.ok()) return found.full;
    enters(host, pm::Part::space);
    free_records(found.superseded);
    parts_.space.finish_recovery();
    parts_.space.give(found.superseded);
    return found.records;
  }
};

}  // namespace

std::unique_ptr<Design> make_heap(Base const& base, BtreeOptions const& options) {
  return std::make_unique<Heap>(base, options);
}

}  // namespace perdure::kv_baselines
