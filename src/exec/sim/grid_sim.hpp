// Grids on the simulated machine: a few fibers of one thread share the blocks out, and another may
// go on at every access to durable or shared memory (exec/sim/sim_scheduler.hpp); what happens to
// durable memory is reported to the observer.
#pragma once

#include <string>

#include "exec/cpu/grid_cpu.hpp"
#include "exec/sim/sim_scheduler.hpp"
#include "fault/observer.hpp"

namespace perdure::exec {

class SimThread : public GridPosition {
 public:
  SimThread(GridShape shape, Persist persist, GridTally& tally)
      : GridPosition(shape), persist_(persist), tally_(&tally) {}

  template <class T>
  void store(T* at, std::type_identity_t<T> value) {
    static_assert(kStorable<T>);
    sim_point();
    watched([&](fault::Observer& observer) { observer.will_write(at, sizeof(T)); });
    *at = value;
    watched([&](fault::Observer& observer) { observer.wrote(at, sizeof(T)); });
    ++tally_->stores;
    tally_->bytes += sizeof(T);
  }
  template <class T>
  [[nodiscard]] T load(T const* at) const {
    sim_point();
    watched([&](fault::Observer& observer) { observer.will_read(at, sizeof(T)); });
    return *at;
  }
  void persist() {
    if (persist_ == Persist::later) return;
    sim_point();
    watched([](fault::Observer& observer) { observer.fence(); });
    ++tally_->orders;
  }

  template <class T>
  T add(T* at, std::type_identity_t<T> more) const {
    return changed(at, [=](T found) { return found + more; });
  }
  template <class T>
  T least(T* at, std::type_identity_t<T> other) const {
    return changed(at, [=](T found) { return found < other ? found : other; });
  }
  template <class T>
  T greatest(T* at, std::type_identity_t<T> other) const {
    return changed(at, [=](T found) { return found > other ? found : other; });
  }
  template <class T>
  T cas(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> desired) const {
    return changed(at, [=](T found) { return found == expected ? desired : found; });
  }
  template <class T>
  T exchange(T* at, std::type_identity_t<T> value) const {
    return changed(at, [=](T) { return value; });
  }
  static void local_fence() { sim_point(); }
  static void pause() {
    if (sim_scheduler != nullptr) sim_scheduler->give_way();
  }

 private:
  /// Tells the observer, if there is one, what this thread does.
  template <class F>
  void watched(F tell) const {
    if (fault::observer == nullptr) return;
    sim_actor = 1 + global();
    tell(*fault::observer);
    sim_actor = 0;
  }
  template <class T, class F>
  T changed(T* at, F next) const {
    sim_point();
    watched([&](fault::Observer& observer) {
      observer.will_read(at, sizeof(T));
      observer.will_write(at, sizeof(T));
    });
    T const found = *at;
    *at = next(found);
    watched([&](fault::Observer& observer) { observer.wrote(at, sizeof(T)); });
    return found;
  }

  Persist persist_;
  GridTally* tally_;
};

class SimGrid : public HostMemoryGrid {
 public:
  using Thread = SimThread;

  explicit SimGrid(std::uint32_t fibers = 4) : fibers_(fibers) {}
  [[nodiscard]] std::string describe() const { return "sim x" + std::to_string(fibers_); }
  [[nodiscard]] static std::uint32_t host_threads() { return 1; }

  /// Runs under this thread's scheduler.
  template <class K>
  Status launch(GridShape shape, K const& kernel, Persist persist = Persist::here) {
    std::uint32_t const fibers = std::min(fibers_, shape.blocks);
    if (fibers == 0) return {};
    bool const done = sim_scheduler->launch(fibers, [&](std::uint32_t me) {
      SimThread thread(shape, persist, tally_);
      BlockRun<SimThread, K> run(thread, kernel, shape.threads);
      for (std::uint32_t b = me; b < shape.blocks; b += fibers) {
        thread.be_block(b);
        run.all_phases();
      }
    });
    if (!done) return {Code::device_error, "the simulated threads make no progress"};
    return {};
  }
  Status order() {
    if (fault::observer != nullptr) fault::observer->order();
    return {};
  }

 private:
  std::uint32_t fibers_;
};

}  // namespace perdure::exec
