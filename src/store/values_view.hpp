// What a view of values (Store::view) keeps alive: the pool's memory. Invariants: while views() is
// not 0 nobody changes a record of the pool; the memory is mapped until the store has closed and
// the last view is gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "perdure/store.h"
#include "pm/mapping.hpp"

namespace perdure {

/// The store's and its views', by shared pointers.
class ViewedPool {
 public:
  /// Under the store's lock; so who has it alone, and sees none, has none until he lets it go.
  void begin() { views_.fetch_add(1, std::memory_order_relaxed); }
  void end() { views_.fetch_sub(1, std::memory_order_release); }
  /// What the views that ended have read was read before.
  [[nodiscard]] std::size_t views() const { return views_.load(std::memory_order_acquire); }
  /// By the store, which closes.
  void keep(pm::Mapping mapping) { kept_.emplace(std::move(mapping)); }

 private:
  std::atomic<std::size_t> views_{0};
  std::optional<pm::Mapping> kept_;
};

struct ValuesView::State {
  State(std::shared_ptr<ViewedPool> viewed, std::span<std::byte const> all, std::size_t n)
      : pool(std::move(viewed)), memory(all), values(n) {
    pool->begin();
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() { pool->end(); }

  std::shared_ptr<ViewedPool> const pool;
  std::span<std::byte const> const memory;
  std::vector<std::span<std::byte const>> values;
};

}  // namespace perdure
