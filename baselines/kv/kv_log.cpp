// Values by logs, minimal persistence: an opening reads all segments. Collectors, and openings,
// have Hosts like those of sessions.
#include "kv_design.hpp"
#include "store/btree/log/btree_log_engine_on.hpp"

namespace perdure::kv_baselines {
namespace {

class Log final : public TreeDesign<btree::DramNodes> {
 public:
  Log(Base const& base, BtreeOptions const& options, pm::LogSettings const& log)
      : TreeDesign(base, options),
        make_host_(base.make_host),
        log_(base.pool, base.memory, [this] { return index_of_a_thread(); }, log) {}

  ~Log() override { log_.collector().stop(); }

  [[nodiscard]] pm::ValueLog* value_log() override { return &log_; }
  Status create() override {
    if (Status s = TreeDesign::create(); !s.ok()) return s;
    log_.begin();
    return {};
  }
  Result<std::uint64_t> recover(AnyHost& host) override {
    enters(host, pm::Part::space);
    if (Status s = TreeDesign::create(); !s.ok()) return s;
    exec::Workers workers(1);
    std::visit([](auto& h) { h.leaves(); }, host);  // the threads of the opening have their own
    auto const found = log_.recover(workers);
    if (!found) return found.status();
    enters(host, pm::Part::space);
    log_.begin();
    return found.value().current;
  }

 private:
  void write_with(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) override {
    std::visit(
        [&](auto& h) {
          BtreeLogIndex index(parts_, h);
          BtreeLogRun(batch, all(batch), options_, tally).run(log_, index);
        },
        host);
  }
  std::unique_ptr<pm::LogIndex> index_of_a_thread() {
    return std::visit([&](auto host) { return make_btree_log_index(parts_, std::move(host)); },
                      make_host_());
  }

  std::function<AnyHost()> make_host_;
  pm::ValueLog log_;
};

}  // namespace

std::unique_ptr<Design> make_log(Base const& base, BtreeOptions const& options,
                                 pm::LogSettings const& log) {
  return std::make_unique<Log>(base, options, log);
}

}  // namespace perdure::kv_baselines
