// An open pool whose index is a B+-tree (store/threads/core.hpp), and that tree's engine.
// Invariant: there is an engine from the moment that the records are looked at until the store is
// closed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "index/btree/layout.hpp"
#include "pm/blocks.hpp"
#include "pm/pool.hpp"
#include "store/btree/btree_engine.hpp"
#include "store/btree/leaves/btree_leaves.hpp"
#include "store/index_name.hpp"
#include "store/threads/core.hpp"

namespace perdure {

struct BtreeCore final : threads::Core {
  BtreeCore(std::string const& pool_path, OpenOptions const& open_options, RecoveryReport& report,
            pm::Pool made)
      : Core(pool_path, open_options, report, std::move(made)) {
    leaf_blocks.when_full([this] { space.give_back_empty(); });
  }

  [[nodiscard]] threads::Engine* operations() const override { return engine.get(); }
  [[nodiscard]] Persist persist() const { return static_cast<Persist>(pool.header().persist); }
  [[nodiscard]] KeyOrder key_order() const {
    return static_cast<KeyOrder>(pool.header().key_order);
  }
  /// `segment_bytes`: of the value log; 0: none.
  void make_engine(std::uint64_t segment_bytes) {
    pm::PoolHeader const& h = pool.header();
    BtreeOptions const o{h.key_bytes,          h.value_bytes,          key_order(),
                         options.verify_reads, options.count_accesses, health.flag()};
    bool const fixed = h.key_bytes != 0 && h.value_bytes != 0;
    pm::LogSettings const log{segment_bytes, options.value_log.collectors,
                              options.value_log.most_queued,
                              fixed ? pm::log_bytes(h.key_bytes, h.value_bytes) : 0};
    if (has_transactions())
      engine = make_btree_full(pool, memory, space, numbers, o);
    else if (segment_bytes != 0 && persist() == Persist::index)
      engine = make_btree_log_leaves(pool, memory, space, numbers, o, log, leaf_blocks);
    else if (segment_bytes != 0)
      engine = make_btree_log(pool, memory, space, numbers, o, log);
    else if (persist() == Persist::index)
      engine = make_btree_index(pool, space, numbers, o, leaf_blocks);
    else
      engine = btree_word_keys(h.key_bytes) ? make_btree_of_words(pool, space, numbers, o)
                                            : make_btree_of_bytes(pool, space, numbers, o);
  }
  /// The tree of an engine, empty. Code::no_space: there is no memory for it.
  Status make_tree(std::uint64_t segment_bytes) {
    make_engine(segment_bytes);
    return engine->create();
  }
  /// For the next opening to compare with what it finds. No writer runs.
  [[nodiscard]] std::optional<pm::ClosingNote> closing_note() {
    if (pool.read_only()) return left;
    pm::ClosingNote note{};
    note.records = counters.records();
    if (engine->leaves() != nullptr) note.sum = engine->leaves()->sum(workers).sum;
    if (has_transactions()) note.sum = engine->sum();
    return note;
  }

  pm::Blocks leaf_blocks{pool, memory, sizeof(btree::Leaf)};  // where leaves are durable
  std::unique_ptr<BtreeEngine> engine;
  std::optional<pm::ClosingNote> left;  // by the orderly close before this opening
};

}  // namespace perdure
