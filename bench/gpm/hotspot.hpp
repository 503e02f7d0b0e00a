// Hotspot (HS): the temperature of a chip over time, from the power that its parts take (after Rodinia's description:
// explicit steps of a five-point stencil). Checkpoints the temperatures. GPM table 1: 16K x 16K cells, 4,000 steps.
// Input: data/hotspot_temp_512 and hotspot_power_512, repeated side by side for larger grids; else generated.
#pragma once

#include <algorithm>
#include <fstream>

#include "iterate.hpp"

namespace perdure::bench::gpm {

struct HotspotStep {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  static constexpr float kAmbient = 80.0f;

  float const* from;
  float const* power;
  float* to;
  std::uint32_t side;
  float cap, rx, ry, rz;  // step over capacitance; 1 over thermal resistances

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    std::uint64_t const cells = std::uint64_t{side} * side;
    for (std::uint64_t i = thread.global(); i < cells; i += thread.total()) {
      auto const x = static_cast<std::uint32_t>(i % side), y = static_cast<std::uint32_t>(i / side);
      float const here = from[i];
      float const west = x > 0 ? from[i - 1] : here, east = x + 1 < side ? from[i + 1] : here;
      float const north = y > 0 ? from[i - side] : here, south = y + 1 < side ? from[i + side] : here;
      to[i] = here + cap * (power[i] + (south + north - 2.0f * here) * ry + (east + west - 2.0f * here) * rx +
                            (kAmbient - here) * rz);
    }
  }
};

/// One number a line, `side` squared of them; repeated where the grid is larger.
[[nodiscard]] inline std::vector<float> hotspot_input(std::string const& file, std::uint32_t side) {
  constexpr std::uint32_t kFileSide = 512;
  std::ifstream in(file);
  std::vector<float> once(std::size_t{kFileSide} * kFileSide);
  for (float& value : once) in >> value;
  if (!in) throw Failure("hotspot: " + file + " does not hold 512 x 512 numbers, one a line");
  std::vector<float> all(std::size_t{side} * side);
  for (std::uint32_t y = 0; y < side; ++y)
    for (std::uint32_t x = 0; x < side; ++x)
      all[std::size_t{y} * side + x] = once[std::size_t{y % kFileSide} * kFileSide + x % kFileSide];
  return all;
}

template <class Grid>
AppReport run_hotspot(Grid& grid, AppOptions const& options) {
  std::uint32_t const side = options.size == Size::tiny ? 16 : options.size == Size::small ? 512 : 16384;
  std::uint32_t const steps = options.iterations != 0       ? options.iterations
                              : options.size == Size::paper ? 4000
                              : options.size == Size::small ? 200
                                                            : 12;
  std::size_t const cells = std::size_t{side} * side;
  std::vector<float> temperature(cells), power(cells);
  if (options.data.empty()) {
    for (std::size_t i = 0; i < cells; ++i) {
      temperature[i] = 323.0f + static_cast<float>(random_at(options.seed, i) % 1024) / 128.0f;
      power[i] = static_cast<float>(random_at(options.seed + 1, i) % 1024) / 1e5f;
    }
  } else {
    temperature = hotspot_input(options.data + "/hotspot_temp_512", side);
    power = hotspot_input(options.data + "/hotspot_power_512", side);
  }
  Array<Grid, float> now(grid, temperature), watts(grid, power), next(grid, cells);

  // Rodinia's chip: 16 mm square, 0.5 mm thick.
  float const edge = 0.016f / static_cast<float>(side), thick = 0.0005f;
  float const capacitance = 0.5f * 1.75e6f * thick * edge * edge;
  float const resistance_x = edge / (2.0f * 100.0f * thick * edge), resistance_z = thick / (100.0f * edge * edge);
  float const step_s = 0.001f / (3.0e6f / (0.5f * thick * 1.75e6f));
  HotspotStep kernel{nullptr,
                     watts.data(),
                     nullptr,
                     side,
                     step_s / capacitance,
                     1.0f / resistance_x,
                     1.0f / resistance_x,
                     1.0f / resistance_z};
  GridShape const shape = perdure::gpm::grid_of(std::min<std::size_t>(cells, std::size_t{1} << 22), 256);
  // One array holds the temperatures between iterations, whichever they are: two steps an iteration.
  AppReport report = iterate(grid, options, steps, {{now.data(), now.bytes()}}, [&](std::uint32_t) {
    for (auto const& [from, to] : {std::pair{now.data(), next.data()}, {next.data(), now.data()}}) {
      kernel.from = from;
      kernel.to = to;
      require(grid.launch(shape, kernel), "hotspot");
    }
  });
  report.operations = report.steps * 2 * cells;
  report.digest = digest_of(now.get());
  return report;
}

}  // namespace perdure::bench::gpm
