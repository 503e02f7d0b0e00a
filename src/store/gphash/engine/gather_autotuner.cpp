#include "store/gphash/engine/gather_autotuner.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "exec/ways.hpp"

namespace perdure {
namespace {

constexpr std::array kWays{Gather::at_once, Gather::in_order, Gather::by_host, Gather::shared};
constexpr std::size_t kInexactWays = 2;  // the host takes no part

std::size_t ways_of(std::uint64_t n, bool exact) {
  if (!exact) return kInexactWays;
  return n < GatherAutotuner::kFewAside ? kWays.size() - 1 : kWays.size();
}

std::size_t number(Gather way) {
  return static_cast<std::size_t>(std::ranges::find(kWays, way) - kWays.begin());
}

/// Sizes within a factor of two.
std::size_t class_of(std::uint64_t n) {
  PERDURE_ASSERT(n > 0);
  return static_cast<std::size_t>(std::bit_width(n)) - 1;
}

exec::Ways new_ways(std::size_t ways) {
  exec::Ways::Rules rules;
  rules.ways = ways;
  rules.usual = number(Gather::in_order);
  // Buffers are made, and where to part is found from what each took.
  rules.first = {2, 2, 2, 8};
  rules.all_before_long = true;
  rules.takes_over_below = [](std::size_t, std::size_t) { return 0.98; };
  return exec::Ways(rules);
}

}  // namespace

class GatherAutotuner::Sizes {
 public:
  Trial next(std::uint64_t n, bool exact) {
    MutexLock const lock(mutex_);
    Size& size = sizes_[class_of(n)];
    std::size_t const ways = ways_of(n, exact);
    if (size.can != ways) {
      size = {};
      size.can = ways;
      size.ways = new_ways(ways);
      size.era = ++era_;
    }
    exec::Ways::Choice const choice = size.ways.next(n);
    // To time a batch is to wait for it, which gets of a stream need not otherwise.
    bool const plain = choice.contest == 0 && size.ways.all_tried();
    bool const timed = !plain || size.passed++ % kTimed == 0;
    return {kWays[choice.way], timed,        n,       plain ? kTimed : 1,
            choice.contest,    choice.block, size.era};
  }

  void noted(Trial const& trial, double seconds, Aside const& aside) {
    MutexLock const lock(mutex_);
    Size& size = sizes_[class_of(trial.n)];
    std::size_t const way = number(trial.way);
    if (trial.era != size.era) return;
    std::uint64_t const values = aside.below + aside.above;
    if (values > 0) {
      double const each = aside.seconds / static_cast<double>(values);
      size.aside[way] = size.aside[way] > 0 ? size.aside[way] + (each - size.aside[way]) / 4 : each;
    }
    size.ways.noted({way, trial.contest, trial.block}, trial.n * trial.stands_for,
                    {seconds * trial.stands_for});
  }

  double pivot(std::uint64_t n) {
    MutexLock const lock(mutex_);
    return sizes_[class_of(n)].pivot;
  }

  void parted(std::uint64_t n, Aside const& aside) {
    PERDURE_ASSERT(aside.below + aside.above <= n);
    if (aside.below + aside.above == 0) return;
    MutexLock const lock(mutex_);
    Size& size = sizes_[class_of(n)];
    double const device = size.aside[number(Gather::in_order)];
    double const host = size.aside[number(Gather::by_host)];
    double const target = device > 0 && host > 0 ? device / (device + host) : 0.5;
    double const had =
        static_cast<double>(aside.below) / static_cast<double>(aside.below + aside.above);
    size.pivot = std::clamp(size.pivot + (target - had) / 2, 0.01, 1.0);
  }

  void forget() {
    MutexLock const lock(mutex_);
    sizes_ = {};
  }

  bool is_learning(std::uint64_t n) const {
    MutexLock const lock(mutex_);
    Size const& size = sizes_[class_of(n)];
    return size.can > 0 && !size.ways.all_tried();
  }

  std::vector<GatherSize> report() const {
    MutexLock const lock(mutex_);
    std::vector<GatherSize> all;
    for (std::size_t k = 0; k < sizes_.size(); ++k) {
      Size const& size = sizes_[k];
      if (size.can == 0) continue;
      std::uint64_t const batch = std::uint64_t{1} << k;
      auto const us = [&](Gather way) {
        return size.ways.each(number(way)) * static_cast<double>(batch) * 1e6;
      };
      all.push_back({batch, kWays[size.ways.best()], us(Gather::at_once), us(Gather::in_order),
                     us(Gather::by_host), us(Gather::shared), size.ways.contests(),
                     !size.ways.all_tried()});
    }
    return all;
  }

 private:
  // while one way stays, one batch of so many is timed
  static constexpr std::uint32_t kTimed = 16;

  struct Size {
    std::size_t can = 0;  // ways; 0 = no such batch came
    std::uint64_t era = 0;
    exec::Ways ways;
    std::uint32_t passed = 0;  // batches of the way that stays
    std::array<double, kWays.size()> aside{};  // seconds a value, to fetch what was put aside
    double pivot = 0.5;
  };

  mutable Mutex mutex_;  // guards the rest
  std::array<Size, 64> sizes_ PERDURE_GUARDED_BY(mutex_);
  std::uint64_t era_ PERDURE_GUARDED_BY(mutex_) = 0;
};

GatherAutotuner::GatherAutotuner() : sizes_(std::make_unique<Sizes>()) {}
GatherAutotuner::~GatherAutotuner() = default;

GatherAutotuner::Trial GatherAutotuner::next(Gather asked, std::uint64_t n, bool exact) {
  if (asked == Gather::automatic && n >= kFewest) return sizes_->next(n, exact);
  Trial trial;
  trial.n = n;
  if (asked != Gather::automatic) trial.way = asked;
  if (!exact && number(trial.way) >= kInexactWays) trial.way = Gather::in_order;
  return trial;
}

void GatherAutotuner::noted(Trial const& trial, double seconds, Aside const& aside) {
  PERDURE_ASSERT(trial.timed);
  sizes_->noted(trial, seconds, aside);
}

double GatherAutotuner::pivot(std::uint64_t n) { return sizes_->pivot(n); }
void GatherAutotuner::parted(std::uint64_t n, Aside const& aside) { sizes_->parted(n, aside); }
void GatherAutotuner::forget() { sizes_->forget(); }

bool GatherAutotuner::is_learning(Gather asked, std::uint64_t n) const {
  return asked == Gather::automatic && n >= kFewest && sizes_->is_learning(n);
}

std::vector<GatherSize> GatherAutotuner::report() const { return sizes_->report(); }

}  // namespace perdure
