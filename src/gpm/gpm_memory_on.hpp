// A file of so many bytes on one of the paths of gpm_path.hpp: the memory that kernels write, and
// commit(), which makes what they wrote durable. Invariant: made_durable() counts what the host had
// to make durable as a whole, which is what write amplification compares (GPM table 4).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hooks.hpp"
#include "exec/grid.hpp"
#include "exec/workers.hpp"
#include "gpm/gpm_file.hpp"
#include "gpm/gpm_path.hpp"
#include "perdure/status.h"
#include "pm/flush.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::gpm {

template <class Grid>
class DurableMemory {
 public:
  struct Options {
    GpmPath path = GpmPath::gpm;
    bool create = true;  // replaces what was there
    std::uint32_t flush_threads = 0;  // of the CPU; 0 = all
  };

  static Result<DurableMemory> open(Grid& grid, std::string const& file, std::uint64_t bytes,
                                    Options const& options) {
    DurableMemory memory(grid, options);
    bool const mapped = options.path != GpmPath::cap_fs;
    auto opened = mapped ? GpmFile::map(file, bytes, options.create, Grid::kPinsPools)
                         : GpmFile::plain(file, bytes, options.create);
    if (!opened.ok()) return opened.status();
    memory.file_ = std::move(opened.value());
    if (stores_directly(options.path)) return Result<DurableMemory>(std::move(memory));
    if (Status s = memory.near_.resize(memory.file_.bytes()); !s.ok()) return s;
    if (Status s = memory.upload(); !s.ok()) return s;
    return Result<DurableMemory>(std::move(memory));
  }

  /// Where kernels read and write.
  [[nodiscard]] std::byte* data() const {
    return stores_directly(options_.path) ? file_.data() : near_.data();
  }
  [[nodiscard]] std::uint64_t bytes() const { return file_.bytes(); }
  [[nodiscard]] exec::Persist persist() const { return persist_on(options_.path); }
  [[nodiscard]] GpmPath path() const { return options_.path; }

  /// Kernels have written within [from, from + bytes): makes it durable, as far as they have not.
  Status commit(std::uint64_t from, std::uint64_t bytes) {
    if (Status s = grid_->order(); !s.ok()) return s;
    switch (options_.path) {
      case GpmPath::gpm:
      case GpmPath::gpm_eadr: return {};
      case GpmPath::ndp: break;
      case GpmPath::cap_mm:
      case GpmPath::cap_eadr:
        pm::will_write(file_.data() + from, bytes);
        if (Status s = grid_->fetch(file_.data() + from, near_.data() + from, bytes); !s.ok())
          return s;
        pm::wrote(file_.data() + from, bytes);
        break;
      case GpmPath::cap_fs: {
        bounce_.resize(bytes);
        if (Status s = grid_->fetch(bounce_.data(), near_.data() + from, bytes); !s.ok()) return s;
        if (Status s = file_.write_and_sync(from, bounce_.data(), bytes); !s.ok()) return s;
        break;
      }
    }
    bool const flushes = options_.path == GpmPath::ndp || options_.path == GpmPath::cap_mm;
    if (flushes && !mutated("gpm_commit_not_flushed"))
      pm::flush(*workers_, file_.data() + from, bytes);
    if (options_.path == GpmPath::cap_eadr && !mutated("gpm_commit_not_ordered")) pm::order();
    made_durable_ += bytes;
    return {};
  }
  /// Bytes that commit() had to make durable so far.
  [[nodiscard]] std::uint64_t made_durable() const { return made_durable_; }

 private:
  DurableMemory(Grid& grid, Options const& options)
      : grid_(&grid),
        options_(options),
        workers_(std::make_unique<exec::Workers>(
            options.flush_threads != 0 ? options.flush_threads : grid.host_threads())) {}
  /// What the file holds, into machine memory.
  Status upload() {
    if (options_.create) return grid_->fill(near_.data(), 0, file_.bytes());
    if (options_.path != GpmPath::cap_fs)
      return grid_->send(near_.data(), file_.data(), file_.bytes());
    bounce_.resize(file_.bytes());
    if (Status s = file_.read(0, bounce_.data(), bounce_.size()); !s.ok()) return s;
    return grid_->send(near_.data(), bounce_.data(), bounce_.size());
  }

  Grid* grid_;
  Options options_;
  std::unique_ptr<exec::Workers> workers_;
  GpmFile file_;
  typename Grid::template Buffer<std::byte> near_;
  std::vector<std::byte> bounce_;
  std::uint64_t made_durable_ = 0;
};

}  // namespace perdure::gpm
