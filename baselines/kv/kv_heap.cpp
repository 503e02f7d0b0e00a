// Values by an allocator, minimal persistence: an opening reads all records, and makes the tree of
// those that count.
#include <mutex>

#include "kv_design.hpp"

namespace perdure::kv_baselines {
namespace {

class Heap final : public HeapDesign<btree::DramNodes> {
 public:
  using HeapDesign::HeapDesign;

  Result<std::uint64_t> recover(AnyHost& host, exec::Workers& workers) override {
    enters(host, pm::Part::space);
    parts_.space.find_superblocks();
    auto const superblocks = parts_.space.superblocks();
    if (Status s = create(); !s.ok()) return s;
    BtreeFound found;
    if (workers.threads() == 1) {
      std::visit([&](auto& h) { BtreeLook(parts_, h).rebuild(superblocks, found); }, host);
    } else {
      rebuild_by_all(std::get<Flushed>(host), superblocks, workers, found);
    }
    if (!found.full.ok()) return found.full;
    enters(host, pm::Part::space);
    free_records(found.superseded);
    parts_.space.finish_recovery();
    parts_.space.give(found.superseded);
    return found.records;
  }

 private:
  void rebuild_by_all(Flushed const& host, std::span<Superblock const> superblocks,
                      exec::Workers& workers, BtreeFound& found) {
    std::mutex mutex;
    workers.for_chunks(superblocks.size(), 1, [&](std::size_t from, std::size_t end) {
      BtreeFound mine;
      Flushed own = host;
      BtreeLook(parts_, own).rebuild(superblocks.subspan(from, end - from), mine);
      std::lock_guard const lock(mutex);
      found.records += mine.records;
      found.superseded.insert(found.superseded.end(), mine.superseded.begin(),
                              mine.superseded.end());
      if (!mine.full.ok()) found.full = mine.full;
    });
  }
};

}  // namespace

std::unique_ptr<Design> make_heap(Base const& base, BtreeOptions const& options) {
  return std::make_unique<Heap>(base, options);
}

}  // namespace perdure::kv_baselines
