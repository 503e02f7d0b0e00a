// The engine of each kind of table and each content of slots: runs of operations (dash_runs.hpp)
// and walks (dash_walk.hpp), each on a Host that counts accesses, or that does not. Invariant: who
// waits in here for another thread's operation gives up where that has ended in its midst.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/epochs.hpp"
#include "index/dash/keys.hpp"
#include "pm/counted_host.hpp"
#include "pm/host.hpp"
#include "store/dash/dash_engine.hpp"
#include "store/dash/dash_runs.hpp"
#include "store/dash/dash_slots.hpp"
#include "store/dash/dash_walk.hpp"
#include "store/threads/gives.hpp"
#include "store/threads/gives_up.hpp"

namespace perdure {

/// `Table` is one of index/dash's, over the keys of `Slots`.
template <class Table, class Slots>
class DashEngineOn final : public DashEngine {
 public:
  DashEngineOn(pm::Pool& pool, Mutex& memory, threads::Space& space, DashOptions const& options)
      : options_(options),
        space_(&space),
        slots_(pool, space, options),
        durable_(pool.addresses()),
        table_(pool, memory, slots_.keys(), options.segments) {}

  Status create(Offset index, std::uint32_t depth) override {
    OrderedHost host(options_.given_up);
    return table_.create(host, index, depth);
  }
  Status open(Offset index, bool sound, bool summed) override {
    OrderedHost host(options_.given_up);
    return table_.open(host, index, sound, summed);
  }
  void begin_mending() override {
    pm::OrderedHost host;
    exec::EpochGuard const guard(table_.epochs());
    table_.begin_mending(host);
  }
  std::vector<std::string> mended() override { return table_.mended(); }

  void get(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    auto const give = threads::give_into_output(batch);
    on_host(tally,
            [&](auto& host) { DashGets(table_, slots_, host, batch, tally).run(ops, give); });
  }

  void get_variable(threads::Batch const& batch, threads::Ops const& ops,
                    std::vector<std::byte>& values, std::int64_t* lengths,
                    threads::Tally& tally) override {
    auto const give = threads::give_behind(ops, values, lengths);
    on_host(tally,
            [&](auto& host) { DashGets(table_, slots_, host, batch, tally).run(ops, give); });
  }

  void write(threads::Batch const& batch, threads::Ops const& ops, threads::Tally& tally) override {
    on_host(tally,
            [&](auto& host) { DashWrites(table_, slots_, *space_, host, batch, tally).run(ops); });
  }

  Status why_damaged() override { return table_.why_damaged(); }

  DashPage page(std::uint64_t from, std::size_t limit, threads::Visitor const& visit) override {
    return walk().page(from, limit, visit, options_.verify_reads);
  }
  DashCount count() override { return walk().count(); }
  std::vector<std::uint64_t> positions(threads::Faults& faults) override {
    return walk().positions(faults);
  }
  void check(std::span<std::uint64_t const> positions, threads::Faults& faults) override {
    walk().check(positions, faults);
  }
  bool sweep(std::function<bool()> const& go_on) override { return walk().sweep(*space_, go_on); }

  DashShape shape() override {
    OrderedHost host(options_.given_up);
    exec::EpochGuard const guard(table_.epochs());
    std::uint64_t const segments = table_.segments(host);
    dash::SegmentShape const segment = table_.ops().shape();
    std::uint64_t const slots = std::uint64_t{segment.buckets + segment.stash} * dash::kSlots;
    return {segments, segments * slots, table_.splits()};
  }

  std::uint32_t depth() override {
    OrderedHost host(options_.given_up);
    exec::EpochGuard const guard(table_.epochs());
    return table_.depth(host);
  }

  std::uint64_t noted_count() override { return pm::OrderedHost::load(&table_.root()->counted); }
  void note_count(std::uint64_t records) override {
    pm::store_word(&table_.root()->counted, records);
    pm::order();
  }
  bool store_sums() override {
    pm::OrderedHost host;
    return table_.store_sums(host);
  }

 private:
  using OrderedHost = threads::GivesUp<pm::OrderedHost>;

  template <class F>
  void on_host(threads::Tally& tally, F f) {
    if (!options_.count_accesses) {
      OrderedHost host(options_.given_up);
      return f(host);
    }
    threads::GivesUp<pm::CountedHost> host(options_.given_up, durable_);
    f(host);
    tally.reads += host.counts().lines_read;
    tally.writes += host.counts().lines_flushed;
    tally.orders += host.counts().fences;
  }
  DashWalk<Table, Slots> walk() { return {table_, slots_, options_.given_up}; }

  DashOptions options_;
  threads::Space* space_;
  Slots slots_;
  pm::DurableRange durable_;
  Table table_;
};

/// Over slots that hold keys and values, or over records.
template <template <class, class> class Table>
std::unique_ptr<DashEngine> make_dash(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                      DashOptions const& options) {
  using Inline = DashEngineOn<Table<InlineSlots::Keys, dash::Knobs>, InlineSlots>;
  using Records = DashEngineOn<Table<RecordSlots::Keys, dash::Knobs>, RecordSlots>;
  if (dash_inline(options.key_bytes, options.value_bytes))
    return std::make_unique<Inline>(pool, memory, space, options);
  return std::make_unique<Records>(pool, memory, space, options);
}

}  // namespace perdure
