// GPMbench: the nine applications of GPM's table 1, written once for every machine
// (perdure/gpm.hpp). An application is a function that runs from the beginning, or goes on from
// what a crash left, and answers with a digest of its result.
//
// Invariant: with the same options, a run that was crashed anywhere and resumed has the digest of
// one that was not.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "failure.hpp"
#include "perdure/gpm.hpp"

namespace perdure::bench::gpm {

using perdure::gpm::GridShape;
using perdure::gpm::Path;

/// tiny: a simulated machine, in tests. small: seconds on two cores. paper: table 1's.
enum class Size : std::uint8_t { tiny, small, paper };

struct AppOptions {
  Size size = Size::small;
  Path path = Path::gpm;
  perdure::gpm::LogKind log = perdure::gpm::LogKind::hcl;
  std::string files = "/dev/shm/perdure-gpm";  // what is durable: names begin with it
  std::string data;  // folder with real inputs, unpacked; empty: generated ones
  bool resume = false;  // go on with the files that are there
  std::uint32_t iterations = 0;  // or batches; 0 = the application's own number for its size
  std::uint32_t every = 10;  // iterations from checkpoint to checkpoint
  std::uint32_t flush_threads = 0;  // of the CPU, where it flushes; 0 = all
  std::uint64_t seed = 1;
  bool count = false;  // on a GPU: stores and ordering points, which takes time
  // transactions against the model at size paper too, which takes minutes and memory
  bool check = false;
};

struct AppReport {
  std::uint64_t digest = 0;  // of the result
  std::uint64_t began_at = 0;  // iteration, batch or level that the run began with
  std::uint64_t steps = 0;  // of them it ran
  std::uint64_t operations = 0;  // what it did: sets, rows, options, edges, ...
  double run_s = 0;  // kernels and what recurs with them, without making inputs and files
  // of these, in checkpoint() and commit(); paths that persist in kernels have it there
  double durable_s = 0;
  double recovery_s = 0;  // restoring a checkpoint, or undoing a batch that was about to commit
  // stored to durable memory by kernels (cpu and sim count), or made durable by the host
  std::uint64_t durable_bytes = 0;
  // the result agrees with what a plain loop says, where the application checks it
  bool right = true;
  std::vector<std::pair<std::string, double>> more;  // figures of the application's own
};

template <class Grid>
struct App {
  char const* name;
  char const* kind;  // transactional, checkpointing, native
  AppReport (*run)(Grid&, AppOptions const&);
};

/// Seconds since it was made, or last asked.
class Stopwatch {
 public:
  double lap() {
    auto const now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

/// A name of a file of the application.
[[nodiscard]] inline std::string file_of(AppOptions const& options, char const* what) {
  return options.files + "." + what;
}

/// Machine memory of n elements; Failure if there is none.
template <class Grid, class T>
class Array {
 public:
  Array(Grid& grid, std::size_t n) : grid_(&grid), n_(n) {
    require(buffer_.resize(n), "machine memory");
  }
  Array(Grid& grid, std::vector<T> const& from) : Array(grid, from.size()) { set(from); }

  void set(std::vector<T> const& from) {
    require(grid_->send(buffer_.data(), from.data(), from.size()), "input");
  }
  void fill(int byte) { require(grid_->fill(buffer_.data(), byte, n_), "machine memory"); }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(n_);
    require(grid_->fetch(values.data(), buffer_.data(), n_), "result");
    return values;
  }
  [[nodiscard]] T* data() const { return buffer_.data(); }
  [[nodiscard]] std::size_t size() const { return n_; }
  [[nodiscard]] std::size_t bytes() const { return n_ * sizeof(T); }

 private:
  Grid* grid_;
  std::size_t n_;
  typename Grid::template Buffer<T> buffer_;
};

/// Elements of durable memory, for the host. Where it is mapped the host reads it itself, and waits
/// for nothing: kernels that stored to it have ended.
template <class Grid, class T>
[[nodiscard]] std::vector<T> host_copy(Grid& grid, perdure::gpm::Memory<Grid> const& memory,
                                       T const* at, std::size_t n) {
  if (perdure::gpm::stores_directly(memory.path())) return {at, at + n};
  std::vector<T> values(n);
  require(grid.fetch(values.data(), at, n), "reading results");
  return values;
}

/// One thread stores one word, durably.
template <class Word>
struct StoreWord {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  Word* at;
  Word value;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    thread.store(at, value);
    thread.persist();
  }
};

template <class T>
[[nodiscard]] std::uint64_t digest_of(std::vector<T> const& values, std::uint64_t before = 0) {
  auto const* const bytes = reinterpret_cast<std::byte const*>(values.data());
  return nth_hash(before ^ hash_bytes(bytes, values.size() * sizeof(T)), 1);
}

/// The n-th random number of a seed, the same on every machine and in any order. Hashed twice:
/// once, neighbouring numbers are too even.
PERDURE_FN std::uint64_t random_at(std::uint64_t seed, std::uint64_t n) {
  return nth_hash(nth_hash(seed * 0x9e3779b97f4a7c15u + n, 3), 1);
}

}  // namespace perdure::bench::gpm
