// The engine on a machine: what each call brings there, runs, and brings back. Calls from several
// threads run side by side; what they share are runs, which never change.
//
// Where the machine's memory is the host's, reads of few keys are done by their caller alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "lsm/engine/few_reads.hpp"
#include "lsm/engine/machine_engine.hpp"
#include "lsm/engine/read_bodies.hpp"
#include "lsm/engine/run_on.hpp"
#include "lsm/engine/sessions.hpp"

namespace perdure::lsm {

template <class Machine>
class EngineOn final : public MachineEngine {
  using Making = MakingSession<Machine>;
  using Reading = ReadingSession<Machine>;
  using Ranging = RangingSession<Machine>;
  using Few = FewReads<Machine>;
  using Solo = typename Machine::Solo;

 public:
  using MachineEngine::chains;
  using MachineEngine::find;
  using MachineEngine::fold;
  using MachineEngine::merge;
  using MachineEngine::ranges;

  EngineOn(typename Machine::Shared machine, EngineOptions const& options)
      : machines_(std::move(machine)), options_(options) {}

  [[nodiscard]] std::string describe() const override { return machines_.describe(); }
  [[nodiscard]] std::uint64_t free_bytes() const override {
    return Machine(machines_).free_bytes();
  }
  [[nodiscard]] bool is_far() const override { return Machine::kPoolIsFar; }

  Result<RunPtr> build(Entries const& entries) override {
    return making_.with(
        [&](Making& s) { return s.batch.build(s.machine, s.order, s.maker, entries, options_); });
  }

  Result<RunPtr> merge(RunSpan runs) override {
    return making_.with([&](Making& session) -> Result<RunPtr> {
      auto const here = see(session, runs);
      if (!here) return here.status();
      return session.merge.merge(session.machine, session.order, session.maker, runs, session.views,
                                 here.value());
    });
  }

  Status find(RunSpan runs, Column const& keys, Limits const& limits, std::span<Answer> answers,
              AnswerRows const& rows) override {
    PERDURE_ASSERT(answers.size() == keys.count);
    if constexpr (Few::kPossible) {
      if (Few::are_few(runs, keys) && rows.words == nullptr) {
        Few const few(runs, keys, limits);
        few.run(FindBody<Solo, kGroup<Machine>, false>{few.view(), answers.data()});
        return {};
      }
    }
    return reading_.with([&](Reading& session) {
      ReadView view;
      if (Status s = bring_reads(session, runs, keys, limits, view); !s.ok()) return s;
      if (rows.words != nullptr) return find_rows(session, view, answers, rows);
      return read_into<Answer>(session, answers, groups<Machine>(keys.count), [&](Answer* to) {
        return FindBody<Solo, kGroup<Machine>, false>{view, to};
      });
    });
  }

  Status chains(RunSpan runs, Column const& keys, Limits const& limits, Chains& chains) override {
    if constexpr (Few::kPossible) {
      if (Few::are_few(runs, keys))
        return caught([&] { return few_chains(runs, keys, limits, chains); });
    }
    return reading_.with([&](Reading& session) {
      ReadView view;
      if (Status s = bring_reads(session, runs, keys, limits, view); !s.ok()) return s;
      chains.offsets.assign(keys.count + 1, 0);
      std::size_t const lanes = groups<Machine>(keys.count);
      Status const counted = read_into<std::uint64_t>(
          session, std::span(chains.offsets).subspan(1), lanes,
          [&](std::uint64_t* to) { return ChainLengthBody<Solo, kGroup<Machine>>{view, to}; });
      if (!counted.ok()) return counted;
      add_up(chains.offsets);
      auto const offsets =
          bring(session.machine, session.offsets, std::span<std::uint64_t const>(chains.offsets));
      if (!offsets) return offsets.status();
      chains.versions.resize(chains.offsets.back());
      return read_into<Version>(session, chains.versions, lanes, [&](Version* to) {
        return ChainBody<Solo, kGroup<Machine>>{view, offsets.value(), to};
      });
    });
  }

