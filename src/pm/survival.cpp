// What survives what, by medium. The basis is `declared`: these are properties that the operating
// system documents of the medium, not measurements.
#include "perdure/survival.h"

namespace perdure {

Survival survives(Medium medium) {
  Survival s;
  s.basis = Basis::declared;
  s.kernel_abort = true;
  s.gpu_reset = true;
  // A memfd has no name: it goes with its last process. Page-cache files keep their pages after a
  // kill; what a crash of the OS leaves of them is in any order, so it is not claimed.
  s.process_kill = medium != Medium::memfd;
  return s;
}

std::string name(Medium medium) {
  switch (medium) {
    case Medium::tmpfs: return "tmpfs";
    case Medium::hugetlbfs: return "hugetlbfs";
    case Medium::memfd: return "memfd";
    case Medium::file: return "file";
  }
  return "unknown";
}

std::string Survival::describe() const {
  std::string text;
  auto const add = [&](bool yes, char const* what) {
    if (!yes) return;
    if (!text.empty()) text += ", ";
    text += what;
  };
  add(kernel_abort, "kernel abort");
  add(process_kill, "process kill");
  add(gpu_reset, "GPU reset");
  add(os_crash, "OS crash");
  add(power_loss, "power loss");
  if (text.empty()) return "nothing";
  switch (basis) {
    case Basis::none: break;
    case Basis::declared: text += " (declared)"; break;
    case Basis::asserted: text += " (asserted)"; break;
    case Basis::emulated: text += " (emulated)"; break;
  }
  return text;
}

}  // namespace perdure
