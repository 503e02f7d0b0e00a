// The explorer's disk, below the log and the checkpoints of a store: files of 4 KiB blocks under
// names, as values that are cheap to copy. What a run asks of it is recorded, request by request.
// Invariant: whatever a power cut may leave is what lasts, and of the rest any choice: of writes
// that were not synced any sectors, and of changes of names whose directory was not synced any of
// them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "wal/disk/disk.hpp"

namespace perdure::explore {

/// A block's bytes never change; null: zeros.
struct DiskBlock {
  std::shared_ptr<std::byte const[]> bytes;
  std::uint64_t hash = 0;
};
[[nodiscard]] DiskBlock make_block(std::byte const* bytes);

/// What lies on a disk.
struct DiskImage {
  static constexpr std::uint32_t kDirectory = ~0u;
  std::vector<std::vector<DiskBlock>> files;   // by number; one that no name leads to is gone
  std::map<std::string, std::uint32_t> names;  // whole paths: of files, or of directories
  [[nodiscard]] std::optional<std::uint32_t> find(std::string const& path) const;
  [[nodiscard]] std::uint64_t hash() const;
};

/// A request that changes something.
struct DiskEvent {
  enum class What : std::uint8_t {
    write,
    write_durably,
    sync,
    name,
    rename,
    remove,
    sync_directory
  };
  What what;
  std::uint32_t file = 0;             // or DiskImage::kDirectory
  std::uint64_t first_block = 0;      // of a write
  std::vector<DiskBlock> blocks = {};
  std::string name = {}, was = {};    // of a change of names; of sync_directory: the directory
  std::size_t oracle = 0;  // what a power cut while it is under way may leave; kept by the caller
};
void apply(DiskEvent const& event, DiskImage& image);

/// A disk in use by one store.
struct DiskRun {
  std::mutex mutex;  // guards the rest: the log's own thread waits for requests
  DiskImage now;
  std::vector<DiskEvent> events;
  std::size_t oracle = 0;
  bool dead = false;  // the power is off: every request fails
  std::uint64_t reads = 0;

  void record(DiskEvent event);  // the caller holds mutex
  void expect(std::size_t which) {
    std::lock_guard const lock(mutex);
    oracle = which;
  }
  void cut_power() {
    std::lock_guard const lock(mutex);
    dead = true;
  }
};

/// The disk that this thread's stores lie on.
inline thread_local DiskRun* disk_run = nullptr;
/// Puts the explorer's disk in place of the system's, for the whole program.
void use_simulated_disk();

/// What a power cut may leave at some point of a run, whose requests have happened up to there.
class Leftover {
 public:
  explicit Leftover(DiskImage before) : lasting_(std::move(before)) {}
  /// It is done. The event must outlive this.
  void happen(DiskEvent const& event);
  /// How many ways there are for each thing that is undecided; `under_way` may be null.
  [[nodiscard]] std::vector<std::uint8_t> ways(DiskEvent const* under_way) const;
  [[nodiscard]] DiskImage compose(DiskEvent const* under_way,
                                  std::vector<std::uint8_t> const& choices) const;

 private:
  struct Held {
    DiskEvent const* event;
    bool lasts;  // it is durable, but comes after one that may not be
  };
  DiskImage lasting_;
  std::vector<Held> writes_;  // in order
  std::vector<DiskEvent const*> names_;  // likewise
};

}  // namespace perdure::explore
