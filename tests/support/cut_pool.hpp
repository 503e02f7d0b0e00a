// A pool under parts of the engine, and what a kill would leave of it, at any moment: a copy of its
// bytes, opened as a store. Invariant: what is looked at is the copy, so nothing of it comes back.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "pm/host.hpp"
#include "pm/pool.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {

/// Who is asked at each point of a CutHost; none: nobody.
inline std::function<void()> at_point;

/// Asks after each store to the `pool` (all memory, by default) and each flush of it.
class CutHost : public pm::OrderedHost {
 public:
  CutHost() = default;
  explicit CutHost(std::span<std::byte const> pool)
      : begin_(reinterpret_cast<std::uintptr_t>(pool.data())), end_(begin_ + pool.size()) {}

  void store(std::uint64_t* at, std::uint64_t value) const {
    OrderedHost::store(at, value);
    if (is_cut(at)) at_point();
  }
  void flush(void const* at, std::size_t) const {
    if (is_cut(at)) at_point();
  }

 private:
  [[nodiscard]] bool is_cut(void const* at) const {
    auto const address = reinterpret_cast<std::uintptr_t>(at);
    return at_point && address >= begin_ && address < end_;
  }

  std::uintptr_t begin_ = 0, end_ = UINTPTR_MAX;
};

/// An empty pool of a store, opened without one.
class CutPool {
 public:
  explicit CutPool(CreateOptions const& create) : pool_(make(create)) {}
  ~CutPool() { at_point = nullptr; }
  CutPool(CutPool const&) = delete;
  CutPool& operator=(CutPool const&) = delete;

  [[nodiscard]] pm::Pool& pool() { return pool_; }
  /// What an opening finds where a kill comes now.
  [[nodiscard]] Store killed() {
    ++looks_;
    std::string const copy = scratch_.file("copy");
    std::ofstream(copy, std::ios::binary)
        .write(reinterpret_cast<char const*>(pool_.base()),
               static_cast<std::streamsize>(pool_.bytes()));
    return opened(Store::open(copy, {.threads = 1}));
  }
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  pm::Pool make(CreateOptions const& create) {
    std::string const path = scratch_.file("pool");
    if (Status s = opened(Store::create(path, create)).close(); !s.ok())
      throw std::runtime_error(s.message());
    auto pool = pm::Pool::open(path, {});
    if (!pool) throw std::runtime_error(pool.status().message());
    return std::move(*pool);
  }

  ScratchDir scratch_;
  pm::Pool pool_;
  std::uint64_t looks_ = 0;
};

}  // namespace perdure::test