  Status fold(RunSpan runs, Column const& keys, Limits const& limits, Operation operation,
              std::span<Answer> answers) override {
    PERDURE_ASSERT(answers.size() == keys.count && operation != Operation::none);
    return reading_.with([&](Reading& session) {
      ReadView view;
      if (Status s = bring_reads(session, runs, keys, limits, view); !s.ok()) return s;
      return read_into<Answer>(session, answers, groups<Machine>(keys.count), [&](Answer* to) {
        return FoldBody<Solo, kGroup<Machine>>{view, operation, to};
      });
    });
  }

  /// Enough to be worth launches, or few enough for a core's caches.
  [[nodiscard]] FewMany range_pairs() const override {
    if (Machine::kPoolIsFar) return {std::uint64_t{1} << 17, std::uint64_t{1} << 18};
    return {std::uint64_t{1} << 10, std::uint64_t{1} << 12};
  }

  Result<RangePairs> ranges(RunSpan runs, RangeQuery const& query) override {
    PERDURE_ASSERT(query.ends.count == 0 || query.ends.count == query.begins.count);
    auto const session = ranging_.lend([&](Ranging& s) -> Status {
      auto const views = see(s, runs);
      if (!views) return views.status();
      RangesView view;
      view.runs = views.value();
      view.count = static_cast<std::uint32_t>(runs.size());
      view.n = query.begins.count;
      view.have_ends = query.ends.count != 0;
      view.limit = query.limit;
      view.shared = shared_bytes(runs);
      if (Status sent = s.machine.upload(query.begins, view.begins, 0); !sent.ok()) return sent;
      if (Status sent = s.machine.upload(query.ends, view.ends, 1); !sent.ok()) return sent;
      return s.range.read(s.machine, s.views, view, query);
    });
    if (!session) return session.status();
    RangePairs pairs = session.value()->range.answer();
    pairs.memory = session.value();
    return pairs;
  }

  Status seek(Run const& run, Column const& keys, Bound bound,
              std::span<std::uint32_t> positions) override {
    PERDURE_ASSERT(positions.size() == keys.count);
    Run const* const one = &run;
    if constexpr (Few::kPossible) {
      if (Few::are_few({&one, 1}, keys)) {
        Few const few({&one, 1}, keys, {});
        few.run(SeekBody<Solo, kGroup<Machine>>{few.view(), bound, positions.data()});
        return {};
      }
    }
    return reading_.with([&](Reading& session) {
      ReadView view;
      if (Status s = bring_reads(session, {&one, 1}, keys, {}, view); !s.ok()) return s;
      return read_into<std::uint32_t>(
          session, positions, groups<Machine>(keys.count),
          [&](std::uint32_t* to) { return SeekBody<Solo, kGroup<Machine>>{view, bound, to}; });
    });
  }

  Status fetch(Run const& run, std::uint32_t first, std::uint32_t count,
               EntryBlock& block) override {
    PERDURE_ASSERT(first <= run.count() && count <= run.count() - first);
    return reading_.with([&](Reading& session) {
      return fetch_entries(session, RunOn<Machine>::of(run).view(), first, count, block);
    });
  }

  [[nodiscard]] RunView const* host_view(Run const& run) const override {
    return Machine::kPoolIsFar ? nullptr : &RunOn<Machine>::of(run).view();
  }

  [[nodiscard]] RunForm form(Run const& run) const override {
    return RunOn<Machine>::of(run).form();
  }

  [[nodiscard]] std::byte const* host_bytes(Run const& run) const override {
    return Machine::kPoolIsFar ? nullptr : RunOn<Machine>::of(run).memory();
  }

  Status copy_out(Run const& run, std::byte* to) override {
    return reading_.with([&](Reading& session) {
      std::byte const* const from = RunOn<Machine>::of(run).memory();
      return copy_there(session.machine, to, from, run.bytes());
    });
  }

