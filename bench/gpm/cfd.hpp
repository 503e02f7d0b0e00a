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
#include <fstream>
#include <limits>
#include <sstream>
#include <tuple>

#include "iterate.hpp"

namespace perdure::bench::gpm {

// four neighbours, or less, and what closes the cell
inline constexpr std::uint32_t kCellFaces = 5;
inline constexpr std::int32_t kWall = -1;  // instead of a neighbour: nothing passes
inline constexpr std::int32_t kFarField = -2;  // the undisturbed flow

/// Cell i's face s is at [s * cells + i], and its normal's component d at [(3 s + d) * cells + i]:
/// pointing outwards, as long as the face is large. Unused faces are far field of no size.
struct CellMesh {
  explicit CellMesh(std::size_t n)
      : cells(n),
        neighbour(kCellFaces * n, kFarField),
        normal(3 * kCellFaces * n),
        volume(n, 1.0f) {}

  [[nodiscard]] std::array<double, 3> normal_of(std::size_t i, std::uint32_t s) const {
    return {normal[(3 * s + 0) * cells + i], normal[(3 * s + 1) * cells + i],
            normal[(3 * s + 2) * cells + i]};
  }
  void set_normal(std::size_t i, std::uint32_t s, std::array<double, 3> const& to) {
    for (std::uint32_t d = 0; d < 3; ++d)
      normal[(3 * s + d) * cells + i] = static_cast<float>(to[d]);
  }

