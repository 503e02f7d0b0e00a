// The applications on the host's threads.
#include "apps.hpp"

namespace perdure::bench::gpm {

std::vector<std::pair<std::string, std::string>> app_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (auto const& app : kApps<perdure::gpm::Cpu>) names.emplace_back(app.name, app.kind);
  return names;
}

std::vector<std::pair<std::string, std::string>> micro_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (auto const& micro : kMicros<perdure::gpm::Cpu>) names.emplace_back(micro.name, micro.what);
  return names;
}

Machine open_cpu(std::uint32_t threads) {
  auto grid = std::make_shared<perdure::gpm::Cpu>(threads);
  return {grid->describe(),
          [grid](std::string const& app, AppOptions const& options) {
            return run_counted(*grid, app, options);
          },
          [grid](std::string const& name, MicroOptions const& options) {
            return run_micro(*grid, name, options);
          }};
}

}  // namespace perdure::bench::gpm
