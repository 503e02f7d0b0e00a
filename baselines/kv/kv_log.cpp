// Values by logs. Minimal persistence: an opening reads all segments. Durable leaves: it goes
// through the leaves, and asks each record that they lead to how long it is. Collectors, and
// openings, have Hosts like those of sessions.
#include "kv_design.hpp"
#include "kv_leaves.hpp"
#include "store/btree/log/btree_log_engine_on.hpp"
#include "store/btree/log/btree_log_leaf_records.hpp"

namespace perdure::kv_baselines {
namespace {

template <class Nodes>
class LogDesign : public TreeDesign<Nodes> {
 public:
  template <class... OfNodes>
  LogDesign(Base const& base, BtreeOptions const& options, pm::LogSettings const& log,
            OfNodes&&... nodes)
      : TreeDesign<Nodes>(base, options, std::forward<OfNodes>(nodes)...),
        make_host_(base.make_host),
        log_(base.pool, base.memory, [this] { return index_of_a_thread(); }, log) {}

  ~LogDesign() override { log_.collector().stop(); }

  [[nodiscard]] pm::ValueLog* value_log() override { return &log_; }
  Status create() override {
    if (Status s = TreeDesign<Nodes>::create(); !s.ok()) return s;
    log_.begin();
    return {};
  }

 protected:
  void write_with(AnyHost& host, threads::Batch const& batch, threads::Tally& tally) override {
    std::visit(
        [&](auto& h) {
          BtreeLogIndex index(this->parts_, h);
          BtreeLogRun(batch, this->all(batch), this->options_, tally).run(log_, index);
        },
        host);
  }

 private:
  std::unique_ptr<pm::LogIndex> index_of_a_thread() {
    return std::visit(
        [&](auto host) { return make_btree_log_index(this->parts_, std::move(host)); },
        make_host_());
  }

  std::function<AnyHost()> make_host_;

 protected:
  pm::ValueLog log_;
};

class Log final : public LogDesign<btree::DramNodes> {
 public:
  using LogDesign::LogDesign;

  Result<std::uint64_t> recover(AnyHost& host, exec::Workers& workers) override {
    enters(host, pm::Part::space);
    if (Status s = TreeDesign::create(); !s.ok()) return s;
    std::visit([](auto& h) { h.leaves(); }, host);  // the threads of the opening have their own
    auto const found = log_.recover(workers);
    if (!found) return found.status();
    enters(host, pm::Part::space);
    log_.begin();
    return found.value().current;
  }
};

/// Says to the Host of the opening's thread which headers are read.
class ReadLogRecords final : public BtreeLeafRecords {
 public:
  ReadLogRecords(std::byte* base, pm::LogRecovery& log) : base_(base), records_(log) {}
  btree::RecordMark use(std::uint64_t word) override {
    if (host_ != nullptr) {
      enters(*host_, pm::Part::value);
      std::visit([&](auto& h) { h.read(base_ + word, sizeof(pm::RecordHeader)); }, *host_);
    }
    return records_.use(word);
  }
  [[nodiscard]] bool is_record(std::uint64_t word) const override {
    return records_.is_record(word);
  }
  /// Null: several threads ask, and nobody measures them.
  void read_with(AnyHost* host) { host_ = host; }

 private:
  std::byte* base_;
  LogLeafRecords records_;
  AnyHost* host_ = nullptr;
};

class LogIndex final : public LogDesign<btree::PoolNodes> {
 public:
  LogIndex(Base const& base, BtreeOptions const& options, pm::LogSettings const& settings)
      : LogDesign(base, options, settings, base.pool, base.leaves),
        records_(base.pool.base(), log_.recovery()),
        leaves_(base.pool, base.leaves, parts_, records_) {}

  Status create() override {
    if (Status s = LogDesign::create(); !s.ok()) return s;
    leaves_.name_first();
    return {};
  }
  Result<std::uint64_t> recover(AnyHost& host, exec::Workers& workers) override {
    enters(host, pm::Part::space);
    pm::LogRecovered in_log;
    log_.recovery().find(in_log);
    if (Status s = leaves_.begin(); !s.ok()) return s;
    log_.recovery().begin_count();
    records_.read_with(workers.threads() == 1 ? &host : nullptr);
    auto const records = leaves_.take(host, workers);
    if (!records) return records;
    enters(host, pm::Part::space);
    log_.end_count(in_log);
    if (!in_log.damage.empty()) return Status{Code::corrupt, in_log.damage.front()};
    leaves_.finish();
    log_.begin();
    return records;
  }

 private:
  using typename BtreeEngineOn<btree::WordKeys, btree::PoolNodes>::Parts;

  ReadLogRecords records_;
  DurableLeaves<Parts> leaves_;
};

}  // namespace

std::unique_ptr<Design> make_log(Base const& base, BtreeOptions const& options,
                                 pm::LogSettings const& log) {
  return std::make_unique<Log>(base, options, log);
}
std::unique_ptr<Design> make_log_index(Base const& base, BtreeOptions const& options,
                                       pm::LogSettings const& log) {
  return std::make_unique<LogIndex>(base, options, log);
}

}  // namespace perdure::kv_baselines
