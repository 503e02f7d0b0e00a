// What a design is to a session: runs of a batch and ranges, over the session's Host. Designs are
// the store's engines with the benchmark's Hosts in place of their own. Invariant: whatever a run
// does to the pool, its collectors among that, goes through such a Host.
#pragma once

#include <functional>
#include <memory>

#include "base/mutex.hpp"
#include "kv_baseline.hpp"
#include "kv_hosts.hpp"
#include "pm/pool.hpp"
#include "store/btree/btree_engine_on.hpp"

namespace perdure::kv_baselines {

/// What designs are made over.
struct Base {
  pm::Pool& pool;
  Mutex& memory;
  threads::Space& space;
  threads::BatchNumbers& numbers;
  std::function<AnyHost()> make_host;  // for one more thread
};

class Design {
 public:
  Design() = default;
  Design(Design const&) = delete;
  Design& operator=(Design const&) = delete;
  virtual ~Design() = default;

  virtual BtreeEngine& engine() = 0;
  virtual void run(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) = 0;
  virtual BtreePage range(AnyHost& host, BtreeRange const& range, std::size_t limit,
                          threads::Visitor const& visit) = 0;
};

/// Gets and ranges, which all designs have alike.
class TreeDesign : public Design, protected BtreeEngineOn<btree::WordKeys> {
 public:
  TreeDesign(Base const& base, BtreeOptions const& options)
      : BtreeEngineOn(base.pool, btree::WordKeys(), base.space, base.numbers, options) {}

  BtreeEngine& engine() override { return *this; }
  void run(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) override {
    if (!batch.call->kinds.empty() || batch.call->kind != OpKind::get)
      return write_with(host, batch, tally);
    MutableColumn const& out = batch.call->out;
    auto const give = [&](std::size_t i, std::span<std::byte const> value) {
      std::memcpy(out.data + i * out.width, value.data(), value.size());
    };
    std::visit([&](auto& h) { BtreeGets(parts_, h, batch, tally).run(all(batch), give); }, host);
  }
  BtreePage range(AnyHost& host, BtreeRange const& range, std::size_t limit,
                  threads::Visitor const& visit) override {
    return std::visit(
        [&](auto& h) {
          return BtreeRanges(parts_, btree::WordKeys(), h).page(range, limit, ~0ull, visit);
        },
        host);
  }

 protected:
  virtual void write_with(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) = 0;
  static threads::Ops all(threads::Batch const& batch) {
    return {nullptr, 0, batch.call->keys.count};
  }
};

std::unique_ptr<Design> make_heap(Base const& base, BtreeOptions const& options);
std::unique_ptr<Design> make_log(Base const& base, BtreeOptions const& options,
                                 pm::LogSettings const& log);

}  // namespace perdure::kv_baselines
