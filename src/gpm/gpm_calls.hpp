// The host's calls of perdure/gpm.h and perdure/libgpm.cuh over one machine: what their pointers
// stand for, and the last error of each thread. Invariants: a pointer that was handed out stands
// for something until it is closed, and every call checks that it does; a call that touches what
// kernels may have written comes after all that were launched before it (Grid::follow()), and has
// ended when it returns; a child that was forked has calls of its own, which know none of its
// parent's pointers, and touches nothing of its parent's, its end included.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/process.hpp"
#include "exec/cuda/cuda_info.hpp"
#include "gpm/gpm_checkpoint_on.hpp"
#include "gpm/gpm_ddio.hpp"
#include "gpm/gpm_file.hpp"
#include "gpm/gpm_log_on.hpp"
#include "perdure/gpm_common.h"
#include "perdure/survival.h"
#include "pm/host_verbs.hpp"

#if !defined(__CUDACC__)
struct gpmlog {  // in builds without CUDA no kernel sees it
  perdure::gpm::GpmLogView view;
};
#endif

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

template <class Grid>
class GpmCalls {
 public:
  explicit GpmCalls(bool forked = false) : forked_(forked) {}
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

  void* map(char const* path, std::size_t size, bool create) {
    Grid* const grid = machine();
    if (grid == nullptr) return nullptr;
    auto file = GpmFile::map(gpm_file_name(path), size, create, Grid::kPinsPools);
    if (!file.ok()) return none(file.status());
    std::byte* const at = file->data();
    std::scoped_lock const lock(mutex_);
    files_.insert_or_assign(at, std::move(file.value()));
    return at;
  }
  gpm_result unmap(void* address, gpm_stream stream) {
    std::scoped_lock const lock(mutex_);
    auto const found = files_.find(static_cast<std::byte*>(address));
    if (found == files_.end()) return unknown("gpm_unmap", "an address of gpm_map");
    Status const done = after_kernels(stream);
    files_.erase(found);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }
  std::size_t mapped_bytes(void const* address) {
    std::scoped_lock const lock(mutex_);
    auto const found = files_.find(static_cast<std::byte*>(const_cast<void*>(address)));
    return found == files_.end() ? 0 : found->second.bytes();
  }
  gpm_result write(void* to, void const* from, std::size_t size, gpm_stream stream) {
    return moved("gpm_write", to, size, stream, [&] {
      auto* const at = static_cast<std::byte*>(to);
      return grid_->copy(at, static_cast<std::byte const*>(from), size);
    });
  }
  gpm_result fill(void* to, int byte, std::size_t size, gpm_stream stream) {
    return moved("gpm_fill", to, size, stream,
                 [&] { return grid_->fill(static_cast<std::byte*>(to), byte, size); });
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
      gpm_tell(
          "gpm_persist_end: there was no gpm_persist_begin; call it before the kernels that "
          "persist");
      return GPM_FAILED;
    }
    --persisting_;
    return GPM_OK;
  }

  gpmlog* create_log(char const* path, std::size_t size, GpmLogGeometry const& geometry) {
    Grid* const grid = machine();
    return grid == nullptr
               ? nullptr
               : hand_out(GpmLogOn<Grid>::create(*grid, gpm_file_name(path), size, geometry));
  }
  gpmlog* open_log(char const* path) {
    Grid* const grid = machine();
    return grid == nullptr ? nullptr : hand_out(GpmLogOn<Grid>::open(*grid, gpm_file_name(path)));
  }
  gpm_result close_log(gpmlog* log, gpm_stream stream) {
    std::scoped_lock const lock(mutex_);
    auto const found = logs_.find(log);
    if (found == logs_.end()) return unknown("gpmlog_close", "a log that is open");
    Status const ended = after_kernels(stream);
    Status const done =
        ended.ok() && gpm_published().tells ? tell_overflows(found->second->log) : ended;
    logs_.erase(found);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }
  gpm_result clear_log(gpmlog* log, int partition, gpm_stream stream) {
    return static_cast<gpm_result>(
        of_log(log, "gpmlog_clear", stream, [&](OpenLog& open) -> Result<std::uint64_t> {
          Status const done =
              partition == -1 ? clear_all(open) : open.log.clear(numbered(partition));
          if (!done.ok()) return done;
          return std::uint64_t{GPM_OK};
        }));
  }
  /// Below 0, as the next two: a gpm_result.
  long long size_of_log(gpmlog* log, int partition, gpm_stream stream) {
    return of_log(log, "gpmlog_size", stream, [&](OpenLog& open) {
      return partition == -1 ? open.log.size() : open.log.size(numbered(partition));
    });
  }
  long long overflows(gpmlog* log, gpm_stream stream) {
    return of_log(log, "gpmlog_overflows", stream,
                  [](OpenLog& open) { return open.log.overflows(); });
  }
  long long partitions(gpmlog* log) {
    OpenLog const* const open = find(log);
    if (open == nullptr) return unknown("gpmlog_partitions", "a log that is open");
    return static_cast<long long>(open->log.file().header().partitions);
  }

  gpmcp* create_checkpoint(char const* path, std::size_t size, std::uint32_t elements,
                           std::uint32_t groups, std::uint32_t spare) {
    Grid* const grid = machine();
    typename GpmCheckpointOn<Grid>::Options options;
    options.spare = spare;
    return grid == nullptr ? nullptr
                           : hand_out(GpmCheckpointOn<Grid>::create(
                                 *grid, gpm_file_name(path), size, elements, groups, options));
  }
  gpmcp* open_checkpoint(char const* path) {
    Grid* const grid = machine();
    return grid == nullptr ? nullptr
                           : hand_out(GpmCheckpointOn<Grid>::open(*grid, gpm_file_name(path)));
  }
  gpm_result close_checkpoint(gpmcp* checkpoint) {
    std::scoped_lock const lock(mutex_);
    return checkpoints_.erase(checkpoint) == 1
               ? GPM_OK
               : unknown("gpmcp_close", "a checkpoint that is open");
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
    if (open == nullptr) return unknown(call, "a checkpoint that is open");
    if (Status s = grid_->follow(stream); !s.ok()) return gpm_failed(s);
    Status const done = act(*open);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }

  GpmCalls* aside = nullptr;  // put_aside()

 private:
  struct OpenLog {
    GpmLogOn<Grid> log;
    typename Grid::template Buffer<gpmlog> handle;
  };
  /// The machine, opened by the first call that needs it; null, with the reason, if there is none.
  Grid* machine() {
    std::scoped_lock const lock(mutex_);
    if (grid_ != nullptr) return grid_.get();
    if (Status const ours = Grid::kPinsPools ? exec::claim_gpu() : Status{}; !ours.ok()) {
      gpm_failed(ours);
      return nullptr;
    }
    auto opened = Grid::open();
    if (!opened.ok()) {
      gpm_failed(opened.status());
      return nullptr;
    }
    grid_ = std::move(opened).value();
    return grid_.get();
  }
  /// All kernels that were launched have ended.
  Status after_kernels(gpm_stream stream) {
    if (Status s = grid_->follow(stream); !s.ok()) return s;
    return grid_->order();
  }
  static Status tell_overflows(GpmLogOn<Grid>& log) {
    auto const lost = log.overflows();
    if (lost.ok() && lost.value() != 0)
      gpm_tell("log " + log.file().path() + ": " + std::to_string(lost.value()) +
               " entries found no room");
    return lost.status();
  }
  /// Others below 0 than -1 are no partition.
  static std::uint64_t numbered(int partition) {
    return partition < 0 ? ~std::uint64_t{0} : static_cast<std::uint64_t>(partition);
  }
  /// act(log) -> a number, of an open one, after the kernels that were launched.
  template <class F>
  long long of_log(gpmlog* log, char const* call, gpm_stream stream, F act) {
    OpenLog* const open = find(log);
    if (open == nullptr) return unknown(call, "a log that is open");
    if (Status s = grid_->follow(stream); !s.ok()) return gpm_failed(s);
    Result<std::uint64_t> const answer = act(*open);
    if (!answer.ok()) return gpm_failed(answer.status());
    return static_cast<long long>(answer.value());
  }
  /// act() -> Status, which changes [at, at + size) of a mapped file, after the kernels that were
  /// launched.
  template <class F>
  gpm_result moved(char const* call, void* at, std::size_t size, gpm_stream stream, F act) {
    if (!within_a_file(static_cast<std::byte*>(at), size))
      return unknown(call, "within what gpm_map mapped");
    if (Status s = grid_->follow(stream); !s.ok()) return gpm_failed(s);
    pm::will_write(at, size);
    Status const began = act();
    Status const done = began.ok() ? grid_->order() : began;
    pm::wrote(at, size);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }
  bool within_a_file(std::byte* at, std::size_t size) {
    std::scoped_lock const lock(mutex_);
    auto next = files_.upper_bound(at);
    if (next == files_.begin()) return false;
    auto const& [begin, file] = *--next;
    auto const from = static_cast<std::size_t>(at - begin);
    return from <= file.bytes() && size <= file.bytes() - from;
  }
  static void* none(Status const& status) {
    gpm_failed(status);
    return nullptr;
  }
  gpm_result unknown(char const* call, char const* what) const {
    gpm_tell(std::string(call) + ": the pointer is not " + what +
             (forked_ ? "; what a process has open stays its own when it forks another: open it "
                        "again in this process, "
                        "when it is closed there"
                      : ""));
    return GPM_FAILED;
  }
  static void close_at_exit() {
    GpmCalls* const found = current().exchange(nullptr);
    if (found != nullptr && found->process_ == this_process()) delete found;
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

  /// Initialised before any code runs, so that no lock of its making can be inherited. (As a member
  /// nvcc takes its type for incomplete.)
  static std::atomic<GpmCalls*>& current() {
    static constinit std::atomic<GpmCalls*> calls{nullptr};
    return calls;
  }

  std::uint64_t const process_ = this_process();
  bool const forked_;  // from one that had calls, too
  std::mutex mutex_;  // guards the rest
  std::unique_ptr<Grid> grid_;
  std::map<std::byte*, GpmFile> files_;
  std::map<gpmlog*, std::unique_ptr<OpenLog>> logs_;
  std::map<gpmcp*, std::unique_ptr<GpmCheckpointOn<Grid>>> checkpoints_;
  std::string said_;
  std::uint64_t persisting_ = 0;  // begun, and not ended
};

}  // namespace perdure::gpm
