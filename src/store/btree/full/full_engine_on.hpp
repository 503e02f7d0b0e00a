// The engine of a B+-tree that is durable as a whole, with the heap it lies in (the thesis's
// section 2.4, full persistence). Operations are those of every tree (btree_runs.hpp,
// btree_ranges.hpp), on a Host that logs what it overwrites; a batch of writes is a transaction.
// Invariants: begin() and commit() enclose a batch, with nobody beside it; between them the pool's
// maps stay as they were, and what was unlinked is not taken again; all of a batch is there after a
// crash, or nothing.
#pragma once

#include <atomic>
#include <span>
#include <string>
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
#include "store/btree/btree_reads.hpp"
#include "store/btree/full/full_repair.hpp"
#include "store/btree/full/full_walk.hpp"
#include "store/btree/full/pool_nodes.hpp"
#include "store/threads/gives_up.hpp"

namespace perdure::full {

/// What makes Hosts of reads (TreeHosts): locks of earlier openings are void, by the generation.
template <class Base>
struct ReadingHosts {
  template <class Any>
  using On = threads::GivesUp<pm::OpeningHost<Any>>;
  using Plain = On<Base>;

  std::atomic<bool>* given_up;
  pm::DurableRange durable;
  std::uint64_t generation = 0;

  [[nodiscard]] Plain plain() const { return Plain(given_up, generation); }
  [[nodiscard]] auto counted() const { return On<pm::CountedHost>(given_up, generation, durable); }
};

/// And of a transaction's writes.
template <class Base>
struct WritingHosts {
  template <class Any>
  using On = threads::GivesUp<pm::TransactionHost<pm::OpeningHost<Any>>>;
  using Plain = On<Base>;

  ReadingHosts<Base> const& of;
  pm::UndoLines& log;

  [[nodiscard]] Plain plain() const { return Plain(of.given_up, log, of.generation); }
  [[nodiscard]] auto counted() const {
    return On<pm::CountedHost>(of.given_up, log, of.generation, of.durable);
  }
};

/// What the nodes need, so it is there before the tree.
struct Logged {
  pm::UndoLines log_;
  NodeRoom room_;
  Logged(pm::Pool& pool, Mutex& memory, threads::Space& space)
      : log_(pool, memory), room_{space, log_, pool.base()} {}
};

/// `Plain`: how memory is touched, accesses uncounted.
template <class Keys, class Plain = pm::OrderedHost>
class EngineOn final : Logged, public BtreeReads<Keys, PoolNodes, ReadingHosts<Plain>> {
  using Reads = BtreeReads<Keys, PoolNodes, ReadingHosts<Plain>>;
  using Reads::hosts_;
  using Reads::parts_;
  using Reads::tree_;
  using typename Reads::Tree;
  using ReadingHost = typename ReadingHosts<Plain>::Plain;
  using WritingHost = typename WritingHosts<Plain>::Plain;

 public:
  using typename Reads::Superblock;

  EngineOn(pm::Pool& pool, Mutex& memory, Keys keys, threads::Space& space,
           threads::BatchNumbers& numbers, BtreeOptions const& options)
      : Logged(pool, memory, space),
        Reads(pool, keys, space, numbers, options,
              ReadingHosts<Plain>{options.given_up, pm::DurableRange(pool.addresses())}, room_),
        space_(space) {}

  Status create() override {
    if (Status s = log_.create(); !s.ok()) return s;
    next_generation();
    begin();
    WritingHost host = writing().plain();
    if (tree_.create(host) != btree::Answer::done) return tree_.why_full();
    return commit(0);
  }
  Result<BtreeRecovered> recover(bool read_only, bool repair) override {
    BtreeRecovered found;
    if (repair) found.mended = log_.mend();
    if (Status s = log_.attach(); !s.ok()) return s;
    if (!read_only) {
      auto undone = log_.undo();
      if (!undone) return undone.status();
      found.undone_lines = undone.value();
    }
    next_generation(read_only);
    State const& state = room_.state();
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
    ReadingHost host = hosts_.plain();
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
    begin();
    WritingHost host = writing().plain();
    take_back_forgotten(host);
    std::vector<std::uint64_t> const were = in_use(space_.heap_alone());
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
    WritingHost host = writing().plain();
    State const next = next_state(host, records);
    log_state_and_maps(host, next);
    write_state(host, next);
    write_maps(host);
    log_.commit();
    space_.heap_alone().maps_written();
    return {};
  }

