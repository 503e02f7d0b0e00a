// Breadth-first search (BFS): how many edges each node of a graph is away from the source. Level by
// level; the graph is in machine memory. Durable: the nodes in the sequence in which they were
// found, where each level ends in it, and the nodes' costs. A level's nodes, [its predecessor's
// end, its own end) of the sequence, are the queue of the next one. Input: the road network of New
// York (PACE format) at size small; else generated roads, at size paper 24 M nodes and some 6,600
// levels, about as many as the roads of the USA have (GPM's table 1).
//
// Invariants: a level's end is one word, durable after the level's nodes and their costs; the
// levels are as many as there are ends other than 0, and of the sequence what lies behind the last
// end is nothing. So a level that was under way is redone, and finds the same nodes.
#pragma once

#include <algorithm>
#include <fstream>

#include "native.hpp"

namespace perdure::bench::gpm {

/// Of node u the neighbours are targets[offsets[u]] to targets[offsets[u + 1] - 1].
struct Graph {
  std::vector<std::uint32_t> offsets;
  std::vector<std::uint32_t> targets;
  std::uint32_t source = 0;
  [[nodiscard]] std::uint32_t nodes() const {
    return static_cast<std::uint32_t>(offsets.size() - 1);
  }
};

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Every edge both ways.
[[nodiscard]] inline Graph graph_of(std::uint32_t nodes, Edges const& edges) {
  Graph graph;
  graph.offsets.assign(std::size_t{nodes} + 1, 0);
  for (auto const& [u, v] : edges) {
    ++graph.offsets[u + 1];
    ++graph.offsets[v + 1];
  }
  for (std::size_t u = 0; u < nodes; ++u) graph.offsets[u + 1] += graph.offsets[u];
  graph.targets.resize(edges.size() * 2);
  std::vector<std::uint32_t> next(graph.offsets.begin(), graph.offsets.end() - 1);
  for (auto const& [u, v] : edges) {
    graph.targets[next[u]++] = v;
    graph.targets[next[v]++] = u;
  }
  return graph;
}

/// "p tw NODES EDGES", then "u v" a line, from 1.
[[nodiscard]] inline Graph road_file(std::string const& file) {
  std::ifstream in(file);
  std::string p, kind;
  std::uint32_t nodes = 0, m = 0;
  in >> p >> kind >> nodes >> m;
  Edges edges(in ? m : 0);
  for (auto& [u, v] : edges) {
    in >> u >> v;
    if (!in || u < 1 || v < 1 || u > nodes || v > nodes)
      throw Failure("bfs: " + file + " is no graph in PACE's format");
    --u;
    --v;
  }
  if (edges.empty()) throw Failure("bfs: " + file + " is not there, or holds no edges");
  return graph_of(nodes, edges);
}

/// Crossings in rows, so many of eight connected to the next one, and to the next row's; the source
/// in the middle.
[[nodiscard]] inline Graph generated_roads(std::uint32_t width, std::uint32_t height,
                                           std::uint32_t of_eight, std::uint64_t seed) {
  auto const is_open = [&](std::uint64_t edge) { return random_at(seed, edge) % 8 < of_eight; };
  Edges edges;
  edges.reserve(std::size_t{width} * height * 3 / 2);
  for (std::uint32_t y = 0, u = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x, ++u) {
      if (x + 1 < width && is_open(std::uint64_t{u} * 2)) edges.emplace_back(u, u + 1);
      if (y + 1 < height && is_open(std::uint64_t{u} * 2 + 1)) edges.emplace_back(u, u + width);
    }
  }
  Graph graph = graph_of(width * height, edges);
  graph.source = height / 2 * width + width / 2;
  return graph;
}

[[nodiscard]] inline Graph bfs_input(AppOptions const& options) {
  if (options.size == Size::paper) return generated_roads(9400, 2550, 5, options.seed);
  if (options.size == Size::tiny) return generated_roads(50, 6, 6, options.seed);
  if (!options.data.empty()) return road_file(options.data + "/road-usa-NY.pace.gr");
  return generated_roads(514, 514, 6, options.seed);
}

/// A node's cost is that of a plain loop; costs count from 1 here, and 0 is a node that is not
/// reached.
[[nodiscard]] inline bool bfs_right(Graph const& graph, std::vector<std::uint32_t> const& costs) {
  std::vector<std::uint32_t> expected(graph.nodes()), queue{graph.source};
  queue.reserve(graph.nodes());
  expected[graph.source] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    std::uint32_t const u = queue[i];
    for (std::uint32_t e = graph.offsets[u]; e < graph.offsets[u + 1]; ++e) {
      std::uint32_t const v = graph.targets[e];
      if (expected[v] != 0) continue;
      expected[v] = expected[u] + 1;
      queue.push_back(v);
    }
  }
  return expected == costs;
}

