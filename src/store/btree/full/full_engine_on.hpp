// The engine of a B+-tree that is durable as a whole, with the heap it lies in (the thesis's
// section 2.4, full persistence). Operations are those of every tree (btree_runs.hpp,
// btree_ranges.hpp), on a Host that logs what it overwrites; a batch of writes is a transaction.
// Invariants: begin() and commit() enclose a batch, with nobody beside it; between them the pool's
// maps stay as they were, and what was unlinked is not taken again; all of a batch is there after a
// crash, or nothing.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "exec/epochs.hpp"
#include "index/btree/tree.hpp"
#include "pm/counted_host.hpp"
#include "pm/host.hpp"
#include "pm/transaction/transaction_host.hpp"
#include "pm/transaction/undo_lines.hpp"
#include "store/btree/btree_engine.hpp"
#include "store/btree/btree_load.hpp"
#include "store/btree/btree_ranges.hpp"
#include "store/btree/btree_runs.hpp"
#include "store/btree/full/full_repair.hpp"
#include "store/btree/full/full_walk.hpp"
#include "store/btree/full/pool_nodes.hpp"
#include "store/threads/gives_up.hpp"

namespace perdure::full {

/// `Plain`: how memory is touched, accesses uncounted.
template <class Keys, class Plain = pm::OrderedHost>
class EngineOn final : public BtreeEngine {
  using Tree = btree::Tree<Keys, PoolNodes>;
  using Parts = BtreeParts<Tree, Keys>;
  template <class Base>
  using Reading = threads::GivesUp<pm::OpeningHost<Base>>;
  template <class Base>
  using Writing = threads::GivesUp<pm::TransactionHost<pm::OpeningHost<Base>>>;
  using ReadingHost = Reading<Plain>;
  using WritingHost = Writing<Plain>;

 public:
  EngineOn(pm::Pool& pool, Mutex& memory, Keys keys, threads::Space& space,
           threads::BatchNumbers& numbers, BtreeOptions const& options)
      : options_(options),
        keys_(keys),
        durable_(pool.addresses()),
        space_(space),
        log_(pool, memory),
        room_{space, log_, pool.base()},
        tree_(keys, room_),
        parts_{tree_,
               BtreeRecords(pool.base(), pool.superblock_bytes()),
               BtreeKeyMaker<Keys>(options.key_order),
               options_,
               space,
               numbers} {}

  Status create() override {
    if (Status s = log_.create(); !s.ok()) return s;
    next_generation();
    begin();
    WritingHost host = writing();
    if (tree_.create(host) != btree::Answer::done) return tree_.why_full();
    return commit(0);
  }
  Result<BtreeRecovered> recover(bool read_only) override {
    if (Status s = log_.attach(); !s.ok()) return s;
    BtreeRecovered found;
    if (!read_only) {
      auto undone = log_.undo();
      if (!undone) return undone.status();
      found.undone_lines = undone.value();
      next_generation();
    }
    State const& state = room_.state();
    generation_ = state.generation;
    tree_.resume(state.leaves, state.inner_nodes);
    found.records = state.records;
    bool const possible = state.root % pm::LineStamps::kUnit == 0 && state.root != 0 &&
                          space_.pool_bytes() > state.root;
    if (!possible) found.fault = "the line of state of its undo log leads to no tree";
    return found;
  }
  /// The same as after a crash: what is volatile is read anew.
  Result<std::uint64_t> undo() override {
    tree_.epochs().drain();
    auto undone = log_.undo();
    if (!undone) return undone.status();
    next_generation();
    space_.load_anew();
    tree_.resume(room_.state().leaves, room_.state().inner_nodes);
    return room_.state().records;
  }

  std::uint64_t sum() override {
    State state = room_.state();
    state.generation = 0;  // each opening has another
    return crc32c(0, &state, sizeof state);
  }
  void check_tree(threads::Faults& faults) override {
    ReadingHost host = reading();
    exec::EpochGuard const guard(tree_.epochs());
    auto const fault_of = [&](std::uint64_t word) { return fault(host, word); };
    Walk<Tree, Keys, decltype(fault_of)>(tree_, fault_of).run(host, faults);
    if (faults.count != 0) return;
    tree_.ascend(host, nullptr, true, [&](std::uint64_t prefix, std::uint64_t word) {
      if (parts_.make_key(parts_.records.key_at(word)).prefix != prefix)
        faults.add("the record at byte " + std::to_string(word) +
                   " has another key than its entry");
      return true;
    });
  }
  Result<std::uint64_t> make_anew() override {
    std::vector<std::uint64_t> const were = in_use(space_.heap_alone());
    begin();
    WritingHost host = writing();
    host.store(&room_.state().root, 0);
    Status done = tree_.create(host) == btree::Answer::done ? Status{} : tree_.why_full();
    std::uint64_t records = 0;
    auto const fault_of = [&](std::uint64_t word) { return fault(host, word); };
    if (done.ok()) done = Repair(parts_, host, fault_of).run(were, records);
    if (done.ok()) done = commit(records);
    if (done.ok()) return records;
    if (auto const undone = undo(); !undone.ok()) return undone.status();
    return done;
  }

  void begin() override { log_.begin(); }
  Status commit(std::uint64_t records) override {
    tree_.epochs().drain();  // nobody reads
    if (Status s = space_.free_unlinked(); !s.ok()) return s;
    WritingHost host = writing();
    write_state(host, records);
    write_maps(host);
    log_.commit();
    space_.heap_alone().maps_written();
    return {};
  }

