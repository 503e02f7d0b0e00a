// Computational fluid dynamics (CFD): inviscid compressible flow, the Euler equations by finite
// volumes on an unstructured mesh (after Rodinia's description: flux through each cell's faces with
// artificial dissipation, three Runge-Kutta stages a step). Checkpoints the flow. GPM table 1: 0.2
// M cells, 5,000 iterations.
//
// Input: data/mesh-wing.metis.graph, three of it side by side at table 1's size: a real mesh's
// connectivity, for which normals are made up (GraphMesh); else a generated mesh of tetrahedra
// around a block.
//
// Invariant: what leaves a cell through a face enters the neighbour, for their normals are each
// other's negatives; so mass changes by what passed the far field, which is state of the run too,
// and is checked against it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cfd_mesh.hpp"

namespace perdure::bench::gpm {

/// Of a cell, each by volume; or what passes a face. `Real` is float in kernels, double in the
/// check.
template <class Real>
struct Flow {
  Real density, x, y, z, energy;  // x, y, z: momentum
};

inline constexpr double kGamma = 1.4;  // air's ratio of specific heats

template <class Real>
PERDURE_FN Real pressure_of(Flow<Real> const& w) {
  return Real(kGamma - 1) *
         (w.energy - Real(0.5) * (w.x * w.x + w.y * w.y + w.z * w.z) / w.density);
}

struct CfdStage {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;

  std::uint64_t cells;
  std::int32_t const* neighbour;
  float const* normal;
  float const* volume;
  Flow<float> far_field;
  float const* base;  // what the stage adds to
  float const* from;  // what fluxes are computed of
  float* to;  // may be `base`
  float*
      left;  // mass that left through the far field so far, a cell; null: this stage does not count
  float step;

  PERDURE_FN Flow<float> flow(float const* of, std::uint64_t i) const {
    return {of[i], of[cells + i], of[2 * cells + i], of[3 * cells + i], of[4 * cells + i]};
  }

  /// What a face's one side sends through it, and how fast waves are there, both times the face's
  /// size.
  struct Side {
    Flow<float> flux;
    float speed;
  };
  PERDURE_FN static Side side(Flow<float> const& w, float nx, float ny, float nz, float size) {
    float const through = (w.x * nx + w.y * ny + w.z * nz) / w.density;
    float const pressure = pressure_of(w);
    return {{w.density * through, w.x * through + pressure * nx, w.y * through + pressure * ny,
             w.z * through + pressure * nz, (w.energy + pressure) * through},
            fabsf(through) + sqrtf(float(kGamma) * pressure / w.density) * size};
  }
  /// Rusanov's flux: the sides' mean, and as much dissipation as the fastest wave needs.
  PERDURE_FN static Flow<float> between(Flow<float> const& here, Flow<float> const& there, float nx,
                                        float ny, float nz) {
    float const size = sqrtf(nx * nx + ny * ny + nz * nz);
    Side const a = side(here, nx, ny, nz, size), b = side(there, nx, ny, nz, size);
    float const speed = a.speed > b.speed ? a.speed : b.speed;
    auto const one = [speed](float f, float g, float w, float v) {
      return 0.5f * (f + g) - 0.5f * speed * (v - w);
    };
    return {one(a.flux.density, b.flux.density, here.density, there.density),
            one(a.flux.x, b.flux.x, here.x, there.x), one(a.flux.y, b.flux.y, here.y, there.y),
            one(a.flux.z, b.flux.z, here.z, there.z),
            one(a.flux.energy, b.flux.energy, here.energy, there.energy)};
  }

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < cells; i += thread.total()) advance(i);
  }
  PERDURE_FN void advance(std::uint64_t i) const {
    Flow<float> const here = flow(from, i);
    Flow<float> sum{0, 0, 0, 0, 0};
    float far = 0;
    for (std::uint32_t s = 0; s < kCellFaces; ++s) {
      std::int32_t const next = neighbour[s * cells + i];
      float const nx = normal[3 * s * cells + i], ny = normal[(3 * s + 1) * cells + i],
                  nz = normal[(3 * s + 2) * cells + i];
      if (next == kWall) {
        float const pressure = pressure_of(here);
        sum.x += pressure * nx;
        sum.y += pressure * ny;
        sum.z += pressure * nz;
        continue;
      }
      Flow<float> const flux = between(
          here, next == kFarField ? far_field : flow(from, static_cast<std::uint64_t>(next)), nx,
          ny, nz);
      sum.density += flux.density;
      sum.x += flux.x;
      sum.y += flux.y;
      sum.z += flux.z;
      sum.energy += flux.energy;
      if (next == kFarField) far += flux.density;
    }
    float const by = step / volume[i];
    to[i] = base[i] - by * sum.density;
    to[cells + i] = base[cells + i] - by * sum.x;
    to[2 * cells + i] = base[2 * cells + i] - by * sum.y;
    to[3 * cells + i] = base[3 * cells + i] - by * sum.z;
    to[4 * cells + i] = base[4 * cells + i] - by * sum.energy;
    if (left != nullptr) left[i] += step * far;
  }
};

