// Meshes of the flow: a generated box of tetrahedra, and a real mesh's connectivity with normals
// that are made up.
// Invariant: two neighbours' normals of the face between them are each other's negatives.
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
    for (int pass = 0; pass < kDraws; ++pass) {
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

}  // namespace perdure::bench::gpm