/// Where the search is; in machine memory, so that a level needs nothing of the host.
struct BfsState {
  std::uint32_t level;  // levels before it are durable, and its nodes are found
  std::uint32_t begin;  // [begin, end) of the sequence: its nodes
  std::uint32_t end;
  std::uint32_t next;  // where the next node that is found comes
  std::uint32_t arrived;  // blocks
};

/// What the search's kernels work on. `seen` and `near` are the costs and the sequence once more,
/// in machine memory: durable memory is far away, and only written.
struct BfsView {
  std::uint32_t const* offsets;
  std::uint32_t const* targets;
  std::uint32_t* seen;
  std::uint32_t* near;
  BfsState* state;
  std::uint32_t* costs;  // durable
  std::uint32_t* sequence;  // durable
  std::uint32_t* ends;  // durable; [level]

  /// The nodes that were found become the level's.
  template <class T>
  PERDURE_FN void next_level(T& thread) const {
    std::uint32_t const found = thread.add(&state->next, 0);
    std::uint32_t const end = state->end;
    if (found == end) {
      state->begin = end;  // the search is over: launches that follow find nothing to do
      return;
    }
    std::uint32_t const level = state->level + 1;
    thread.store(&ends[level], found);
    thread.persist();
    state->level = level;
    state->begin = end;
    state->end = found;
  }
};

/// One level: finds the neighbours of its nodes. Where kernels persist, the last block makes the
/// next level of them.
struct BfsLevel {
  static constexpr int kPhases = 2;
  using Shared = NoShared;
  using State = NoState;
  BfsView bfs;
  bool ends_level;

  template <int kPhase, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    if constexpr (kPhase == 0) {
      find(thread);
    } else if (ends_level && thread.thread() == 0 && last_of_blocks(thread, &bfs.state->arrived)) {
      bfs.next_level(thread);
    }
  }

 private:
  template <class T>
  PERDURE_FN void find(T& thread) const {
    std::uint32_t const cost = bfs.state->level + 2, end = bfs.state->end;
    bool found = false;
    for (std::uint64_t i = bfs.state->begin + thread.global(); i < end; i += thread.total()) {
      std::uint32_t const u = bfs.near[i];
      for (std::uint32_t e = bfs.offsets[u]; e < bfs.offsets[u + 1]; ++e) {
        std::uint32_t const v = bfs.targets[e];
        if (thread.load(&bfs.seen[v]) != 0 || thread.cas(&bfs.seen[v], 0u, cost) != 0) continue;
        std::uint32_t const at = thread.add(&bfs.state->next, 1);
        bfs.near[at] = v;
        thread.store(&bfs.sequence[at], v);
        thread.store(&bfs.costs[v], cost);
        found = true;
      }
    }
    if (found) thread.persist();
  }
};

/// Where kernels do not persist: after what the level stored was made durable.
struct BfsNextLevel {
  static constexpr int kPhases = 1;
  using Shared = NoShared;
  using State = NoState;
  BfsView bfs;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    if (thread.global() == 0) bfs.next_level(thread);
  }
};

