// What calls borrow: a machine and room of its own each, kept for the next call, so that a small
// call allocates nothing. Invariant: a session belongs to one call at a time, and nothing that it
// launched is under way when it goes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/caught.hpp"
#include "lsm/engine/batch_in.hpp"
#include "lsm/engine/key_order.hpp"
#include "lsm/engine/merge_in.hpp"
#include "lsm/engine/range_in.hpp"
#include "lsm/engine/run_on.hpp"

namespace perdure::lsm {

/// Of calls that make runs: their room is several times what they are given.
template <class M>
struct MakingSession {
  using Machine = M;
  explicit MakingSession(typename Machine::Shared& shared) : machine(shared) {}

  Machine machine;
  KeyOrder<Machine> order;
  RunMaker<Machine> maker;
  BatchIn<Machine> batch;
  MergeIn<Machine> merge;
  std::vector<RunView> views;  // of the runs of this call
  typename Machine::template Buffer<RunView> views_here;
};

/// Of calls that read runs.
template <class M>
struct ReadingSession {
  using Machine = M;
  explicit ReadingSession(typename Machine::Shared& shared) : machine(shared) {}

  Machine machine;
  std::vector<RunView> views;
  typename Machine::template Buffer<RunView> views_here;
  typename Machine::template Buffer<RequestId> limits;
  typename Machine::template Buffer<std::uint64_t> offsets;
  typename Machine::template Buffer<std::uint64_t> rows;  // of answers
};

/// Of calls that read ranges.
template <class M>
struct RangingSession {
  using Machine = M;
  explicit RangingSession(typename Machine::Shared& shared) : machine(shared) {}

  Machine machine;
  RangeIn<Machine> range;
  std::vector<RunView> views;
  typename Machine::template Buffer<RunView> views_here;
};

template <class Session>
class Sessions {
  using Shared = typename Session::Machine::Shared;

 public:
  explicit Sessions(Shared& shared) : shared_(&shared) {}

  /// f(session), or what its exception says.
  template <class F>
  auto with(F f) -> decltype(f(std::declval<Session&>())) {
    return caught([&]() -> decltype(f(std::declval<Session&>())) {
      std::unique_ptr<Session> session = take();
      if (Status s = session->machine.begin(); !s.ok()) return s;
      auto answer = f(*session);
      if (answer.ok() || session->machine.wait().ok()) give(std::move(session));
      return answer;
    });
  }

  /// f(session), and the session itself, which comes back once nobody has it, unless it is large.
  template <class F>
  Result<std::shared_ptr<Session>> lend(F f) {
    return caught([&]() -> Result<std::shared_ptr<Session>> {
      std::shared_ptr<Session> session(take().release(), [this](Session* back) {
        std::unique_ptr<Session> owner(back);
        if (owner->machine.wait().ok() && !owner->range.is_large()) give(std::move(owner));
      });
      if (Status s = session->machine.begin(); !s.ok()) return s;
      if (Status s = f(*session); !s.ok()) return s;
      return session;
    });
  }

 private:
  std::unique_ptr<Session> take() {
    {
      std::lock_guard const lock(mutex_);
      if (!idle_.empty()) {
        auto session = std::move(idle_.back());
        idle_.pop_back();
        return session;
      }
      idle_.reserve(++made_);  // so that giving one back needs no memory
    }
    return std::make_unique<Session>(*shared_);
  }
  void give(std::unique_ptr<Session> session) {
    std::lock_guard const lock(mutex_);
    idle_.push_back(std::move(session));
  }

  Shared* shared_;
  std::mutex mutex_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<Session>> idle_;
};

}  // namespace perdure::lsm
