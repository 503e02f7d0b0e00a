// The logs that one process has open, by the handle that kernels are given. Invariant: as GpmCalls
// has it; a handle shows kernels the log as it is now.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "gpm/gpm_log_on.hpp"
#include "gpm/gpm_machine.hpp"

#if !defined(__CUDACC__)
struct gpmlog {  // in builds without CUDA no kernel sees it
  perdure::gpm::GpmLogView view;
};
#endif

namespace perdure::gpm {

template <class Grid>
class GpmOpenLogs {
 public:
  explicit GpmOpenLogs(GpmMachine<Grid>& machine) : machine_(machine) {}

  gpmlog* create(char const* path, std::size_t size, GpmLogGeometry const& geometry) {
    Grid* const grid = machine_.opened();
    return grid == nullptr
               ? nullptr
               : hand_out(GpmLogOn<Grid>::create(*grid, gpm_file_name(path), size, geometry));
  }
  gpmlog* open(char const* path) {
    Grid* const grid = machine_.opened();
    return grid == nullptr ? nullptr : hand_out(GpmLogOn<Grid>::open(*grid, gpm_file_name(path)));
  }
  gpm_result close(gpmlog* log, gpm_stream stream) {
    std::scoped_lock const lock(mutex_);
    auto const found = logs_.find(log);
    if (found == logs_.end()) return machine_.unknown("gpmlog_close", "a log that is open");
    Status const ended = machine_.after_kernels(stream);
    Status const done =
        ended.ok() && gpm_published().tells ? tell_overflows(found->second->log) : ended;
    logs_.erase(found);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }
  gpm_result clear(gpmlog* log, int partition, gpm_stream stream) {
    return static_cast<gpm_result>(
        on(log, "gpmlog_clear", stream, [&](OpenLog& open) -> Result<std::uint64_t> {
          Status const done =
              partition == -1 ? clear_all(open) : open.log.clear(numbered(partition));
          if (!done.ok()) return done;
          return std::uint64_t{GPM_OK};
        }));
  }
  /// Below 0, as the next two: a gpm_result.
  long long size(gpmlog* log, int partition, gpm_stream stream) {
    return on(log, "gpmlog_size", stream, [&](OpenLog& open) {
      return partition == -1 ? open.log.size() : open.log.size(numbered(partition));
    });
  }
  long long overflows(gpmlog* log, gpm_stream stream) {
    return on(log, "gpmlog_overflows", stream, [](OpenLog& open) { return open.log.overflows(); });
  }
  long long partitions(gpmlog* log) {
    OpenLog const* const open = find(log);
    if (open == nullptr) return machine_.unknown("gpmlog_partitions", "a log that is open");
    return static_cast<long long>(open->log.file().header().partitions);
  }

 private:
  struct OpenLog {
    GpmLogOn<Grid> log;
    typename Grid::template Buffer<gpmlog> handle;
  };
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
  long long on(gpmlog* log, char const* call, gpm_stream stream, F act) {
    OpenLog* const open = find(log);
    if (open == nullptr) return machine_.unknown(call, "a log that is open");
    if (Status s = machine_.grid().follow(stream); !s.ok()) return gpm_failed(s);
    Result<std::uint64_t> const answer = act(*open);
    if (!answer.ok()) return gpm_failed(answer.status());
    return static_cast<long long>(answer.value());
  }
  gpmlog* hand_out(Result<GpmLogOn<Grid>> log) {
    if (!log.ok()) return gpm_none(log.status());
    auto open = std::make_unique<OpenLog>(OpenLog{std::move(log).value(), {}});
    if (Status s = open->handle.resize(1); !s.ok()) return gpm_none(s);
    if (Status s = show(*open); !s.ok()) return gpm_none(s);
    gpmlog* const handle = open->handle.data();
    std::scoped_lock const lock(mutex_);
    logs_.emplace(handle, std::move(open));
    return handle;
  }
  /// Kernels see the log as it is now.
  Status show(OpenLog& open) {
    gpmlog const now{open.log.view()};
    return machine_.grid().send(open.handle.data(), &now, 1);
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

  GpmMachine<Grid>& machine_;
  std::mutex mutex_;  // guards the rest
  std::map<gpmlog*, std::unique_ptr<OpenLog>> logs_;
};

}  // namespace perdure::gpm