  Result<RunPtr> copy_in(MachineEngine& from, Run const& run) override {
    return reading_.with([&](Reading& session) -> Result<RunPtr> {
      RunForm form = from.form(run);
      RunShape const shape = form.shape;
      RunArrays arrays;
      auto made = new_run<Machine>(std::move(form), arrays);
      if (!made) return made.status();
      if (Status s = copy_here(session.machine, from, run, arrays.memory()); !s.ok()) return s;
      made.value()->set_view(arrays.view(shape));
      return RunPtr(std::move(*made));
    });
  }

 private:
  /// The runs' views, for the host in `views`, and where the machine reads them.
  template <class Session>
  static Result<RunView const*> see(Session& session, RunSpan runs) {
    session.views.clear();
    for (Run const* run : runs) session.views.push_back(RunOn<Machine>::of(*run).view());
    return bring(session.machine, session.views_here, std::span<RunView const>(session.views));
  }

  static Status copy_there(Machine& machine, std::byte* to, std::byte const* from,
                           std::uint64_t bytes) {
    if constexpr (Machine::kPoolIsFar) {
      Status const copied = machine.download_much(to, from, bytes);
      return copied.ok() ? machine.wait() : copied;
    }
    return machine.copy(to, from, bytes);
  }

  static Status copy_here(Machine& machine, MachineEngine& from, Run const& run, std::byte* to) {
    if constexpr (Machine::kPoolIsFar) {
      PERDURE_ASSERT(run.count() == 0 || from.host_bytes(run) != nullptr);
      Status const sent = machine.send_much(to, from.host_bytes(run), run.bytes());
      return sent.ok() ? machine.wait() : sent;
    }
    return from.copy_out(run, to);
  }

  /// Keys first, then their rows, which lanes side by side bring faster than who looked a key up.
  static Status find_rows(Reading& session, ReadView const& view, std::span<Answer> answers,
                          AnswerRows const& rows) {
    Machine& machine = session.machine;
    auto* const bytes = reinterpret_cast<std::byte*>(answers.data());
    auto const room = machine.room_for(bytes, answers.size_bytes());
    if (!room) return room.status();
    auto* const found = reinterpret_cast<Answer*>(room.value());
    FindBody<Solo, kGroup<Machine>, true> const find{view, found};
    if (Status s = machine.threads(groups<Machine>(view.n), find); !s.ok()) return s;
    std::size_t const words = view.n * rows.stride;
    std::uint64_t* here = rows.words;
    if constexpr (Machine::kPoolIsFar) {
      if (Status s = session.rows.resize(words); !s.ok()) return s;
      here = session.rows.data();
    }
    RowLanes const lanes(Machine::kPoolIsFar, static_cast<std::uint32_t>(rows.stride));
    AnswerRowsBody<Solo> const bring_rows{view.runs, found, view.n, here, rows.stride, lanes};
    if (Status s = machine.threads(lanes.of(view.n), bring_rows); !s.ok()) return s;
    if (Status s = machine.download_bytes(bytes, room.value(), answers.size_bytes()); !s.ok())
      return s;
    auto* const to = reinterpret_cast<std::byte*>(rows.words);
    auto const* const from = reinterpret_cast<std::byte const*>(here);
    if (Status s = machine.download_bytes(to, from, words * sizeof(std::uint64_t)); !s.ok())
      return s;
    return machine.wait();
  }

  static Status few_chains(RunSpan runs, Column const& keys, Limits const& limits, Chains& chains) {
    Few const few(runs, keys, limits);
    chains.offsets.assign(keys.count + 1, 0);
    few.run(ChainLengthBody<Solo, kGroup<Machine>>{few.view(), chains.offsets.data() + 1});
    add_up(chains.offsets);
    chains.versions.resize(chains.offsets.back());
    few.run(ChainBody<Solo, kGroup<Machine>>{few.view(), chains.offsets.data(),
                                             chains.versions.data()});
    return {};
  }

