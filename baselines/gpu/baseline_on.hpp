// A GPM baseline on a machine, once for all of them: what is launched, in which order. Ordering
// points of a write batch: those inside its operations, one at each launch's end, and one as the
// table commits.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "arena.hpp"
#include "baseline.hpp"
#include "batch.hpp"
#include "exec/workers.hpp"
#include "pm/memory.hpp"
#include "records.hpp"

namespace perdure::baselines {

template <class Machine, class Table>
class BaselineOn final : public Baseline {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Ops = typename Table::Ops;
  using Warp =
      std::conditional_t<Table::kCooperative, typename Machine::Warp, typename Machine::Solo>;

 public:
  BaselineOn(std::unique_ptr<Arena> arena, typename Machine::Shared machine,
             std::shared_ptr<exec::Workers> workers)
      : arena_(std::move(arena)),
        workers_(std::move(workers)),
        shared_(std::move(machine)),
        machine_(shared_),
        table_(*arena_),
        records_(*arena_,
                 Table::record_bytes(arena_->header().key_bytes, arena_->header().value_bytes)) {}

  Status create(std::uint64_t expected_records) { return table_.create(expected_records); }
  Status recover() {
    auto const found = table_.recover(records_);
    if (!found) return found.status();
    count_ = found.value();
    records_.finish_marking();
    return {};
  }

