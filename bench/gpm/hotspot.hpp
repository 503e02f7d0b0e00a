// Hotspot (HS): the temperature of a chip over time, from the power that its parts take (after
// Rodinia's description: explicit steps of a five-point stencil). Checkpoints the temperatures. GPM
// table 1: 16K x 16K cells, 4,000 steps. Input: data/hotspot_temp_512 and hotspot_power_512,
// repeated side by side for larger grids; else generated.
//
// Rodinia's step of time does for its grids. The scheme is stable while a cell exchanges no more
// than all it has in a step, which on the paper's grid is a 140th of Rodinia's: finer grids take
// steps of half of that. The result is checked at every size: its mean against the one that follows
// from the inputs alone, for what parts of the chip exchange sums to zero; the last iteration of
// the run, all cells, against a plain loop; and, where that is soon done, all iterations.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
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
      float const north = y > 0 ? from[i - side] : here,
                  south = y + 1 < side ? from[i + side] : here;
      to[i] = here + cap * (power[i] + (south + north - 2.0f * here) * ry +
                            (east + west - 2.0f * here) * rx + (kAmbient - here) * rz);
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

/// What one step of time does, in numbers of the grid's.
struct HotspotScheme {
  std::uint32_t side;
  float cap, rx, ry, rz;

  static HotspotScheme of(std::uint32_t side) {
    // Rodinia's chip: 16 mm square, 0.5 mm thick.
    float const edge = 0.016f / static_cast<float>(side), thick = 0.0005f;
    float const capacitance = 0.5f * 1.75e6f * thick * edge * edge;
    float const resistance_x = edge / (2.0f * 100.0f * thick * edge),
                resistance_z = thick / (100.0f * edge * edge);
    float const step_s = 0.001f / (3.0e6f / (0.5f * thick * 1.75e6f));
    // with four neighbours, and the outside
    float const exchanged = 4.0f / resistance_x + 1.0f / resistance_z;
    return {side, std::min(step_s / capacitance, 0.5f / exchanged), 1.0f / resistance_x,
            1.0f / resistance_x, 1.0f / resistance_z};
  }
};

/// The same by a plain loop of the host's, row by row, and what must come out.
class HotspotCheck {
 public:
  HotspotCheck(HotspotScheme const& scheme, std::vector<float> const& power, std::uint32_t threads)
      : scheme_(scheme), power_(power), workers_(threads) {}

  /// Kelvin that rounding may come to in so many steps: half a unit in the last place of each, of
  /// 300 to 400 K, and as much again for the order in which a machine adds.
  static double tolerance(std::uint64_t steps) {
    return static_cast<double>(steps + 4) * 2 * 0x1p-16;
  }

  /// Whether the mean is the one that follows from the first temperatures.
  [[nodiscard]] bool mean_right(std::vector<float> const& first, std::vector<float> const& last,
                                std::uint64_t steps) {
    double mean = mean_of(first);
    double const power = mean_of(power_);
    for (std::uint64_t i = 0; i < steps; ++i)
      mean += double{scheme_.cap} *
              (power + (double{HotspotStep::kAmbient} - mean) * double{scheme_.rz});
    return std::abs(mean_of(last) - mean) <= tolerance(steps);  // false of no number
  }
  /// Whether so many steps lead from one to the other.
  [[nodiscard]] bool leads(std::vector<float> from, std::vector<float> const& to,
                           std::uint64_t steps) {
    std::vector<float> next(from.size());
    for (std::uint64_t i = 0; i < steps; ++i, std::swap(from, next)) step(from, next);
    std::atomic<bool> right = true;
    workers_.for_chunks(from.size(), 1 << 16, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        if (!(std::abs(double{from[i]} - double{to[i]}) <= tolerance(steps))) right = false;
    });
    return right;
  }

 private:
  [[nodiscard]] static double mean_of(std::vector<float> const& values) {
    double sum = 0;
    for (float const value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  void step(std::vector<float> const& from, std::vector<float>& to) {
    std::size_t const side = scheme_.side;
    workers_.for_chunks(side, 16, [&](std::size_t begin, std::size_t end) {
      for (std::size_t y = begin; y < end; ++y) {
        std::size_t const above = y == 0 ? y : y - 1, below = y + 1 == side ? y : y + 1;
        for (std::size_t x = 0; x < side; ++x) {
          std::size_t const left = x == 0 ? x : x - 1, right = x + 1 == side ? x : x + 1;
          float const here = from[y * side + x];
          float const along = from[y * side + left] + from[y * side + right] - 2 * here;
          float const across = from[above * side + x] + from[below * side + x] - 2 * here;
          float const out = (HotspotStep::kAmbient - here) * scheme_.rz;
          to[y * side + x] = here + scheme_.cap * (power_[y * side + x] + across * scheme_.ry +
                                                   along * scheme_.rx + out);
        }
      }
    });
  }

  HotspotScheme scheme_;
  std::vector<float> const& power_;
  perdure::exec::Workers workers_;
};

template <class Grid>
AppReport run_hotspot(Grid& grid, AppOptions const& options) {
  std::uint32_t const side = options.size == Size::tiny    ? 16
                             : options.size == Size::small ? 512
                                                           : 16384;
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
  Array<Grid, float> now(grid, temperature), watts(grid, power), next(grid, cells),
      before_last(grid, cells);
  HotspotScheme const scheme = HotspotScheme::of(side);
  HotspotStep kernel{nullptr,    watts.data(), nullptr,   side,
                     scheme.cap, scheme.rx,    scheme.ry, scheme.rz};
  GridShape const shape =
      perdure::gpm::grid_of(std::min<std::size_t>(cells, std::size_t{1} << 22), 256);
  // One array holds the temperatures between iterations, whichever they are: two steps an
  // iteration.
  AppReport report =
      iterate(grid, options, steps, {{now.data(), now.bytes()}}, [&](std::uint32_t i) {
        if (i + 1 == steps) require(grid.copy(before_last.data(), now.data(), cells), "hotspot");
        for (auto const& [from, to] :
             {std::pair{now.data(), next.data()}, {next.data(), now.data()}}) {
          kernel.from = from;
          kernel.to = to;
          require(grid.launch(shape, kernel), "hotspot");
        }
      });
  report.operations = report.steps * 2 * cells;
  std::vector<float> const result = now.get();
  report.digest = digest_of(result);
  HotspotCheck check(scheme, power, grid.host_threads());
  std::uint64_t const taken = 2 * (report.began_at + report.steps);
  report.right = check.mean_right(temperature, result, taken);
  if (report.steps != 0) report.right = check.leads(before_last.get(), result, 2) && report.right;
  constexpr std::uint64_t kSoonDone = std::uint64_t{1} << 28;  // cells, over all steps
  if (cells * taken <= kSoonDone)
    report.right = check.leads(temperature, result, taken) && report.right;
  return report;
}

}  // namespace perdure::bench::gpm
