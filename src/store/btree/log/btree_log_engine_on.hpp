// The engine of a B+-tree whose records lie in a value log: reads, ranges and counts are those of
// every tree's (btree_engine_on.hpp), writes are the log's pieces (pm/value_log/writer.hpp).
// Invariant: operations of a run on one key take effect in array order, for no piece has a key
// twice.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "batch/arithmetic.hpp"
#include "pm/value_log/value_log.hpp"
#include "pm/value_log/writer.hpp"
#include "store/btree/btree_engine_on.hpp"
#include "store/btree/log/btree_log_index.hpp"

namespace perdure {

/// A run of a batch, as the log's writer asks about it.
class BtreeLogRun final : public pm::LogAnswers {
 public:
  BtreeLogRun(threads::Batch const& batch, threads::Ops const& ops, BtreeOptions const& options,
              threads::Tally& tally);

  void run(pm::ValueLog& log, pm::LogIndex& index);

  void done(std::size_t i, KeyStatus status, bool was_there) override;
  void refused(std::size_t i, Status why) override;
  KeyStatus found(std::size_t i, pm::LogRecord const& item) override;
  KeyStatus update(std::size_t i, pm::LogRecord const& item,
                   std::span<std::byte const>& value) override;

 private:
  [[nodiscard]] KeyStatus check(std::size_t i, pm::LogRecord const& item) const;

  threads::Batch const& batch_;
  BtreeOptions const& options_;
  threads::Tally& tally_;
  std::vector<pm::LogOperation> operations_;
  std::vector<std::size_t> which_;  // operation of the batch
  std::vector<std::byte> scratch_;  // a value that is computed
};

template <class Keys, class Nodes = btree::DramNodes>
class BtreeLogEngineOn : public BtreeEngineOn<Keys, Nodes> {
  using Base = BtreeEngineOn<Keys, Nodes>;

 public:
  using typename Base::OrderedHost;

  /// `nodes`: what Nodes is made of.
  template <class... OfNodes>
  BtreeLogEngineOn(pm::Pool& pool, Mutex& memory, Keys keys, threads::Space& space,
                   threads::BatchNumbers& numbers, BtreeOptions const& options,
                   pm::LogSettings const& log, OfNodes&&... nodes)
      : Base(pool, keys, space, numbers, options, std::forward<OfNodes>(nodes)...),
        log_(pool, memory, [this] { return index_of_a_thread(); }, log) {}

  void write(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    this->on_host(this->hosts_, tally, [&](auto& host) {
      BtreeLogIndex index(this->parts_, host);
      BtreeLogRun(batch, ops, this->options_, tally).run(log_, index);
    });
  }
  /// Records of a log are its writer's, who puts them one behind the other by itself.
  bool load(threads::Batch const&, exec::Workers&, std::atomic<bool> const*,
            threads::Tally&) override {
    return false;
  }
  [[nodiscard]] pm::ValueLog* log() override { return &log_; }

 private:
  std::unique_ptr<pm::LogIndex> index_of_a_thread() {
    return make_btree_log_index(this->parts_, this->hosts_.plain());
  }

  pm::ValueLog log_;
};

}  // namespace perdure