  Status get(Column const& keys, MutableColumn const& values,
             std::span<KeyStatus> statuses) override {
    if (Status s = begin(keys, {}, statuses); !s.ok()) return s;
    if (Status s = machine_.map_output(values, batch_.out); !s.ok()) return s;
    if (auto const ran = run(keys.count, OpBody<Ops, Verb::get>{batch_, view()}); !ran)
      return ran.status();
    if (Status s = machine_.download_output(values, [](std::size_t) { return true; }); !s.ok())
      return s;
    return answer(statuses);
  }

  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return change<Verb::put>(keys, values, statuses);
  }
  Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return change<Verb::update>(keys, values, statuses);
  }
  Status erase(Column const& keys, std::span<KeyStatus> statuses) override {
    return change<Verb::erase>(keys, {}, statuses);
  }

  [[nodiscard]] BaselineStats stats() const override {
    return {count_,
            table_.slots(),
            table_.growths(),
            kernel_seconds_,
            {tally_[Counts::reads], tally_[Counts::writes], tally_[Counts::orders]},
            shared_.describe()};
  }
  void reset_counts() override {
    kernel_seconds_ = 0;
    tally_ = {};
  }

  /// Launches, waits for the end, which is an ordering point, and takes the time of both. Tables
  /// call it too, to grow.
  template <class Body>
  Result<Counts> run(std::uint64_t items, Body const& body) {
    std::uint64_t word = table_.shared();
    if (Status s = counts_.resize(1); !s.ok()) return s;
    if (Status s = machine_.fill(counts_.data(), 0, 1); !s.ok()) return s;
    if (Status s = machine_.send(word_.data(), &word, 1); !s.ok()) return s;
    if (Status s = machine_.wait(); !s.ok()) return s;
    auto const begin = std::chrono::steady_clock::now();
    Body mine = body;
    mine.table.shared = word_.data();
    if (Status s =
            machine_.template warps<Warp>(items, mine, pm::Memory(arena_->base()), counts_.data());
        !s.ok())
      return s;
    if (Status s = machine_.order(); !s.ok()) return s;
    kernel_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    auto const shared = machine_.fetch(word_, 1);
    if (!shared) return shared.status();
    table_.set_shared(shared.value()[0]);
    auto const counts = machine_.fetch(counts_, 1);
    if (!counts) return counts.status();
    tally_ += counts.value()[0];
    return counts.value()[0];
  }

 private:
  [[nodiscard]] typename Ops::View view() const { return table_.view(); }

  Status begin(Column const& keys, Column const& values, std::span<KeyStatus> statuses) {
    ArenaHeader const& header = arena_->header();
    if (keys.offsets != nullptr || keys.width != header.key_bytes ||
        statuses.size() != keys.count ||
        (values.data != nullptr &&
         (values.offsets != nullptr || values.width != header.value_bytes))) {
      return {Code::invalid_argument, "the columns are not of this baseline's sizes"};
    }
    batch_ = {};
    batch_.value_bytes = header.value_bytes;
    if (Status s = machine_.begin(nullptr); !s.ok()) return s;
    if (Status s = word_.resize(1); !s.ok()) return s;
    if (Status s = machine_.upload(keys, batch_.keys, 0); !s.ok()) return s;
    if (Status s = machine_.upload(values, batch_.values, 1); !s.ok()) return s;
    if (Status s = status_.resize(keys.count); !s.ok()) return s;
    batch_.status = status_.data();
    return machine_.fill(status_.data(), kPending, keys.count);
  }

  Status answer(std::span<KeyStatus> statuses) {
    auto const decided = machine_.fetch(status_, statuses.size());
    if (!decided) return decided.status();
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      std::uint8_t const status = decided.value()[i];
      statuses[i] = status == kPending ? KeyStatus::no_space : static_cast<KeyStatus>(status);
    }
    return {};
  }

  template <Verb kVerb>
  Status change(Column const& keys, Column const& values, std::span<KeyStatus> statuses) {
    if (Status s = begin(keys, values, statuses); !s.ok()) return s;
    std::uint64_t const n = keys.count;
    if (kVerb == Verb::put) {
      if (Status s = table_.make_room(*this, count_, n); !s.ok()) return s;
    }
    if (Status s = table_.begin_batch(n); !s.ok()) return s;
    places_.assign(kVerb == Verb::erase ? 0 : n, 0);
    if (Status s = records_.take(places_); !s.ok()) return s;
    if (Status s = send_lists(n); !s.ok()) return s;
    auto const ran = rounds<kVerb>(n);
    if (!ran.ok() && ran.code() != Code::no_space) return ran;
    tally_[Counts::writes] += Table::kCommits;
    tally_[Counts::orders] += Table::kCommits;
    table_.commit();
    if (Status s = table_.settle(*this, batch_, count_); !s.ok()) return s;
    if (Status s = answer(statuses); !s.ok()) return s;
    if (Status s = take_back(statuses); !s.ok()) return s;
    return ran;
  }

  /// Runs the batch until nothing of it is pending, or there is no more room to be had.
  template <Verb kVerb>
  Status rounds(std::uint64_t n) {
    for (;;) {
      auto const ran = run(n, OpBody<Ops, kVerb>{batch_, view()});
      if (!ran) return ran.status();
      ++tally_[Counts::orders];  // the launch's end
      count_ += ran.value()[BatchCounts::inserted] - ran.value()[BatchCounts::erased];
      if (ran.value()[BatchCounts::pending] == 0) return {};
      if (Status s = table_.more_room(); !s.ok()) return s;
    }
  }

  Status send_lists(std::uint64_t n) {
    batch_.freed_room = 2 * n + 64;
    if (Status s = fresh_.resize(places_.size()); !s.ok()) return s;
    if (Status s = freed_.resize(1 + batch_.freed_room); !s.ok()) return s;
    if (Status s = machine_.send(fresh_.data(), places_.data(), places_.size()); !s.ok()) return s;
    if (Status s = machine_.fill(freed_.data(), 0, 1); !s.ok()) return s;
    batch_.fresh = fresh_.data();
    batch_.freed = freed_.data();
    return {};
  }

  /// Records that nothing leads to serve the next batch.
  Status take_back(std::span<KeyStatus const> statuses) {
    auto const head = machine_.fetch(freed_, 1);
    if (!head) return head.status();
    std::uint64_t const freed = std::min(head.value()[0], batch_.freed_room);
    auto const list = machine_.fetch(freed_, 1 + freed);
    if (!list) return list.status();
    for (std::uint64_t i = 0; i < freed; ++i) records_.give(list.value()[1 + i]);
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (statuses[i] == KeyStatus::no_space) records_.give(places_[i]);
    return {};
  }

  std::unique_ptr<Arena> arena_;
  std::shared_ptr<exec::Workers> workers_;  // that the machine uses
  typename Machine::Shared shared_;
  Machine machine_;
  Table table_;
  Records records_;
  BatchView batch_;
  std::vector<std::uint64_t> places_;
  Buffer<std::uint8_t> status_;
  Buffer<std::uint64_t> fresh_, freed_, word_;
  Buffer<Counts> counts_;
  std::uint64_t count_ = 0;
  double kernel_seconds_ = 0;
  Counts tally_;
};

}  // namespace perdure::baselines