  void write(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    this->on_host(writing(), tally,
                  [&](auto& host) { BtreeWrites(parts_, host, batch, tally).run(ops); });
  }
  bool load(threads::Batch const& batch, exec::Workers& workers, std::atomic<bool> const* stop,
            threads::Tally& tally) override {
    return this->load_with(writing(), batch, workers, stop, tally);
  }

  // Of what is made anew at each opening.
  void rebuild(std::span<Superblock const>, BtreeFound&) override { PERDURE_ASSERT(false); }
  void free_records(std::span<std::uint64_t const>) override { PERDURE_ASSERT(false); }
  void check(std::span<Superblock const>, threads::Faults&) override { PERDURE_ASSERT(false); }

 private:
  [[nodiscard]] WritingHosts<Plain> writing() { return {hosts_, log_}; }

  /// Before anything is taken, which might be one of them.
  void take_back_forgotten(WritingHost& host) {
    exec::EpochGuard const guard(tree_.epochs());
    auto const fault_of = [&](std::uint64_t word) { return fault(host, word); };
    Walk<Tree, Keys, decltype(fault_of)> walk(tree_, fault_of);
    threads::Faults known;
    walk.run(host, known);
    for (std::uint64_t const record : walk.forgotten())
      if (!space_.in_use(record)) space_.heap_alone().take_back(Offset{record});
  }

  /// Of a record in use; null: nothing is wrong.
  template <class Host>
  char const* fault(Host& host, std::uint64_t word) {
    pm::SequencedRecord const record =
        pm::view_sequenced(host, parts_.records.at(word), space_.heap_alone().room(Offset{word}));
    if (record.free()) return "it is free";
    return BtreeReader(tree_, parts_.records, parts_.options, host).fault(record);
  }

  /// Durably, where anybody writes: locks of earlier openings are void from here on.
  void next_generation(bool read_only = false) {
    State& state = room_.state();
    pm::will_read(&state, sizeof state);
    hosts_.generation = (state.generation | ~kGenerations) + 1;
    if (read_only) return;
    if (!mutated("generation_stays")) pm::store_word(&state.generation, hosts_.generation);
    pm::order();
  }
  [[nodiscard]] State next_state(WritingHost& host, std::uint64_t records) {
    State next = room_.state();
    btree::Shape const shape = tree_.shape(host);
    next.leaves = shape.leaves;
    next.inner_nodes = shape.inner_nodes;
    next.records = records;
    return next;
  }
  /// f(word of the state, what it is to hold) for each that changes.
  template <class F>
  void for_each_changed(State const& next, F f) {
    State& state = room_.state();
    for (auto const word : {&State::leaves, &State::inner_nodes, &State::records})
      if (state.*word != next.*word) f(&(state.*word), next.*word);
  }
  /// All of it before the first store, so that pieces share entries, and one fence serves them.
  void log_state_and_maps(WritingHost& host, State const& next) {
    for_each_changed(next, [&](std::uint64_t* at, std::uint64_t) { host.log(at, sizeof *at); });
    for_each_changed_map_line([&](Offset at, std::uint64_t const*, unsigned changed) {
      if (!mutated("map_not_logged")) host.log(at.bytes, changed);
    });
    host.end_logging();
  }
  void write_state(WritingHost& host, State const& next) {
    State& state = room_.state();
    bool any = false;
    for_each_changed(next, [&](std::uint64_t* at, std::uint64_t value) {
      host.store(at, value);
      any = true;
    });
    if (any) host.flush(&state, sizeof state);
  }
  void write_maps(WritingHost& host) {
    for_each_changed_map_line([&](Offset at, std::uint64_t const* words, unsigned) {
      std::byte* const to = room_.base + at.bytes;
      pm::write_bytes(to, words, pm::kCacheLine);
      host.flush(to, pm::kCacheLine);
    });
  }
  /// f(its address, what it is to hold, which of its words differ, a bit each). A line whose
  /// records were taken and given back is as it was.
  template <class F>
  void for_each_changed_map_line(F f) {
    space_.heap_alone().for_each_changed_line([&](Offset at, std::uint64_t const* words) {
      unsigned changed = 0;
      for (unsigned i = 0; i < pm::kLineWords; ++i) {
        std::uint64_t const there = pm::load_word(room_.base + at.bytes + i * sizeof there);
        changed |= unsigned{there != words[i]} << i;
      }
      if (changed != 0) f(at, words, changed);
    });
  }

  static constexpr std::uint64_t kGenerations = ~std::uint64_t{0} << 32;

  threads::Space& space_;
};

}  // namespace perdure::full
