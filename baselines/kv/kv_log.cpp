// Values by logs, minimal persistence. Collectors have Hosts like those of sessions.
#include "kv_design.hpp"
#include "store/btree/log/btree_log_engine_on.hpp"

namespace perdure::kv_baselines {
namespace {

class Log final : public TreeDesign {
 public:
  Log(Base const& base, BtreeOptions const& options, pm::LogSettings const& log)
      : TreeDesign(base, options),
        make_host_(base.make_host),
        log_(base.pool, base.memory, [this] { return index_of_a_thread(); }, log) {}

  [[nodiscard]] pm::ValueLog* log() override { return &log_; }

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