  static Status bring_reads(Reading& session, RunSpan runs, Column const& keys,
                            Limits const& limits, ReadView& view) {
    auto const views = see(session, runs);
    if (!views) return views.status();
    view.runs = views.value();
    view.count = static_cast<std::uint32_t>(runs.size());
    return bring_keys(session, keys, limits, view);
  }

  static Status bring_keys(Reading& session, Column const& keys, Limits const& limits,
                           ReadView& view) {
    PERDURE_ASSERT(limits.each.empty() || limits.each.size() == keys.count);
    view.n = keys.count;
    if (Status s = session.machine.upload(keys, view.keys, 0); !s.ok()) return s;
    auto const each = bring(session.machine, session.limits, limits.each);
    if (!each) return each.status();
    view.limits = limits.each.empty() ? nullptr : each.value();
    view.limit = limits.all;
    return {};
  }

  /// That the keys of all runs begin with.
  static std::uint32_t shared_bytes(RunSpan runs) {
    std::span<std::byte const> shared;
    bool first = true;
    for (Run const* run : runs) {
      if (run->count() == 0) continue;
      std::span<std::byte const> const one = RunOn<Machine>::of(*run).shared();
      if (first) shared = one;
      first = false;
      auto const end = std::ranges::mismatch(shared, one).in1;
      shared = shared.first(static_cast<std::size_t>(end - shared.begin()));
    }
    return static_cast<std::uint32_t>(shared.size());
  }

  /// Runs the body that body_of(where the machine writes) makes, on `lanes` lanes; its answers are
  /// in `to` afterwards.
  template <class T, class BodyOf>
  static Status read_into(Reading& session, std::span<T> to, std::size_t lanes, BodyOf body_of) {
    Machine& machine = session.machine;
    auto* const bytes = reinterpret_cast<std::byte*>(to.data());
    auto const room = machine.room_for(bytes, to.size_bytes());
    if (!room) return room.status();
    auto const body = body_of(reinterpret_cast<T*>(room.value()));
    if (Status s = machine.threads(lanes, body); !s.ok()) return s;
    if (Status s = machine.download_bytes(bytes, room.value(), to.size_bytes()); !s.ok()) return s;
    return machine.wait();
  }
  template <class T, class BodyOf>
  static Status read_into(Reading& session, std::span<T> to, BodyOf body_of) {
    return read_into<T>(session, to, to.size(), body_of);
  }

  /// Of sizes, each behind its place, makes where each begins.
  static void add_up(std::vector<std::uint64_t>& offsets) {
    for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  }

  static Status fetch_entries(Reading& session, RunView const& run, std::uint32_t first,
                              std::uint32_t count, EntryBlock& block) {
    block.versions.resize(count);
    block.key_offsets.assign(std::size_t{count} + 1, 0);
    Status const versions = read_into<Version>(
        session, block.versions, [&](Version* to) { return EntryVersionsBody{run, first, to}; });
    if (!versions.ok()) return versions;
    Status const sizes =
        read_into<std::uint64_t>(session, std::span(block.key_offsets).subspan(1),
                                 [&](std::uint64_t* to) { return EntrySizesBody{run, first, to}; });
    if (!sizes.ok()) return sizes;
    add_up(block.key_offsets);
    auto const offsets =
        bring(session.machine, session.offsets, std::span<std::uint64_t const>(block.key_offsets));
    if (!offsets) return offsets.status();
    block.keys.resize(block.key_offsets.back());
    return read_into<std::byte>(session, block.keys, count, [&](std::byte* to) {
      return EntryKeysBody{run, first, offsets.value(), to};
    });
  }

  typename Machine::Shared mutable machines_;  // what sessions share
  EngineOptions options_;
  Sessions<Making> making_{machines_};
  Sessions<Reading> reading_{machines_};
  Sessions<Ranging> ranging_{machines_};
};

}  // namespace perdure::lsm
