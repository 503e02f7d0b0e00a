// What a design is to a session: runs of a batch and ranges, over the session's Host; and to an
// opening. Designs are the store's engines with the benchmark's Hosts in place of their own.
// Invariant: whatever a run does to the pool, its collectors among that, goes through such a Host.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/mutex.hpp"
#include "exec/workers.hpp"
#include "kv_baseline.hpp"
#include "kv_hosts.hpp"
#include "pm/blocks.hpp"
#include "pm/pool.hpp"
#include "store/btree/btree_engine_on.hpp"

namespace perdure::kv_baselines {

/// What designs are made over.
struct Base {
  pm::Pool& pool;
  Mutex& memory;
  threads::Space& space;
  threads::BatchNumbers& numbers;
  pm::Blocks& leaves;
  std::function<AnyHost()> make_host;  // for one more thread
};

class Design {
 public:
  Design() = default;
  Design(Design const&) = delete;
  Design& operator=(Design const&) = delete;
  virtual ~Design() = default;

  virtual void run(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) = 0;
  virtual BtreePage range(AnyHost& host, BtreeRange const& range, std::size_t limit,
                          threads::Visitor const& visit) = 0;
  [[nodiscard]] virtual pm::ValueLog* value_log() { return nullptr; }
  /// An empty tree.
  virtual Status create() = 0;
  /// The tree of what the pool holds; how many records. Parts are the host's clock's, where one
  /// thread works; several have Hosts that flush.
  virtual Result<std::uint64_t> recover(AnyHost& host, exec::Workers& workers) = 0;
};

/// Gets and ranges, which all designs have alike.
template <class Nodes>
class TreeDesign : public Design, protected BtreeEngineOn<btree::WordKeys, Nodes> {
  using Engine = BtreeEngineOn<btree::WordKeys, Nodes>;

 public:
  template <class... OfNodes>
  explicit TreeDesign(Base const& base, BtreeOptions const& options, OfNodes&&... nodes)
      : Engine(base.pool, btree::WordKeys(), base.space, base.numbers, options,
               std::forward<OfNodes>(nodes)...) {}

  Status create() override { return Engine::create(); }
  void run(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) override {
    if (!batch.call->kinds.empty() || batch.call->kind != OpKind::get)
      return write_with(host, batch, tally);
    auto const give = threads::give_into_output(batch);
    std::visit([&](auto& h) { BtreeGets(this->parts_, h, batch, tally).run(all(batch), give); },
               host);
  }
  BtreePage range(AnyHost& host, BtreeRange const& range, std::size_t limit,
                  threads::Visitor const& visit) override {
    return std::visit(
        [&](auto& h) {
          return BtreeRanges(this->parts_, btree::WordKeys(), h).page(range, limit, ~0ull, visit);
        },
        host);
  }

 protected:
  virtual void write_with(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) = 0;
  static threads::Ops all(threads::Batch const& batch) {
    return {nullptr, 0, batch.call->keys.count};
  }
};

/// Values by an allocator.
template <class Nodes>
class HeapDesign : public TreeDesign<Nodes> {
 public:
  using TreeDesign<Nodes>::TreeDesign;

 protected:
  void write_with(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) override {
    std::visit([&](auto& h) { BtreeWrites(this->parts_, h, batch, tally).run(this->all(batch)); },
               host);
  }
};

/// With Options::parts, what follows is time of that part.
inline void enters(AnyHost& host, pm::Part part) {
  std::visit([&](auto& h) { h.enters(part); }, host);
}

std::unique_ptr<Design> make_heap(Base const& base, BtreeOptions const& options);
std::unique_ptr<Design> make_heap_index(Base const& base, BtreeOptions const& options);
std::unique_ptr<Design> make_heap_full(Base const& base, BtreeOptions const& options);
std::unique_ptr<Design> make_log(Base const& base, BtreeOptions const& options,
                                 pm::LogSettings const& log);
std::unique_ptr<Design> make_log_index(Base const& base, BtreeOptions const& options,
                                       pm::LogSettings const& log);

}  // namespace perdure::kv_baselines
