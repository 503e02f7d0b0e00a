// The host's calls of perdure/gpm.h over one machine: what their pointers stand for, and the last error of each thread.
// Invariant: a pointer that was handed out stands for something until it is closed, and every call checks that it does.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "log/gpm_checkpoint_on.hpp"
#include "log/gpm_ddio.hpp"
#include "log/gpm_file.hpp"
#include "log/gpm_log_on.hpp"
#include "perdure/gpm.h"
#include "perdure/survival.h"

#if !defined(__CUDACC__)
struct gpmlog {  // in builds without CUDA no kernel sees it
  perdure::log::GpmLogView view;
};
#endif

namespace perdure::log {

inline thread_local std::string gpm_last_error;

inline gpm_result gpm_failed(Status const& status) {
  gpm_last_error = status.message();
  return status.code() == Code::not_found ? GPM_NONE_YET : GPM_FAILED;
}

template <class Grid>
class GpmCalls {
 public:
  static GpmCalls& instance() {
    static GpmCalls calls;
    return calls;
  }

  void* map(char const* path, std::size_t size, bool create) {
    Grid* const grid = machine();
    if (grid == nullptr) return nullptr;
    auto file = GpmFile::map(path, size, create, Grid::kPinsPools);
    if (!file.ok()) return none(file.status());
    std::byte* const at = file->data();
    std::scoped_lock const lock(mutex_);
    files_.insert_or_assign(at, std::move(file.value()));
    return at;
  }
  gpm_result unmap(void* address) {
    std::scoped_lock const lock(mutex_);
    return files_.erase(static_cast<std::byte*>(address)) == 1 ? GPM_OK : unknown("gpm_unmap", "an address of gpm_map");
  }
  char const* survives_what(void const* address) {
    std::scoped_lock const lock(mutex_);
    auto const found = files_.find(static_cast<std::byte*>(const_cast<void*>(address)));
    if (found == files_.end()) {
      unknown("gpm_survives", "an address of gpm_map");
      return nullptr;
    }
    said_ = survives(found->second.medium()).describe();
    return said_.c_str();
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
      gpm_last_error = "gpm_persist_end: there was no gpm_persist_begin; call it before the kernels that persist";
      return GPM_FAILED;
    }
    --persisting_;
    return GPM_OK;
  }

  gpmlog* create_log(char const* path, std::size_t size, GpmLogGeometry const& geometry) {
    Grid* const grid = machine();
    return grid == nullptr ? nullptr : hand_out(GpmLogOn<Grid>::create(*grid, path, size, geometry));
  }
  gpmlog* open_log(char const* path) {
    Grid* const grid = machine();
    return grid == nullptr ? nullptr : hand_out(GpmLogOn<Grid>::open(*grid, path));
  }
  gpm_result close_log(gpmlog* log) {
    std::scoped_lock const lock(mutex_);
    auto const found = logs_.find(log);
    if (found == logs_.end()) return unknown("gpmlog_close", "a log that is open");
    Status const done = grid_->order();
    logs_.erase(found);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }
  gpm_result clear_log(gpmlog* log, int partition) {
    OpenLog* const open = find(log);
    if (open == nullptr) return unknown("gpmlog_clear", "a log that is open");
    Status const done = partition < 0 ? clear_all(*open) : open->log.clear(static_cast<std::uint64_t>(partition));
    return done.ok() ? GPM_OK : gpm_failed(done);
  }
  std::uint64_t overflows(gpmlog* log) {
    OpenLog* const open = find(log);
    if (open == nullptr) {
      unknown("gpmlog_overflows", "a log that is open");
      return 0;
    }
    auto const lost = open->log.overflows();
    if (!lost.ok()) gpm_failed(lost.status());
    return lost.ok() ? lost.value() : 0;
  }

