// The engine on a machine. Each call takes a session, which has a machine and room of its own, so
// that calls from several threads run side by side; what they share are runs, which never change.
// Invariant: a session belongs to one call at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "lsm/engine/batch_in.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/merge_in.hpp"
#include "lsm/engine/read_bodies.hpp"
#include "lsm/engine/run_on.hpp"

namespace perdure::lsm {

template <class Machine>
struct EngineSession {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

  explicit EngineSession(typename Machine::Shared& shared) : machine(shared) {}

  Machine machine;
  RunMaker<Machine> maker;
  BatchIn<Machine> batch;
  MergeIn<Machine> merge;
  std::vector<RunView> views;  // of the runs of this call
  Buffer<RunView> views_here;
  Buffer<RequestId> limits;
  Buffer<std::uint64_t> offsets;
};

template <class Machine>
class EngineOn final : public Engine {
  using Session = EngineSession<Machine>;
  using Solo = typename Machine::Solo;

 public:
  explicit EngineOn(typename Machine::Shared machine) : machines_(std::move(machine)) {}

  [[nodiscard]] std::string describe() const override { return machines_.describe(); }
  [[nodiscard]] std::uint64_t free_bytes() const override {
    return Machine(machines_).free_bytes();
  }

  Result<RunPtr> build(Entries const& entries) override {
    return with_session([&](Session& s) { return s.batch.build(s.machine, s.maker, entries); });
  }

  Result<RunPtr> merge(RunList runs) override {
    return with_session([&](Session& session) -> Result<RunPtr> {
      auto const here = see(session, runs);
      if (!here) return here.status();
      return session.merge.merge(session.machine, session.maker, runs, session.views, here.value());
    });
  }

  Status find(RunList runs, Column const& keys, Limits const& limits,
              std::span<Answer> answers) override {
    PERDURE_ASSERT(answers.size() == keys.count);
    return with_session([&](Session& session) {
      ReadView view;
      if (Status s = bring_reads(session, runs, keys, limits, view); !s.ok()) return s;
      return read_into<Answer>(session, answers, groups<Machine>(keys.count), [&](Answer* to) {
        return FindBody<Solo, kGroup<Machine>>{view, to};
      });
    });
  }

  Status chains(RunList runs, Column const& keys, Limits const& limits, Chains& chains) override {
    return with_session([&](Session& session) {
      ReadView view;
      if (Status s = bring_reads(session, runs, keys, limits, view); !s.ok()) return s;
      Chains fresh;
      fresh.offsets.resize(keys.count + 1);
      Status const counted =
          read_into<std::uint64_t>(session, std::span(fresh.offsets).subspan(1),
                                   [&](std::uint64_t* to) { return ChainLengthBody{view, to}; });
      if (!counted.ok()) return counted;
      add_up(fresh.offsets);
      auto const offsets =
          bring(session.machine, session.offsets, std::span<std::uint64_t const>(fresh.offsets));
      if (!offsets) return offsets.status();
      fresh.versions.resize(fresh.offsets.back());
      Status const listed =
          read_into<Version>(session, fresh.versions, keys.count,
                             [&](Version* to) { return ChainBody{view, offsets.value(), to}; });
      if (listed.ok()) chains = std::move(fresh);
      return listed;
    });
  }

  Status seek(Run const& run, Column const& keys, Bound bound,
              std::span<std::uint32_t> positions) override {
    PERDURE_ASSERT(positions.size() == keys.count);
    return with_session([&](Session& session) {
      session.views.assign(1, RunOn<Machine>::of(run).view());
      ReadView view;
      if (Status s = bring_keys(session, keys, {}, view); !s.ok()) return s;
      return read_into<std::uint32_t>(
          session, positions, groups<Machine>(keys.count),
          [&](std::uint32_t* to) { return SeekBody<Solo, kGroup<Machine>>{view, bound, to}; });
    });
  }

  Status fetch(Run const& run, std::uint32_t first, std::uint32_t count,
               EntryBlock& block) override {
    PERDURE_ASSERT(first <= run.count() && count <= run.count() - first);
    return with_session([&](Session& session) {
      if (Status s = session.machine.begin(nullptr); !s.ok()) return s;
      return fetch_entries(session, RunOn<Machine>::of(run).view(), first, count, block);
    });
  }

 private:
  /// Runs f in a session, and turns exceptions into errors. The session goes back to the others,
  /// whatever happens.
  template <class F>
  auto with_session(F f) -> decltype(f(std::declval<Session&>())) {
    return caught([&]() -> decltype(f(std::declval<Session&>())) {
      std::unique_ptr<Session> session;
      {
        std::lock_guard const lock(mutex_);
        if (!idle_.empty()) {
          session = std::move(idle_.back());
          idle_.pop_back();
        }
      }
      if (session == nullptr) session = std::make_unique<Session>(machines_);
      auto answer = f(*session);
      std::lock_guard const lock(mutex_);
      idle_.push_back(std::move(session));
      return answer;
    });
  }

  /// The runs' views, for the host in `views` and for the machine.
  static Result<RunView const*> see(Session& session, RunList runs) {
    session.views.clear();
    for (RunPtr const& run : runs) session.views.push_back(RunOn<Machine>::of(*run).view());
    if (Status s = session.machine.begin(nullptr); !s.ok()) return s;
    return bring(session.machine, session.views_here, std::span<RunView const>(session.views));
  }

  static Status bring_reads(Session& session, RunList runs, Column const& keys,
                            Limits const& limits, ReadView& view) {
    session.views.clear();
    for (RunPtr const& run : runs) session.views.push_back(RunOn<Machine>::of(*run).view());
    return bring_keys(session, keys, limits, view);
  }

  static Status bring_keys(Session& session, Column const& keys, Limits const& limits,
                           ReadView& view) {
    PERDURE_ASSERT(limits.each.empty() || limits.each.size() == keys.count);
    if (Status s = session.machine.begin(nullptr); !s.ok()) return s;
    auto const views =
        bring(session.machine, session.views_here, std::span<RunView const>(session.views));
    if (!views) return views.status();
    view.runs = views.value();
    view.count = static_cast<std::uint32_t>(session.views.size());
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
  static Status read_into(Session& session, std::span<T> to, std::size_t lanes, BodyOf body_of) {
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
  static Status read_into(Session& session, std::span<T> to, BodyOf body_of) {
    return read_into<T>(session, to, to.size(), body_of);
  }

  /// Of sizes, each behind its place, makes where each begins.
  static void add_up(std::vector<std::uint64_t>& offsets) {
    for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  }

  static Status fetch_entries(Session& session, RunView const& run, std::uint32_t first,
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
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;
};

}  // namespace perdure::lsm
