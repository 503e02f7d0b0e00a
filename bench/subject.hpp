// What the comparison of peers measures: Perdure's layouts and the peers behind one face. On a GPU a call
// may have its arrays in host memory or in the GPU's.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perdure/store.h"

namespace perdure::bench {

struct SubjectOptions {
  Device device = Device::cpu;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  std::uint64_t expected_records = 0;
  std::uint32_t threads = 0;
  bool verify_reads = true;  // Perdure's layouts; the peers have no checksums
  bool count_accesses = false;
};

class Subject {
 public:
  virtual ~Subject() = default;
  virtual Status get(Column const& keys, MutableColumn const& values, std::span<KeyStatus> statuses) = 0;
  virtual Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) = 0;
  virtual Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) = 0;
  virtual Status erase(Column const& keys, std::span<KeyStatus> statuses) = 0;

  /// Kernels alone, since the last reset; nothing where they cannot be told from the rest of a call.
  [[nodiscard]] virtual std::optional<double> kernel_seconds() const = 0;
  [[nodiscard]] virtual AccessCounts accesses() const = 0;
  [[nodiscard]] virtual double load_factor() const = 0;
  [[nodiscard]] virtual std::string machine() const = 0;
  virtual void reset_counts() = 0;
};

/// slabhash-gpm, clevel-gpm, cpu-assisted, in_place, word.
[[nodiscard]] std::vector<std::string> const& subject_names();
/// Over a new file at `path`. Throws Failure.
[[nodiscard]] std::unique_ptr<Subject> make_subject(std::string const& name, std::string const& path,
                                                    SubjectOptions const& options);

}  // namespace perdure::bench
