// What survives what. A store never says "persistent": it reports a set of events its acknowledged
// operations outlive, and on whose word.
#pragma once

#include <cstdint>
#include <string>

#include "perdure/export.h"

namespace perdure {

enum class Event : std::uint8_t { kernel_abort, process_kill, gpu_reset, os_crash, power_loss };
enum class Basis : std::uint8_t {
  none,
  declared,
  asserted,
  emulated
};  // by the platform, by the user, by an emulator
enum class Medium : std::uint8_t { tmpfs, hugetlbfs, memfd, file };
enum class Durability : std::uint8_t { none, process, power };

struct PERDURE_API Survival {
  bool kernel_abort = false;
  bool process_kill = false;
  bool gpu_reset = false;
  bool os_crash = false;
  bool power_loss = false;
  Basis basis = Basis::none;

  /// For example "kernel abort, process kill, GPU reset (declared)".
  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] PERDURE_API Survival survives(Medium medium);
[[nodiscard]] PERDURE_API std::string name(Medium medium);

}  // namespace perdure