  void get(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    MutableColumn const& out = batch.call->out;
    auto const give = [&](std::size_t i, std::span<std::byte const> value) {
      PERDURE_ASSERT(!kCostlyAssertions || (value.size() == out.width && i < out.count));
      std::memcpy(out.data + i * out.width, value.data(), value.size());
    };
    on_reading(tally, [&](auto& host) { BtreeGets(parts_, host, batch, tally).run(ops, give); });
  }
  void get_variable(threads::Batch const& batch, threads::Ops const& ops,
                    std::vector<std::byte>& values, std::int64_t* lengths,
                    threads::Tally& tally) override {
    for (std::size_t k = 0; k < ops.count; ++k) lengths[ops[k]] = 0;
    auto const give = [&](std::size_t i, std::span<std::byte const> value) {
      values.insert(values.end(), value.begin(), value.end());
      lengths[i] = static_cast<std::int64_t>(value.size());
    };
    on_reading(tally, [&](auto& host) { BtreeGets(parts_, host, batch, tally).run(ops, give); });
  }
  void write(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    if (!options_.count_accesses) {
      WritingHost host = writing();
      return BtreeWrites(parts_, host, batch, tally).run(ops);
    }
    Writing<pm::CountedHost> host(options_.given_up, log_, generation_, durable_);
    BtreeWrites(parts_, host, batch, tally).run(ops);
    count(host, tally);
  }
  bool load(threads::Batch const& batch, exec::Workers& workers, std::atomic<bool> const* stop,
            threads::Tally& tally) override {
    BtreeLoad<Parts, Keys, WritingHost> load(parts_, batch);
    return !options_.count_accesses && load.rises() && load.run(writing(), workers, stop, tally);
  }
  Status why_damaged() override {
    return {Code::corrupt, "a record that keys are compared with claims more room than it has"};
  }

  BtreePage range(BtreeRange const& range, std::size_t limit, std::uint64_t most_bytes,
                  threads::Visitor const& visit) override {
    ReadingHost host = reading();
    return BtreeRanges(parts_, keys_, host).page(range, limit, most_bytes, visit);
  }
  std::uint64_t count(BtreeRange const& range) override {
    ReadingHost host = reading();
    return BtreeRanges(parts_, keys_, host).count(range);
  }
  BtreeShape shape() override {
    ReadingHost host = reading();
    exec::EpochGuard const guard(tree_.epochs());
    auto const shape = tree_.shape(host);
    return {shape.leaves, shape.leaves * btree::Permutation::kSlots, shape.depth, 0};
  }

  // Of what is made anew at each opening.
  void rebuild(std::span<Superblock const>, BtreeFound&) override { PERDURE_ASSERT(false); }
  void free_records(std::span<std::uint64_t const>) override { PERDURE_ASSERT(false); }
  void check(std::span<Superblock const>, threads::Faults&) override { PERDURE_ASSERT(false); }

 private:
  [[nodiscard]] ReadingHost reading() const { return ReadingHost(options_.given_up, generation_); }
  [[nodiscard]] WritingHost writing() { return WritingHost(options_.given_up, log_, generation_); }
  template <class Host>
  static void count(Host const& host, threads::Tally& tally) {
    tally.reads += host.counts().lines_read;
    tally.writes += host.counts().lines_flushed;
    tally.orders += host.counts().fences;
  }
  template <class F>
  void on_reading(threads::Tally& tally, F f) {
    if (!options_.count_accesses) {
      ReadingHost host = reading();
      return f(host);
    }
    Reading<pm::CountedHost> host(options_.given_up, generation_, durable_);
    f(host);
    count(host, tally);
  }

  /// Of a record in use; null: nothing is wrong.
  template <class Host>
  char const* fault(Host& host, std::uint64_t word) {
    pm::SequencedRecord const record =
        pm::view_sequenced(host, parts_.records.at(word), space_.heap_alone().room(Offset{word}));
    if (record.free()) return "it is free";
    return BtreeReader(tree_, parts_.records, options_, host).fault(record);
  }

  /// Durably: locks of earlier openings are void from here on.
  void next_generation() {
    State& state = room_.state();
    pm::will_read(&state, sizeof state);
    generation_ = (state.generation | ~kGenerations) + 1;
    if (!mutated("generation_stays")) pm::store_word(&state.generation, generation_);
    pm::order();
  }
  void write_state(WritingHost& host, std::uint64_t records) {
    State& state = room_.state();
    btree::Shape const shape = tree_.shape(host);
    host.store(&state.leaves, shape.leaves);
    host.store(&state.inner_nodes, shape.inner_nodes);
    host.store(&state.records, records);
    host.flush(&state, sizeof state);
  }
  /// All lines are logged before the first is written: so one fence serves them all.
  void write_maps(WritingHost& host) {
    pm::UndoWriter writer(log_);
    pm::RecordHeap const& heap = space_.heap_alone();
    Plain plain;
    heap.for_each_changed_line([&](Offset at, std::uint64_t const*) {
      if (!mutated("map_not_logged")) writer.log(host, at.bytes);
    });
    plain.fence();
    heap.for_each_changed_line([&](Offset at, std::uint64_t const* words) {
      std::byte* const to = room_.base + at.bytes;
      pm::write_bytes(to, words, pm::kCacheLine);
      host.flush(to, pm::kCacheLine);
    });
  }

  static constexpr std::uint64_t kGenerations = ~std::uint64_t{0} << 32;

  BtreeOptions const options_;
  Keys keys_;
  pm::DurableRange durable_;
  threads::Space& space_;
  pm::UndoLines log_;
  NodeRoom room_;
  Tree tree_;
  Parts parts_;
  std::uint64_t generation_ = 0;
};

}  // namespace perdure::full
