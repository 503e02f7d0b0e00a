// The baselines of GPHash's evaluation (section 4.1), rebuilt from the papers to be measured beside
// Perdure: the face that benchmarks and tests see. docs/benchmarks/baselines.md says what was
// rebuilt from where.
//
//   slabhash_gpm   lists of 128-byte slabs a bucket, one warp an operation, changes behind an undo
//                  log
//   clevel_gpm     levels of 8-byte slots, one thread an operation, compare-and-swap alone
//   cpu_assisted   keys go to the CPU, an index there answers, values come back to the GPU
//
// One batch at a time. Operations of a batch on one key take effect in any order, each whole: the
// papers promise no more. When a call returns, its effects are on the medium.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "perdure/batch.h"
#include "perdure/status.h"
#include "perdure/store.h"

namespace perdure::baselines {

enum class Design : std::uint8_t { slabhash_gpm, clevel_gpm, cpu_assisted };
/// Of the CPU: Perdure's own in layout word and of Dash, or a baseline rebuilt in baselines/cpu
/// (seph: simplified there).
enum class CpuIndex : std::uint8_t { word, dash_eh, dash_lh, clevel, seph };
/// slabhash-gpm, clevel-gpm, cpu-assisted; with another index than word cpu-assisted-dash-eh and so
/// on.
[[nodiscard]] std::string name(Design design, CpuIndex index = CpuIndex::word);

struct BaselineOptions {
  Design design = Design::slabhash_gpm;
  CpuIndex index = CpuIndex::word;  // of cpu_assisted
  Device device = Device::cpu;
  std::uint32_t key_bytes = 8;  // slabhash_gpm: 8 or 32
  std::uint32_t value_bytes = 128;
  std::uint64_t expected_records = 1 << 16;  // sizes the first table; it grows past it
  std::uint32_t threads = 0;  // CPU workers; 0 = one a core
  bool count_accesses = false;  // slower
};

struct BaselineStats {
  std::uint64_t records = 0;
  std::uint64_t slots = 0;  // 0 = the design does not say
  std::uint64_t growths = 0;
  // from a kernel's launch to its end, since the last reset; 0 where it is not told apart
  double kernel_seconds = 0;
  AccessCounts accesses;  // since the last reset, where they are counted
  std::string machine;
};

class Baseline {
 public:
  virtual ~Baseline() = default;

  /// Columns in host memory or, on a GPU, in its memory. `statuses` has one place a key. Values of
  /// absent keys are left undefined.
  virtual Status get(Column const& keys, MutableColumn const& values,
                     std::span<KeyStatus> statuses) = 0;
  /// Inserts, or replaces the value of a key that is there.
  virtual Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) = 0;
  /// Replaces values of keys that are there.
  virtual Status update(Column const& keys, Column const& values,
                        std::span<KeyStatus> statuses) = 0;
  virtual Status erase(Column const& keys, std::span<KeyStatus> statuses) = 0;

  [[nodiscard]] virtual BaselineStats stats() const = 0;
  virtual void reset_counts() = 0;
};

/// Makes the file `path`, which must not exist; it stays when the baseline goes.
Result<std::unique_ptr<Baseline>> create_baseline(std::string const& path,
                                                  BaselineOptions const& options);
/// Opens such a file again, as it was left or as a crash left it. Sizes and design are the file's
/// own, but that it is cpu_assisted has to be said: its file is its index's. Of clevel and seph
/// index and sizes have to be said, too.
Result<std::unique_ptr<Baseline>> attach_baseline(std::string const& path,
                                                  BaselineOptions const& options);
/// Perdure's store behind the baselines' face.
std::unique_ptr<Baseline> as_baseline(Store store);

}  // namespace perdure::baselines