/// Checks flows in double precision, face by face instead of cell by cell.
class CfdCheck {
 public:
  CfdCheck(CellMesh const& mesh, Flow<float> const& far_field)
      : mesh_(mesh),
        far_{far_field.density, far_field.x, far_field.y, far_field.z, far_field.energy} {}

  /// Finite, with density and pressure above zero.
  [[nodiscard]] bool possible(std::vector<float> const& flow) const {
    for (std::size_t i = 0; i < mesh_.cells; ++i) {
      Flow<double> const w = at(flow, i);
      double const p = pressure_of(w);
      if (!(w.density > 0 && p > 0 && std::isfinite(w.density) && std::isfinite(p))) return false;
    }
    return true;
  }
  /// How much of all mass is not accounted for: what was there at first, less what left, is there.
  [[nodiscard]] double mass_lost(std::vector<float> const& first, std::vector<float> const& now,
                                 std::vector<float> const& left) const {
    double all = 0, more = 0;
    for (std::size_t i = 0; i < mesh_.cells; ++i) {
      double const volume = mesh_.volume[i];
      all += volume * double{first[i]};
      more += volume * (double{now[i]} - double{first[i]}) + double{left[i]};
    }
    return std::fabs(more) / all;
  }
  /// The largest difference between `to` and what one stage makes of `from`, against the largest
  /// value.
  [[nodiscard]] double stage_error(std::vector<float> const& from, std::vector<float> const& to,
                                   double step) const {
    std::vector<double> change(5 * mesh_.cells);
    for (std::size_t i = 0; i < mesh_.cells; ++i)
      for (std::uint32_t s = 0; s < kCellFaces; ++s) pass(from, i, s, change);
    double worst = 0, largest = 0;
    for (std::size_t v = 0; v < from.size(); ++v) {
      double const is = double{from[v]} + step * change[v] / double{mesh_.volume[v % mesh_.cells]};
      worst = std::max(worst, std::fabs(is - double{to[v]}));
      largest = std::max(largest, std::fabs(is));
    }
    return worst / largest;
  }

 private:
  [[nodiscard]] Flow<double> at(std::vector<float> const& flow, std::size_t i) const {
    std::size_t const n = mesh_.cells;
    return {flow[i], flow[n + i], flow[2 * n + i], flow[3 * n + i], flow[4 * n + i]};
  }
  /// Each face once: from the cell with the lower number, to both.
  void pass(std::vector<float> const& from, std::size_t i, std::uint32_t s,
            std::vector<double>& change) const {
    std::int32_t const next = mesh_.neighbour[s * mesh_.cells + i];
    if (next >= 0 && static_cast<std::size_t>(next) < i) return;
    Vector3 const normal = mesh_.normal_of(i, s);
    Flow<double> const here = at(from, i);
    if (next == kWall) {
      for (std::uint32_t d = 0; d < 3; ++d)
        change[(1 + d) * mesh_.cells + i] -= pressure_of(here) * normal[d];
      return;
    }
    Flow<double> const there = next == kFarField ? far_ : at(from, static_cast<std::size_t>(next));
    double const speed = std::max(fastest(here, normal), fastest(there, normal));
    std::array<double, 5> const a = through(here, normal), b = through(there, normal);
    std::array<double, 5> const jump{there.density - here.density, there.x - here.x,
                                     there.y - here.y, there.z - here.z,
                                     there.energy - here.energy};
    for (std::uint32_t v = 0; v < 5; ++v) {
      double const flux = (a[v] + b[v] - speed * jump[v]) / 2;
      change[v * mesh_.cells + i] -= flux;
      if (next >= 0) change[v * mesh_.cells + static_cast<std::size_t>(next)] += flux;
    }
  }
  static double fastest(Flow<double> const& w, Vector3 const& normal) {
    return std::fabs(dot({w.x, w.y, w.z}, normal)) / w.density +
           std::sqrt(kGamma * pressure_of(w) / w.density) * length(normal);
  }
  static std::array<double, 5> through(Flow<double> const& w, Vector3 const& normal) {
    double const volume = dot({w.x, w.y, w.z}, normal) / w.density, p = pressure_of(w);
    return {w.density * volume, w.x * volume + p * normal[0], w.y * volume + p * normal[1],
            w.z * volume + p * normal[2], (w.energy + p) * volume};
  }