  std::size_t cells;
  std::vector<std::int32_t> neighbour;
  std::vector<float> normal;
  std::vector<float> volume;
};

using Vector3 = std::array<double, 3>;
[[nodiscard]] inline Vector3 minus(Vector3 const& a, Vector3 const& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
[[nodiscard]] inline Vector3 cross(Vector3 const& a, Vector3 const& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
[[nodiscard]] inline double dot(Vector3 const& a, Vector3 const& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
[[nodiscard]] inline double length(Vector3 const& a) { return std::sqrt(dot(a, a)); }

/// A box of side^3 cubes with a block left out in its middle; each cube is six tetrahedra, one for
/// each order in which a path from its lowest corner to its highest takes the axes, so that those
/// of neighbouring cubes share faces.
class BoxMesh {
 public:
  static CellMesh make(std::uint32_t side) {
    BoxMesh box(side);
    CellMesh mesh(box.tetrahedra_.size());
    for (std::size_t i = 0; i < mesh.cells; ++i) box.add_faces(mesh, i);
    box.join(mesh);
    return mesh;
  }

 private:
  using Point = std::array<std::uint32_t, 3>;
  struct Face {
    std::array<Point, 3> corners;  // in order: the same for both cells
    std::size_t cell;
    std::uint32_t slot;
    bool operator<(Face const& other) const {
      return std::tie(corners, cell) < std::tie(other.corners, other.cell);
    }
  };

  explicit BoxMesh(std::uint32_t side) : side_(side) {
    for (std::uint32_t z = 0; z < side; ++z)
      for (std::uint32_t y = 0; y < side; ++y)
        for (std::uint32_t x = 0; x < side; ++x)
          if (!(solid(x) && solid(y) && solid(z))) add_cube({x, y, z});
  }
  [[nodiscard]] bool solid(std::uint32_t x) const {
    return x >= side_ * 3 / 8 && x < side_ * 5 / 8;
  }

  void add_cube(Point const& low) {
    std::array<std::uint32_t, 3> axes{0, 1, 2};
    do {
      std::array<Point, 4> corners{low, low, low, low};
      for (std::uint32_t step = 0; step < 3; ++step)
        for (std::uint32_t later = step + 1; later < 4; ++later) ++corners[later][axes[step]];
      tetrahedra_.push_back(corners);
    } while (std::next_permutation(axes.begin(), axes.end()));
  }

  static Vector3 place(Point const& p) { return {double(p[0]), double(p[1]), double(p[2])}; }

  /// Face s is the one without corner s. Corners are in order as they are: each is above the one
  /// before.
  void add_faces(CellMesh& mesh, std::size_t i) {
    std::array<Point, 4> const& all = tetrahedra_[i];
    mesh.volume[i] = 1.0f / 6.0f;
    for (std::uint32_t s = 0; s < 4; ++s) {
      std::array<Point, 3> const corners{all[s == 0 ? 1 : 0], all[s <= 1 ? 2 : 1],
                                         all[s <= 2 ? 3 : 2]};
      Vector3 normal = cross(minus(place(corners[1]), place(corners[0])),
                             minus(place(corners[2]), place(corners[0])));
      double const outwards = dot(normal, minus(place(corners[0]), place(all[s]))) > 0 ? 0.5 : -0.5;
      for (double& component : normal) component *= outwards;
      mesh.set_normal(i, s, normal);
      mesh.neighbour[s * mesh.cells + i] = on_the_outside(corners) ? kFarField : kWall;
      faces_.push_back({corners, i, s});
    }
  }
  [[nodiscard]] bool on_the_outside(std::array<Point, 3> const& corners) const {
    for (std::uint32_t d = 0; d < 3; ++d)
      for (std::uint32_t const end : {0u, side_})
        if (corners[0][d] == end && corners[1][d] == end && corners[2][d] == end) return true;
    return false;
  }
  /// Faces with the same corners are two sides of one.
  void join(CellMesh& mesh) {
    std::sort(faces_.begin(), faces_.end());
    for (std::size_t f = 1; f < faces_.size(); ++f) {
      Face const &one = faces_[f - 1], &other = faces_[f];
      if (one.corners != other.corners) continue;
      mesh.neighbour[one.slot * mesh.cells + one.cell] = static_cast<std::int32_t>(other.cell);
      mesh.neighbour[other.slot * mesh.cells + other.cell] = static_cast<std::int32_t>(one.cell);
    }
  }

  std::uint32_t side_;
  std::vector<std::array<Point, 4>> tetrahedra_;
  std::vector<Face> faces_;
};

/// A mesh of which only the connectivity is known. Places are made up: random ones, from the seed,
/// drawn towards their neighbours so that near cells lie near. A face is of size one and looks from
/// a cell's place to its neighbour's; the fifth face, to the far field, closes the cell, so that
/// the undisturbed flow stays as it is.
class GraphMesh {
 public:
  static CellMesh make(std::string const& file, std::uint32_t times, std::uint64_t seed) {
    GraphMesh graph(file, seed);
    CellMesh mesh(graph.near_.size() * times);
    for (std::size_t i = 0; i < mesh.cells; ++i) graph.add_faces(mesh, i);
    return mesh;
  }

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr int kDraws = 64;  // towards the neighbours

  GraphMesh(std::string const& file, std::uint64_t seed) {
    read(file);
    for (std::size_t i = 0; i < near_.size(); ++i) check(file, i);
    place(seed);
  }
  /// METIS's format: nodes and edges; then line i lists the neighbours of node i, counted from 1.
  void read(std::string const& file) {
    std::ifstream in(file);
    std::string line;
    std::size_t nodes = 0;
    if (!std::getline(in, line) || !(std::istringstream(line) >> nodes) || nodes == 0)
      throw Failure("cfd: " + file + " is no graph in METIS's format");
    for (std::size_t i = 0; i < nodes && std::getline(in, line); ++i) {
      std::istringstream words(line);
      std::array<std::int32_t, 4> near{kNone, kNone, kNone, kNone};
      std::size_t n = 0;
      for (std::size_t j = 0; words >> j; near[n++] = static_cast<std::int32_t>(j - 1))
        if (n == near.size() || j == 0 || j > nodes)
          throw Failure("cfd: " + file + ": node " + std::to_string(i + 1) +
                        " has more than 4 neighbours, or a wrong one");
      near_.push_back(near);
    }
    if (near_.size() != nodes) throw Failure("cfd: " + file + " ends early");
  }
  void check(std::string const& file, std::size_t i) const {
    for (std::int32_t const j : near_[i]) {
      if (j == kNone) continue;
      auto const& back = near_[static_cast<std::size_t>(j)];
      if (std::count(back.begin(), back.end(), static_cast<std::int32_t>(i)) != 1)
        throw Failure("cfd: " + file + ": an edge of node " + std::to_string(i + 1) +
                      " does not lead back, once");
    }
  }
  void place(std::uint64_t seed) {
    for (std::size_t i = 0; i < near_.size(); ++i)
      places_.push_back({uniform(seed, 3 * i), uniform(seed, 3 * i + 1), uniform(seed, 3 * i + 2)});
    std::vector<Vector3> drawn(places_.size());
    for (int round = 0; round < kDraws; ++round) {
      for (std::size_t i = 0; i < places_.size(); ++i) drawn[i] = drawn_place(i);
      places_.swap(drawn);
    }
  }
  static double uniform(std::uint64_t seed, std::uint64_t n) {
    return static_cast<double>(random_at(seed, n) >> 11) /
           static_cast<double>(std::uint64_t{1} << 53);
  }
  /// Halfway to the neighbours' mean.
  [[nodiscard]] Vector3 drawn_place(std::size_t i) const {
    Vector3 sum{};
    double n = 0;
    for (std::int32_t const j : near_[i]) {
      if (j == kNone) continue;
      for (std::uint32_t d = 0; d < 3; ++d) sum[d] += places_[static_cast<std::size_t>(j)][d];
      ++n;
    }
    if (n == 0) return places_[i];
    Vector3 to = places_[i];
    for (std::uint32_t d = 0; d < 3; ++d) to[d] = 0.5 * to[d] + 0.5 * sum[d] / n;
    return to;
  }
  void add_faces(CellMesh& mesh, std::size_t i) const {
    std::size_t const node = i % near_.size(), copy = i - node;
    Vector3 closing{};
    for (std::uint32_t s = 0; s < 4; ++s) {
      if (near_[node][s] == kNone) continue;
      auto const to = static_cast<std::size_t>(near_[node][s]);
      mesh.neighbour[s * mesh.cells + i] = static_cast<std::int32_t>(copy + to);
      mesh.set_normal(i, s, towards(node, to));
      closing = minus(closing, mesh.normal_of(i, s));
    }
    mesh.set_normal(i, kCellFaces - 1, closing);
  }
  /// From one place to another, one long. Signs aside it is computed alike both ways.
  [[nodiscard]] Vector3 towards(std::size_t from, std::size_t to) const {
    Vector3 way = minus(places_[to], places_[from]);
    double const far = length(way);
    if (far < std::numeric_limits<double>::min()) return {from < to ? 1.0 : -1.0, 0, 0};
    for (double& component : way) component /= far;
    return way;
  }

  std::vector<std::array<std::int32_t, 4>> near_;
  std::vector<Vector3> places_;
};

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