  gpmcp* create_checkpoint(char const* path, std::size_t size, std::uint32_t elements, std::uint32_t groups) {
    Grid* const grid = machine();
    return grid == nullptr ? nullptr : hand_out(GpmCheckpointOn<Grid>::create(*grid, path, size, elements, groups));
  }
  gpmcp* open_checkpoint(char const* path) {
    Grid* const grid = machine();
    return grid == nullptr ? nullptr : hand_out(GpmCheckpointOn<Grid>::open(*grid, path));
  }
  gpm_result close_checkpoint(gpmcp* checkpoint) {
    std::scoped_lock const lock(mutex_);
    return checkpoints_.erase(checkpoint) == 1 ? GPM_OK : unknown("gpmcp_close", "a checkpoint that is open");
  }
  /// act(checkpoint) -> Status, on an open one.
  template <class F>
  gpm_result on(gpmcp* checkpoint, char const* call, F act) {
    GpmCheckpointOn<Grid>* open = nullptr;
    {
      std::scoped_lock const lock(mutex_);
      auto const found = checkpoints_.find(checkpoint);
      if (found != checkpoints_.end()) open = found->second.get();
    }
    if (open == nullptr) return unknown(call, "a checkpoint that is open");
    Status const done = act(*open);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }

 private:
  struct OpenLog {
    GpmLogOn<Grid> log;
    typename Grid::template Buffer<gpmlog> handle;
  };
  /// The machine, opened by the first call that needs it; null, with the reason, if there is none.
  Grid* machine() {
    std::scoped_lock const lock(mutex_);
    if (grid_ != nullptr) return grid_.get();
    auto opened = Grid::open();
    if (!opened.ok()) {
      gpm_failed(opened.status());
      return nullptr;
    }
    grid_ = std::move(opened).value();
    return grid_.get();
  }
  static void* none(Status const& status) {
    gpm_failed(status);
    return nullptr;
  }
  static gpm_result unknown(char const* call, char const* what) {
    gpm_last_error = std::string(call) + ": the pointer is not " + what;
    return GPM_FAILED;
  }

  gpmlog* hand_out(Result<GpmLogOn<Grid>> log) {
    if (!log.ok()) return static_cast<gpmlog*>(none(log.status()));
    auto open = std::make_unique<OpenLog>(OpenLog{std::move(log).value(), {}});
    if (Status s = open->handle.resize(1); !s.ok()) return static_cast<gpmlog*>(none(s));
    if (Status s = show(*open); !s.ok()) return static_cast<gpmlog*>(none(s));
    gpmlog* const handle = open->handle.data();
    std::scoped_lock const lock(mutex_);
    logs_.emplace(handle, std::move(open));
    return handle;
  }
  /// Kernels see the log as it is now.
  Status show(OpenLog& open) {
    gpmlog const now{open.log.view()};
    return grid_->send(open.handle.data(), &now, 1);
  }
  Status clear_all(OpenLog& open) {
    if (Status s = open.log.clear(); !s.ok()) return s;
    return show(open);
  }
  OpenLog* find(gpmlog* log) {
    std::scoped_lock const lock(mutex_);
    auto const found = logs_.find(log);
    return found == logs_.end() ? nullptr : found->second.get();
  }

  gpmcp* hand_out(Result<GpmCheckpointOn<Grid>> checkpoint) {
    if (!checkpoint.ok()) return static_cast<gpmcp*>(none(checkpoint.status()));
    auto open = std::make_unique<GpmCheckpointOn<Grid>>(std::move(checkpoint).value());
    auto* const handle = reinterpret_cast<gpmcp*>(open.get());  // never looked into
    std::scoped_lock const lock(mutex_);
    checkpoints_.emplace(handle, std::move(open));
    return handle;
  }

  std::mutex mutex_;  // guards the rest
  std::unique_ptr<Grid> grid_;
  std::map<std::byte*, GpmFile> files_;
  std::map<gpmlog*, std::unique_ptr<OpenLog>> logs_;
  std::map<gpmcp*, std::unique_ptr<GpmCheckpointOn<Grid>>> checkpoints_;
  std::string said_;
  std::uint64_t persisting_ = 0;  // begun, and not ended
};

}  // namespace perdure::log