  CellMesh const& mesh_;
  Flow<double> far_;
};

/// Mach 0.6 along x, where sound's speed is 1.
[[nodiscard]] inline Flow<float> cfd_far_field() {
  constexpr double kDensity = 1.4, kPressure = 1.0, kSpeed = 0.6;
  return {float(kDensity), float(kDensity * kSpeed), 0, 0,
          float(kPressure / (kGamma - 1) + 0.5 * kDensity * kSpeed * kSpeed)};
}

/// The undisturbed flow, denser or thinner by up to a tenth from cell to cell, at the same speed
/// and temperature.
[[nodiscard]] inline std::vector<float> cfd_first_flow(std::size_t cells, Flow<float> const& far,
                                                       std::uint64_t seed) {
  std::vector<float> flow(5 * cells);
  float const all[5] = {far.density, far.x, far.y, far.z, far.energy};
  for (std::size_t i = 0; i < cells; ++i) {
    float const share = 0.9f + static_cast<float>(random_at(seed, i) % 1024) / 5120.0f;
    for (std::size_t v = 0; v < 5; ++v) flow[v * cells + i] = share * all[v];
  }
  return flow;
}

/// So short that a wave, half as fast again as the undisturbed flow's fastest, takes two steps and
/// more through any cell.
[[nodiscard]] inline float cfd_time_step(CellMesh const& mesh) {
  double shortest = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < mesh.cells; ++i) {
    double sizes = 0;
    for (std::uint32_t s = 0; s < kCellFaces; ++s) sizes += length(mesh.normal_of(i, s));
    shortest = std::min(shortest, double{mesh.volume[i]} / sizes);
  }
  return static_cast<float>(shortest / (1.5 * 1.6));
}

[[nodiscard]] inline CellMesh cfd_mesh(AppOptions const& options) {
  bool const paper = options.size == Size::paper;
  if (options.data.empty() || options.size == Size::tiny)
    return BoxMesh::make(options.size == Size::tiny ? 4 : paper ? 32 : 22);
  return GraphMesh::make(options.data + "/mesh-wing.metis.graph", paper ? 3 : 1, options.seed + 1);
}

template <class Grid>
AppReport run_cfd(Grid& grid, AppOptions const& options) {
  std::uint32_t const iterations = options.iterations != 0       ? options.iterations
                                   : options.size == Size::paper ? 5000
                                   : options.size == Size::small ? 200
                                                                 : 18;
  CellMesh const mesh = cfd_mesh(options);
  Flow<float> const far = cfd_far_field();
  std::vector<float> const first = cfd_first_flow(mesh.cells, far, options.seed);
  float const step = cfd_time_step(mesh);
  Array<Grid, std::int32_t> neighbour(grid, mesh.neighbour);
  Array<Grid, float> normal(grid, mesh.normal), volume(grid, mesh.volume);
  Array<Grid, float> flow(grid, first), one(grid, first.size()), two(grid, first.size()),
      left(grid, mesh.cells);
  left.fill(0);

  GridShape const shape = perdure::gpm::grid_of(mesh.cells, 128);
  auto const stage = [&](float const* from, float* to, float part, float* counts) {
    CfdStage const kernel{mesh.cells, neighbour.data(), normal.data(), volume.data(),
                          far,        flow.data(),      from,          to,
                          counts,     step * part};
    require(grid.launch(shape, kernel), "cfd");
  };
  // The last stage replaces the flow that all three add to: it reads of it only the cell that it
  // writes.
  AppReport report =
      iterate(grid, options, iterations, {{flow.data(), flow.bytes()}, {left.data(), left.bytes()}},
              [&](std::uint32_t) {
                stage(flow.data(), one.data(), 1.0f / 3.0f, nullptr);
                stage(one.data(), two.data(), 1.0f / 2.0f, nullptr);
                stage(two.data(), flow.data(), 1.0f, left.data());
              });
  report.operations = report.steps * 3 * mesh.cells;
  std::vector<float> const now = flow.get(), gone = left.get();
  CfdCheck const check(mesh, far);
  stage(flow.data(), one.data(), 1.0f, nullptr);  // one further, for the check alone
  double const error = check.stage_error(now, one.get(), double{step}),
               lost = check.mass_lost(first, now, gone);
  report.right = check.possible(now) && error < 1e-5 && lost < 1e-5;
  report.more = {
      {"cells", static_cast<double>(mesh.cells)}, {"stage_error", error}, {"mass_lost", lost}};
  report.digest = digest_of(gone, digest_of(now));
  return report;
}

}  // namespace perdure::bench::gpm
