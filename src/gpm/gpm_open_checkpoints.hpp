// The checkpoints that one process has open, by their handles. Invariant: as GpmCalls has it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "gpm/gpm_checkpoint_on.hpp"
#include "gpm/gpm_machine.hpp"

namespace perdure::gpm {

template <class Grid>
class GpmOpenCheckpoints {
 public:
  explicit GpmOpenCheckpoints(GpmMachine<Grid>& machine) : machine_(machine) {}

  gpmcp* create(char const* path, std::size_t size, std::uint32_t elements, std::uint32_t groups,
                std::uint32_t spare) {
    Grid* const grid = machine_.opened();
    typename GpmCheckpointOn<Grid>::Options options;
    options.spare = spare;
    return grid == nullptr ? nullptr
                           : hand_out(GpmCheckpointOn<Grid>::create(
                                 *grid, gpm_file_name(path), size, elements, groups, options));
  }
  gpmcp* open(char const* path) {
    Grid* const grid = machine_.opened();
    return grid == nullptr ? nullptr
                           : hand_out(GpmCheckpointOn<Grid>::open(*grid, gpm_file_name(path)));
  }
  gpm_result close(gpmcp* checkpoint) {
    std::scoped_lock const lock(mutex_);
    return checkpoints_.erase(checkpoint) == 1
               ? GPM_OK
               : machine_.unknown("gpmcp_close", "a checkpoint that is open");
  }
  /// act(checkpoint) -> Status, on an open one, after the kernels that were launched.
  template <class F>
  gpm_result on(gpmcp* checkpoint, char const* call, gpm_stream stream, F act) {
    GpmCheckpointOn<Grid>* open = nullptr;
    {
      std::scoped_lock const lock(mutex_);
      auto const found = checkpoints_.find(checkpoint);
      if (found != checkpoints_.end()) open = found->second.get();
    }
    if (open == nullptr) return machine_.unknown(call, "a checkpoint that is open");
    if (Status s = machine_.grid().follow(stream); !s.ok()) return gpm_failed(s);
    Status const done = act(*open);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }

 private:
  gpmcp* hand_out(Result<GpmCheckpointOn<Grid>> checkpoint) {
    if (!checkpoint.ok()) return gpm_none(checkpoint.status());
    auto open = std::make_unique<GpmCheckpointOn<Grid>>(std::move(checkpoint).value());
    auto* const handle = reinterpret_cast<gpmcp*>(open.get());  // never looked into
    std::scoped_lock const lock(mutex_);
    checkpoints_.emplace(handle, std::move(open));
    return handle;
  }

  GpmMachine<Grid>& machine_;
  std::mutex mutex_;  // guards the rest
  std::map<gpmcp*, std::unique_ptr<GpmCheckpointOn<Grid>>> checkpoints_;
};

}  // namespace perdure::gpm
