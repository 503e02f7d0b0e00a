// The host's calls of perdure/gpm.h and perdure/libgpm.cuh over one machine: what their pointers
// stand for, and the last error of each thread. Invariants: a pointer that was handed out stands
// for something until it is closed, and every call checks that it does; a call that touches what
// kernels may have written comes after all that were launched before it (Grid::follow()), and has
// ended when it returns; a child that was forked has calls of its own, which know none of its
// parent's pointers, and touches nothing of its parent's, its end included.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "base/process.hpp"
#include "gpm/gpm_ddio.hpp"
#include "gpm/gpm_machine.hpp"
#include "gpm/gpm_mapped_files.hpp"
#include "gpm/gpm_open_checkpoints.hpp"
#include "gpm/gpm_open_logs.hpp"

namespace perdure::gpm {

template <class Grid>
class GpmCalls {
 public:
  explicit GpmCalls(bool forked = false) : machine_(forked) {}
  /// This process's. A fork may come at any moment: what it brings, locks held by threads that are
  /// not here included, is put aside, and nothing that all threads pass through is held while this
  /// process's are made.
  static GpmCalls& instance() {
    GpmCalls* found = current().load(std::memory_order_acquire);
    if (found != nullptr && found->process_ == this_process()) return *found;
    std::unique_ptr<GpmCalls> mine(new GpmCalls(found != nullptr));
    if (found == nullptr) std::atexit(close_at_exit);  // which a child inherits
    if (!current().compare_exchange_strong(found, mine.get())) return *found;
    if (found != nullptr) put_aside(std::unique_ptr<GpmCalls>(found));
    return *mine.release();
  }

  /// Needs no machine: nothing is switched.
  char const* persist_begin() {
    static std::string const report = describe_ddio(cpu_vendor());
    std::scoped_lock const lock(mutex_);
    ++persisting_;
    return report.c_str();
  }
  gpm_result persist_end() {
    std::scoped_lock const lock(mutex_);
    if (persisting_ == 0) {
      gpm_tell(
          "gpm_persist_end: there was no gpm_persist_begin; call it before the kernels that "
          "persist");
      return GPM_FAILED;
    }
    --persisting_;
    return GPM_OK;
  }

 private:
  GpmMachine<Grid> machine_;  // outlives what is open on it

 public:
  GpmMappedFiles<Grid> files{machine_};
  GpmOpenLogs<Grid> logs{machine_};
  GpmOpenCheckpoints<Grid> checkpoints{machine_};
  GpmCalls* aside = nullptr;  // put_aside()

 private:
  static void close_at_exit() {
    GpmCalls* const found = current().exchange(nullptr);
    if (found != nullptr && found->process_ == this_process()) delete found;
  }

  /// Initialised before any code runs, so that no lock of its making can be inherited. (As a member
  /// nvcc takes its type for incomplete.)
  static std::atomic<GpmCalls*>& current() {
    static constinit std::atomic<GpmCalls*> calls{nullptr};
    return calls;
  }

  std::uint64_t const process_ = this_process();
  std::mutex mutex_;  // guards the rest
  std::uint64_t persisting_ = 0;  // begun, and not ended
};

}  // namespace perdure::gpm