/// Costs of the nodes of the sequence, from where its levels end. Durable costs too where they were
/// not committed.
struct BfsRestore {
  static constexpr int kPhases = 1;
  using Shared = NoShared;
  using State = NoState;
  BfsView bfs;
  std::uint32_t const* ends;  // of `levels` levels, in machine memory
  std::uint32_t levels;
  std::uint32_t nodes;
  bool stores;
  std::uint32_t*
      damages;  // what is no node, or there twice: the search's room is for each node once

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < ends[levels - 1]; i += thread.total()) {
      std::uint32_t const v = bfs.near[i], cost = level_of(i) + 1;
      if (v >= nodes || thread.exchange(&bfs.seen[v], cost) != 0) {
        thread.add(damages, 1);
      } else if (stores) {
        thread.store(&bfs.costs[v], cost);
      }
    }
  }

 private:
  /// The first level that ends after i.
  PERDURE_FN std::uint32_t level_of(std::uint64_t i) const {
    std::uint32_t low = 0, high = levels - 1;
    while (low < high) {
      std::uint32_t const middle = (low + high) / 2;
      if (ends[middle] > i) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

template <class Grid>
class Bfs {
 public:
  Bfs(Grid& grid, AppOptions const& options, Graph const& graph)
      : grid_(grid),
        graph_(graph),
        threads_(options.size == Size::tiny ? 8 : 256),
        file_(grid, options, "bfs", layout_, problem(graph)),
        offsets_(grid, graph.offsets),
        targets_(grid, graph.targets),
        seen_(grid, graph.nodes()),
        near_(grid, graph.nodes()),
        state_(grid, 1),
        bfs_{offsets_.data(), targets_.data(),    seen_.data(),          near_.data(),
             state_.data(),   file_.data(costs_), file_.data(sequence_), file_.data(ends_)} {
    seen_.fill(0);
    require(grid.order(), "machine memory");
  }

  AppReport run() {
    AppReport report;
    Stopwatch watch;
    if (!file_.goes_on()) begin();
    BfsState at = resume();
    if (file_.goes_on()) report.recovery_s = watch.lap();
    report.began_at = at.level;
    std::uint32_t const nodes_before = at.end;
    watch.lap();
    at = file_.kernels_persist() ? search(at) : search_and_commit(at);
    report.run_s = watch.lap();
    report.steps = at.level - report.began_at;
    report.operations = at.end - nodes_before;
    report.more = {{"nodes", graph_.nodes()},
                   {"edges", graph_.targets.size() / 2},
                   {"levels", at.level + 1.0}};
    file_.report(report);

    auto const costs = file_.get(costs_);
    report.digest = digest_of(costs);
    report.right = bfs_right(graph_, costs);
    return report;
  }

 private:
  static constexpr std::uint32_t kUnread = 32;  // levels until the host looks how far the search is

  static Failure damaged() { return Failure("bfs: its file is damaged; begin anew"); }
  static std::uint64_t problem(Graph const& graph) {
    return digest_of(graph.offsets, digest_of(graph.targets, graph.source));
  }

  /// The source is level 0.
  void begin() {
    file_.publish(costs_, graph_.source, 1);
    file_.publish(sequence_, 0, graph_.source);
    file_.publish(ends_, 0, 1);
    file_.begin();
  }

  BfsState resume() {
    std::vector<std::uint32_t> const ends = durable_ends();
    if (ends.empty()) throw damaged();
    file_.upload(near_, sequence_, ends.back());
    return restored(ends);
  }

  std::vector<std::uint32_t> durable_ends() {
    std::vector<std::uint32_t> ends;
    for (std::uint64_t const most = 4096; ends.size() < ends_.n;) {
      for (std::uint32_t const end :
           file_.get(ends_, ends.size(), std::min(most, ends_.n - ends.size()))) {
        if (end == 0) return ends;
        if (end > ends_.n || (!ends.empty() && end <= ends.back())) throw damaged();
        ends.push_back(end);
      }
    }
    return ends;
  }

  /// The state after these levels, whose nodes are in `near`.
  BfsState restored(std::vector<std::uint32_t> const& ends) {
    auto const levels = static_cast<std::uint32_t>(ends.size());
    std::uint32_t const end = ends.back();
    Array<Grid, std::uint32_t> known(grid_, ends), damages(grid_, 1);
    damages.fill(0);
    BfsRestore const restore{
        bfs_, known.data(), levels, graph_.nodes(), !file_.kernels_persist(), damages.data()};
    require(grid_.launch(shape(end), restore, file_.persist()), "restoring costs");
    if (damages.get()[0] != 0) throw damaged();
    BfsState const state{levels - 1, levels == 1 ? 0 : ends[levels - 2], end, end, 0};
    state_.set({state});
    return state;
  }

  /// Enough blocks for a level that is not much larger than the last known one.
  [[nodiscard]] perdure::gpm::GridShape shape(std::uint32_t nodes) const {
    return {std::clamp<std::uint32_t>(nodes / threads_ * 2, 4, 1024), threads_};
  }

  /// The host looks only now and then: a level's launch knows from machine memory what to do.
  BfsState search(BfsState at) {
    while (at.begin != at.end) {
      for (std::uint32_t i = 0; i < kUnread; ++i)
        require(grid_.launch(shape(at.end - at.begin), BfsLevel{bfs_, true}, file_.persist()),
                "searching");
      at = state_.get()[0];
    }
    return at;
  }

  /// The host makes a level durable, then its end. Costs follow from these; they are made durable
  /// once.
  BfsState search_and_commit(BfsState at) {
    while (at.begin != at.end) {
      require(grid_.launch(shape(at.end - at.begin), BfsLevel{bfs_, false}, file_.persist()),
              "searching");
      BfsState const found = state_.get()[0];
      file_.commit(sequence_, found.end, found.next - found.end);
      require(grid_.launch({1, 1}, BfsNextLevel{bfs_}, file_.persist()), "ending a level");
      if (found.next != found.end) file_.commit(ends_, found.level + 1, 1);
      at = state_.get()[0];
    }
    file_.commit(costs_);
    return at;
  }

  Grid& grid_;
  Graph const& graph_;
  std::uint32_t threads_;
  NativeLayout layout_;
  Region<std::uint32_t> costs_ = layout_.add<std::uint32_t>(graph_.nodes());
  Region<std::uint32_t> sequence_ = layout_.add<std::uint32_t>(graph_.nodes());
  Region<std::uint32_t> ends_ = layout_.add<std::uint32_t>(graph_.nodes());
  NativeFile<Grid> file_;
  Array<Grid, std::uint32_t> offsets_, targets_, seen_, near_;
  Array<Grid, BfsState> state_;
  BfsView bfs_;
};

template <class Grid>
AppReport run_bfs(Grid& grid, AppOptions const& options) {
  Graph const graph = bfs_input(options);
  return Bfs<Grid>(grid, options, graph).run();
}

}  // namespace perdure::bench::gpm
