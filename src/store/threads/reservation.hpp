// The records that one run of operations has taken and not used yet. Invariant: each is in nobody
// else's hands, and what is left at the end goes back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "exec/epochs.hpp"
#include "store/threads/space.hpp"

namespace perdure::threads {

class Reservation {
 public:
  Reservation(Space& space, exec::Epochs& epochs) : space_(&space), epochs_(&epochs) {}
  Reservation(Reservation const&) = delete;
  Reservation& operator=(Reservation const&) = delete;
  ~Reservation() {
    for (Stock const& stock : stocks_) space_->give(stock.records);
  }

  /// Takes records of these strides (0: none), and answers for how many of them, from the first on,
  /// there are some. The caller holds no EpochGuard.
  std::size_t fill(std::span<std::uint64_t const> strides) {
    PERDURE_ASSERT(!kCostlyAssertions ||
                   std::ranges::all_of(stocks_, [](Stock const& s) { return s.needed == 0; }));
    for (std::uint64_t const stride : strides) {
      if (stride != 0) ++stock_of(stride).needed;
    }
    for (Stock& stock : stocks_) {
      if (stock.needed > stock.records.size()) top_up(stock);
      stock.needed = 0;
    }
    std::size_t covered = 0;
    for (; covered < strides.size(); ++covered) {
      if (strides[covered] == 0) continue;
      Stock& stock = stock_of(strides[covered]);
      if (stock.needed == stock.records.size()) break;
      ++stock.needed;
    }
    for (Stock& stock : stocks_) stock.needed = 0;
    return covered;
  }

  [[nodiscard]] std::uint64_t take(std::uint64_t stride) {
    auto& records = stock_of(stride).records;
    PERDURE_ASSERT(!records.empty());  // fill() has answered for it
    std::uint64_t const record = records.back();
    records.pop_back();
    return record;
  }
  void put_back(std::uint64_t stride, std::uint64_t record) {
    PERDURE_ASSERT(stride != 0 && record != 0);
    stock_of(stride).records.push_back(record);
  }

  /// Something was unlinked: where room was refused it is worth asking again.
  void freed() {
    worth_waiting_ = true;
    for (Stock& stock : stocks_) stock.refused = false;
  }
  [[nodiscard]] Status const& refusal() const { return refusal_; }

 private:
  struct Stock {
    std::uint64_t stride = 0;
    std::size_t needed = 0;
    bool refused = false;  // and nothing was freed since
    std::vector<std::uint64_t> records;
  };

  Stock& stock_of(std::uint64_t stride) {
    auto const found = std::find_if(stocks_.begin(), stocks_.end(),
                                    [&](Stock const& s) { return s.stride == stride; });
    return found != stocks_.end() ? *found : stocks_.emplace_back(Stock{stride, 0, false, {}});
  }
  void top_up(Stock& stock) {
    PERDURE_ASSERT(stock.needed > stock.records.size());
    if (stock.refused) return;
    if (took(stock, stock.needed - stock.records.size())) return;
    if (std::exchange(worth_waiting_, false)) {
      epochs_->synchronize();  // what was unlinked comes back
      if (took(stock, stock.needed - stock.records.size())) return;
    }
    while (stock.records.size() + 1 < stock.needed && took(stock, 1)) {
    }
    stock.refused = true;
  }
  bool took(Stock& stock, std::size_t n) {
    Status taken = space_->take(stock.stride, n, stock.records);
    if (taken.ok()) return true;
    refusal_ = std::move(taken);
    return false;
  }

  Space* space_;
  exec::Epochs* epochs_;
  std::vector<Stock> stocks_;
  bool worth_waiting_ = true;
  Status refusal_;
};

}  // namespace perdure::threads
