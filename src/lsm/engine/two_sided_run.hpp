// A run that lies on one of two machines, or on both. Where it is missing, reads that would have
// been cheaper there keep an account, and once they have cost as much as a copy, one is made: so
// reads never cost more than twice what they would have, had their number been known before.
//
// Invariants: a run is on one side from the beginning, and what is on a side stays there. Only who
// pay() has named brings it to the other. Who reads a few entries waits for that: many readers at a
// device, a launch each, would keep the copy waiting behind them for seconds.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "lsm/engine/engine.hpp"

namespace perdure::lsm {

enum class Side : std::uint8_t { host = 0, device = 1 };
[[nodiscard]] constexpr Side other(Side side) {
  return side == Side::host ? Side::device : Side::host;
}

/// Host memory for copies of what the device has.
class ImageRoom {
 public:
  explicit ImageRoom(std::uint64_t most) : most_(most) {}

  [[nodiscard]] bool take(std::uint64_t bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most_) return true;
    give_back(bytes);
    return false;
  }
  void give_back(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  std::uint64_t most_;
  std::atomic<std::uint64_t> used_ = 0;
};

class TwoSidedRun final : public Run {
 public:
  TwoSidedRun(Side side, RunPtr run) : Run(run->count(), run->bytes(), run->row_words()) {
    publish(side, std::move(run));
  }
  ~TwoSidedRun() override {
    if (room_ != nullptr) room_->give_back(bytes());
  }
  TwoSidedRun(TwoSidedRun const&) = delete;
  TwoSidedRun& operator=(TwoSidedRun const&) = delete;

  static TwoSidedRun const& of(Run const& run) { return static_cast<TwoSidedRun const&>(run); }

  /// Null: it is not there. What is not null stays as long as this.
  [[nodiscard]] Run const* on(Side side) const {
    return at(side).run.load(std::memory_order_acquire);
  }

  /// To the account of the side where it is missing. True: it is the caller's now to make the copy,
  /// and to publish() it there or give_up().
  [[nodiscard]] bool pay(Side side, double cost, double price) const {
    Place& place = at(side);
    if (place.taken.load(std::memory_order_relaxed)) return false;
    double paid = place.paid.load(std::memory_order_relaxed);
    while (!place.paid.compare_exchange_weak(paid, paid + cost, std::memory_order_relaxed)) {
    }
    if (paid + cost < price || place.taken.exchange(true, std::memory_order_relaxed)) return false;
    place.under_way.store(true, std::memory_order_relaxed);
    return true;
  }
  /// Until the copy that somebody brings is there, or given up.
  void wait_for(Side side) const {
    if (on(side) == nullptr) at(side).under_way.wait(true, std::memory_order_acquire);
  }
  void publish(Side side, RunPtr run) const {
    Place& place = at(side);
    place.taken.store(true, std::memory_order_relaxed);
    place.owner = std::move(run);
    place.run.store(place.owner.get(), std::memory_order_release);
    place.arrive();
  }
  /// Of the host, with bytes() of the room, which the run gives back at its end.
  void publish_image(RunPtr run, std::shared_ptr<ImageRoom> room) const {
    room_ = std::move(room);
    publish(Side::host, std::move(run));
  }
  /// There will be another try once reads have cost as much again.
  void give_up(Side side) const {
    Place& place = at(side);
    place.arrive();
    place.paid.store(0, std::memory_order_relaxed);
    place.taken.store(false, std::memory_order_relaxed);
  }

 private:
  struct Place {
    std::atomic<Run const*> run = nullptr;
    RunPtr owner;
    std::atomic<double> paid = 0;  // ns
    std::atomic<bool> taken = false;  // it is there, or somebody brings it
    std::atomic<bool> under_way = false;

    void arrive() {
      under_way.store(false, std::memory_order_release);
      under_way.notify_all();
    }
  };
  [[nodiscard]] Place& at(Side side) const { return places_[static_cast<std::size_t>(side)]; }

  std::array<Place, 2> mutable places_;
  std::shared_ptr<ImageRoom> mutable room_;
};

}  // namespace perdure::lsm
