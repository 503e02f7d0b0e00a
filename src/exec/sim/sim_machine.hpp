// The simulated machine: launches bodies over a few fiber warps of one thread (sim_scheduler.hpp).
// Items are dealt out round robin. A warp runs an item's stages one after the other as a GPU does,
// or stage by stage over all its items as a CPU does.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/counts.hpp"
#include "exec/machine_concept.hpp"
#include "exec/sim/sim_warp.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"

namespace perdure::exec {

class SimMachine {
 public:
  using Warp = SimWarp;
  using Solo = SimWarp;

  static constexpr bool kPoolIsFar = false;  // across a link, and memory of its own is nearer

  struct Shared {
    std::uint32_t warps = 3;
    bool stage_by_stage = false;
    [[nodiscard]] std::string describe() const { return "sim x" + std::to_string(warps); }
  };

  template <class T>
  class Buffer {
   public:
    Status resize(std::size_t n) {
      if (data_.size() < n) data_.resize(n);
      return {};
    }
    [[nodiscard]] T* data() const { return const_cast<T*>(data_.data()); }
    /// The same memory as the host sees it.
    Status need_twin(std::size_t n) { return resize(n); }
    [[nodiscard]] T* twin() const { return data(); }

   private:
    std::vector<T> data_;
  };

  explicit SimMachine(Shared& shared) : shared_(&shared) {}

  Status begin(CUstream_st*) { return begin(); }
  Status begin() {
    beside_.clear();  // after a failure
    return {};
  }
  Status upload(Column const& column, ByteColumn& here, int) {
    here = {column.data, column.offsets, column.width};
    return {};
  }
  Status stage(Column const&, int) { return {}; }
  Status staged(Column&, int) { return {}; }
  Status map_output(MutableColumn const& column, std::byte*& here) {
    here = column.data;
    return {};
  }
  template <class Selected>
  Status download_output(MutableColumn const&, Selected) {
    return {};  // written in place
  }
  static bool must_be_downloaded(MutableColumn const&) { return false; }
  Status download_bytes(std::byte*, std::byte const*, std::size_t) { return {}; }
  Result<std::byte*> room_for(std::byte* host, std::size_t) { return host; }

  template <class T>
  Status send(T* to, T const* from, std::size_t n) {
    std::copy(from, from + n, to);
    return {};
  }
  template <class T>
  Status copy(T* to, T const* from, std::size_t n) {
    return send(to, from, n);
  }
  template <class T>
  Status fill(T* to, int byte, std::size_t n) {
    std::memset(static_cast<void*>(to), byte, n * sizeof(T));
    return {};
  }
  template <class T>
  Result<std::span<T const>> fetch(Buffer<T> const& from, std::size_t n) {
    return std::span<T const>(from.data(), n);
  }
  template <class T>
  Status begin_fetch(Buffer<T> const&, std::size_t) {
    return {};
  }
  Status note_fetch() { return {}; }
  Status await_fetch() { return {}; }
  template <class F>
  Status threads(std::size_t n, F body) {
    for (std::size_t i = 0; i < n; ++i) body(i);
    return {};
  }

  template <class W, class M, class F>
  Status warps(std::size_t n, F body, M mem, Counts* total) {
    auto const warps = static_cast<std::uint32_t>(std::min<std::size_t>(n, shared_->warps));
    if (warps == 0) return {};
    bool const done = sim_scheduler->launch(warps, [&](std::uint32_t me) {
      W warp;
      M mine = mem;
      Counts counts;
      std::vector<typename F::template State<W>> states((n - me + warps - 1) / warps);
      if (shared_->stage_by_stage) {
        by_stage<0>(warp, mine, body, me, warps, states, counts);
      } else {
        for (std::size_t k = 0; k < states.size(); ++k)
          by_item<0>(warp, mine, body, me + k * warps, states[k], counts);
      }
      if (total == nullptr) return;
      for (std::uint32_t k = 0; k < Counts::kNames; ++k) total->value[k] += counts.value[k];
    });
    if (!done) return {Code::device_error, "the simulated warps make no progress"};
    return {};
  }

  Status sort(Sorted* items, std::size_t n) {
    std::sort(items, items + n, [](Sorted const& a, Sorted const& b) {
      return a.hash != b.hash ? a.hash < b.hash : a.index < b.index;
    });
    return {};
  }
  /// Hashes that are spread evenly.
  Status sort_hashed(Sorted* items, std::size_t n) { return sort(items, n); }

  Status sums_before(std::uint32_t const* in, std::uint32_t* out, std::size_t n) {
    std::exclusive_scan(in, in + n, out, std::uint32_t{0});
    return {};
  }

  Status need_room_to_sort_words(std::size_t) { return {}; }  // it sorts where they are
  Result<std::uint64_t*> sort_words(std::uint64_t* words, std::uint64_t*, std::size_t n, int, int) {
    std::sort(words, words + n);
    return words;
  }

  Status order() {
    if (fault::observer != nullptr) fault::observer->order();
    return {};
  }
  Status order_launches() { return order(); }
  static constexpr bool kChains = false;  // a launch costs nothing here
  static constexpr bool kLaunchesAhead = true;  // as on a GPU
  Status wait() { return {}; }
  Status need_beside() { return {}; }
  /// Launches are as late as they may be. A CPU's run at once.
  template <class F>
  Status beside(F launches) {
    beside_.push_back(std::move(launches));
    return {};
  }
  Status rejoin() {
    for (auto const& launches : std::exchange(beside_, {})) {
      if (Status s = launches(); !s.ok()) return s;
    }
    return {};
  }
  Status wait_for_all() { return {}; }
  /// Machine memory to be had.
  [[nodiscard]] std::uint64_t free_bytes() const { return ~std::uint64_t{0}; }

 private:
  template <int kStage, class W, class M, class F, class State>
  static void by_item(W& warp, M& mem, F const& body, std::size_t i, State& state, Counts& counts) {
    body.template stage<kStage>(warp, mem, i, state, counts);
    if constexpr (kStage + 1 < F::kStages) by_item<kStage + 1>(warp, mem, body, i, state, counts);
  }
  template <int kStage, class W, class M, class F, class State>
  static void by_stage(W& warp, M& mem, F const& body, std::size_t me, std::size_t warps,
                       std::vector<State>& states, Counts& counts) {
    for (std::size_t k = 0; k < states.size(); ++k)
      body.template stage<kStage>(warp, mem, me + k * warps, states[k], counts);
    if constexpr (kStage + 1 < F::kStages)
      by_stage<kStage + 1>(warp, mem, body, me, warps, states, counts);
  }

  Shared* shared_;
  std::vector<std::function<Status()>> beside_;
};

static_assert(Machine<SimMachine>);

}  // namespace perdure::exec
