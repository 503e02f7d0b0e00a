// The engine on a machine: what each call brings there, runs, and brings back. Calls from several
// threads run side by side; what they share are runs, which never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/read_bodies.hpp"
#include "lsm/engine/run_on.hpp"
#include "lsm/engine/sessions.hpp"

namespace perdure::lsm {

template <class Machine>
class EngineOn final : public Engine {
  using Making = MakingSession<Machine>;
  using Reading = ReadingSession<Machine>;
  using Solo = typename Machine::Solo;

 public:
  explicit EngineOn(typename Machine::Shared machine) : machines_(std::move(machine)) {}

  [[nodiscard]] std::string describe() const override { return machines_.describe(); }
  [[nodiscard]] std::uint64_t free_bytes() const override {
    return Machine(machines_).free_bytes();
  }

  Result<RunPtr> build(Entries const& entries) override {
    return making_.with(
        [&](Making& s) { return s.batch.build(s.machine, s.order, s.maker, entries); });
  }

  Result<RunPtr> merge(RunList runs) override {
    return making_.with([&](Making& session) -> Result<RunPtr> {
      auto const here = see(session, runs);
      if (!here) return here.status();
      return session.merge.merge(session.machine, session.order, session.maker, runs, session.views,
                                 here.value());
    });
  }

  Status find(RunList runs, Column const& keys, Limits const& limits,
              std::span<Answer> answers) override {
    PERDURE_ASSERT(answers.size() == keys.count);
    return reading_.with([&](Reading& session) {
      ReadView view;
      if (Status s = bring_reads(session, runs, keys, limits, view); !s.ok()) return s;
      return read_into<Answer>(session, answers, groups<Machine>(keys.count), [&](Answer* to) {
        return FindBody<Solo, kGroup<Machine>>{view, to};
      });
    });
  }

  Status chains(RunList runs, Column const& keys, Limits const& limits, Chains& chains) override {
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

  Status seek(Run const& run, Column const& keys, Bound bound,
              std::span<std::uint32_t> positions) override {
    PERDURE_ASSERT(positions.size() == keys.count);
    return reading_.with([&](Reading& session) {
      ReadView view;
      session.views.assign(1, RunOn<Machine>::of(run).view());
      auto const views =
          bring(session.machine, session.views_here, std::span<RunView const>(session.views));
      if (!views) return views.status();
      view.runs = views.value();
      view.count = 1;
      if (Status s = bring_keys(session, keys, {}, view); !s.ok()) return s;
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

 private:
  /// The runs' views, for the host in `views`, and where the machine reads them.
  template <class Session>
  static Result<RunView const*> see(Session& session, RunList runs) {
    session.views.clear();
    for (RunPtr const& run : runs) session.views.push_back(RunOn<Machine>::of(*run).view());
    return bring(session.machine, session.views_here, std::span<RunView const>(session.views));
  }

  static Status bring_reads(Reading& session, RunList runs, Column const& keys,
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
  Sessions<Making> making_{machines_};
  Sessions<Reading> reading_{machines_};
};

}  // namespace perdure::lsm
