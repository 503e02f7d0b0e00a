// Values by an allocator, and all of the store durable: each batch of writes is a transaction,
// alone beside readers that wait. An opening undoes one at most. Invariant: the engine's Hosts are
// the session's; what the commit itself stores, a line, no Host sees.
#include <mutex>
#include <shared_mutex>
#include <type_traits>
#include <utility>

#include "kv_current.hpp"
#include "kv_design.hpp"
#include "store/btree/full/full_engine_on.hpp"

namespace perdure::kv_baselines {
namespace {

template <class Host>
class Full final : public Design {
 public:
  Full(Base const& base, BtreeOptions const& options)
      : space_(base.space),
        make_host_(base.make_host),
        engine_(base.pool, base.memory, btree::WordKeys(), base.space, base.numbers, options) {}

  Status create() override {
    AnyHost host = make_host_();
    WithCurrent<Host> const current(std::get<Host>(host));
    return engine_.create();
  }
  Result<std::uint64_t> recover(AnyHost& host, exec::Workers&) override {
    WithCurrent<Host> const current(std::get<Host>(host));
    enters(host, pm::Part::space);
    auto const recovered = engine_.recover(false, false);
    if (!recovered) return recovered.status();
    if (!recovered.value().fault.empty()) return Status{Code::corrupt, recovered.value().fault};
    space_.load_later();
    records_ = recovered.value().records;
    return records_;
  }
  void run(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) override {
    WithCurrent<Host> const current(std::get<Host>(host));
    threads::Ops const all{nullptr, 0, batch.call->keys.count};
    if (batch.call->kinds.empty() && batch.call->kind == OpKind::get) {
      std::shared_lock const beside(lock_);
      return engine_.get(batch, all, tally);
    }
    std::unique_lock const alone(lock_);
    engine_.begin();
    engine_.write(batch, all, tally);
    records_ = records_ + tally.inserted - tally.erased;
    Status const committed = engine_.commit(records_);
    if (!committed.ok()) {
      tally.refused += all.count;
      tally.why_refused = committed;
      for (std::size_t i = 0; i < all.count; ++i) batch.complete(i, KeyStatus::no_space);
    }
    std::get<Host>(host).fence();  // what the commit waits for
  }
  BtreePage range(AnyHost& host, BtreeRange const& range, std::size_t limit,
                  threads::Visitor const& visit) override {
    WithCurrent<Host> const current(std::get<Host>(host));
    std::shared_lock const beside(lock_);
    return engine_.range(range, limit, ~0ull, visit);
  }

 private:
  threads::Space& space_;
  std::function<AnyHost()> make_host_;
  full::EngineOn<btree::WordKeys, Current<Host>> engine_;
  std::shared_mutex lock_;
  std::uint64_t records_ = 0;
};

}  // namespace

std::unique_ptr<Design> make_heap_full(Base const& base, BtreeOptions const& options) {
  AnyHost const like = base.make_host();
  return std::visit(
      [&](auto const& host) -> std::unique_ptr<Design> {
        return std::make_unique<Full<std::remove_cvref_t<decltype(host)>>>(base, options);
      },
      like);
}

}  // namespace perdure::kv_baselines
