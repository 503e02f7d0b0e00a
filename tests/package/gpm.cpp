// An installed package's libGPM on the host's threads: counters that are logged before they change,
// and undone.
#include <perdure/gpm.hpp>

#include <cstdio>
#include <string>

namespace gpm = perdure::gpm;

struct Add {
  static constexpr int kPhases = 1;
  using Shared = gpm::NoShared;
  using State = gpm::NoState;
  gpm::LogView log;
  std::uint64_t* counters;
  bool undo;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    std::uint64_t* const mine = &counters[thread.global()];
    std::uint64_t old = *mine;
    if (undo) {
      if (gpm::read(thread, log, &old, sizeof old) == gpm::LogError::none) thread.store(mine, old);
      thread.persist();
      gpm::remove(thread, log, sizeof old);
    } else {
      gpm::insert(thread, log, &old, sizeof old);
      thread.store(mine, old + 1);
      thread.persist();
    }
  }
};

int main(int argc, char** argv) {
  std::string const name = argc > 1 ? argv[1] : "/dev/shm/perdure-package-gpm";
  gpm::GridShape const shape{4, 64};
  gpm::Cpu grid(2);
  auto counters = gpm::Memory<gpm::Cpu>::open(grid, name + ".counters", 4 * 64 * 8, {});
  auto log = gpm::Log<gpm::Cpu>::create(grid, name + ".log", 1 << 16,
                                        {gpm::LogKind::hcl, shape.blocks, shape.threads});
  if (!counters.ok() || !log.ok()) return 1;
  auto* const words = reinterpret_cast<std::uint64_t*>(counters->data());
  std::uint64_t sum = 0;
  for (bool const undo : {false, true, false}) {
    if (!grid.launch(shape, Add{log->view(), words, undo}).ok()) return 1;
  }
  for (std::uint64_t i = 0; i < shape.blocks * shape.threads; ++i) sum += words[i];
  for (char const* file : {".counters", ".log"}) std::remove((name + file).c_str());
  return sum == shape.blocks * shape.threads ? 0 : 1;
}
