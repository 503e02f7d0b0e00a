// The machine that one process's calls of libGPM run on, and how they say what went wrong: the last
// error of each thread. Invariant: once opened, the machine is the same until the process ends; and
// no pointer is handed out before it is opened, so that whoever looks one up has it.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "exec/cuda/cuda_info.hpp"
#include "perdure/gpm_common.h"
#include "perdure/status.h"

namespace perdure::gpm {

inline thread_local std::string gpm_last_error;

/// gpm_as_published(): set before other threads call.
struct GpmAsPublished {
  bool tells = false;
  std::string directory;  // of relative paths
};
/// A program sets it while its own globals are made: perhaps before those of this library.
inline GpmAsPublished& gpm_published() {
  static GpmAsPublished all;
  return all;
}

inline void gpm_tell(std::string const& what) {
  gpm_last_error = what;
  if (gpm_published().tells) std::fprintf(stderr, "libGPM: %s\n", what.c_str());
}

[[nodiscard]] inline std::string gpm_file_name(char const* path) {
  bool const as_it_is = gpm_published().directory.empty() || path[0] == '/';
  return as_it_is ? path : gpm_published().directory + "/" + path;
}

inline gpm_result gpm_failed(Status const& status) {
  gpm_tell(status.message());
  return status.code() == Code::not_found ? GPM_NONE_YET : GPM_FAILED;
}

/// A null pointer, and why.
inline std::nullptr_t gpm_none(Status const& status) {
  gpm_failed(status);
  return nullptr;
}

template <class Grid>
class GpmMachine {
 public:
  explicit GpmMachine(bool forked) : forked_(forked) {}

  /// The machine, opened by the first call that needs it; null, with the reason, if there is none.
  [[nodiscard]] Grid* opened() {
    std::scoped_lock const lock(mutex_);
    if (grid_ != nullptr) return grid_.get();
    if (Status const ours = Grid::kPinsPools ? exec::claim_gpu() : Status{}; !ours.ok()) {
      gpm_failed(ours);
      return nullptr;
    }
    auto grid = Grid::open();
    if (!grid.ok()) {
      gpm_failed(grid.status());
      return nullptr;
    }
    if (Status const sound = Grid::kPinsPools ? exec::check_gpu() : Status{}; !sound.ok()) {
      gpm_failed(sound);
      return nullptr;
    }
    grid_ = std::move(grid).value();
    return grid_.get();
  }
  /// Of a process that was handed a pointer.
  [[nodiscard]] Grid& grid() const { return *grid_; }
  /// All kernels that were launched have ended.
  [[nodiscard]] Status after_kernels(gpm_stream stream) {
    if (Status s = grid_->follow(stream); !s.ok()) return s;
    return grid_->order();
  }
  /// What the caller's pointer is not.
  gpm_result unknown(char const* call, char const* what) const {
    gpm_tell(std::string(call) + ": the pointer is not " + what +
             (forked_ ? "; what a process has open stays its own when it forks another: open it "
                        "again in this process, "
                        "when it is closed there"
                      : ""));
    return GPM_FAILED;
  }

 private:
  bool const forked_;  // from a process that had calls, too
  std::mutex mutex_;  // guards the opening
  std::unique_ptr<Grid> grid_;
};

}  // namespace perdure::gpm
