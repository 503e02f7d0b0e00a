// Simulated warps: fibers of one thread, of which one runs at a time. At every *point* (an access
// to memory that warps share) another may go on. Invariant: which one goes on follows from the
// schedule alone, so a run can be repeated exactly, from its seed or from the list of switches it
// made.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace perdure::exec {

/// At the `point`-th point of a run, `fiber` goes on instead of the one that runs.
struct SimSwitch {
  std::uint64_t point;
  std::uint32_t fiber;
  friend bool operator==(SimSwitch const&, SimSwitch const&) = default;
};

/// Everything not listed is the default: a warp runs until it ends, then the next one begins.
struct SimSchedule {
  std::uint64_t seed = 0;
  std::uint32_t one_in = 0;  // a random switch at one in so many points; 0 = only those listed
  std::vector<SimSwitch> switches = {};
  std::uint64_t most_points = 200000;  // of one launch; more is a livelock
};

class SimScheduler {
 public:
  static constexpr std::uint64_t kPatience =
      2000;    // points in a row before another warp must go on

  explicit SimScheduler(SimSchedule schedule)
      : schedule_(std::move(schedule)), random_(schedule_.seed) {}
  SimScheduler(SimScheduler const&) = delete;
  SimScheduler& operator=(SimScheduler const&) = delete;

  /// Runs body(0) .. body(fibers-1) to their ends; false if they make no progress.
  bool launch(std::uint32_t fibers, std::function<void(std::uint32_t)> const& body);
  void point();
  /// A point at which the running warp, which waits for another, gives way.
  void give_way() {
    in_a_row_ = kPatience;
    point();
  }

  /// Of the running warp, different in each launch; 0 outside of any.
  [[nodiscard]] std::uint32_t thread() const { return running_ ? first_thread_ + current_ : 0; }
  [[nodiscard]] std::vector<SimSwitch> const& taken() const { return taken_; }
  /// Bit i: fiber i could have gone on at this point, other than the one that did.
  [[nodiscard]] std::vector<std::uint32_t> const& others() const { return others_; }
  [[nodiscard]] std::uint64_t points() const { return points_; }

 private:
  static void enter(unsigned low, unsigned high);
  [[nodiscard]] std::uint32_t next_after(std::uint32_t fiber) const;
  std::uint32_t choose(std::uint32_t others);
  std::uint64_t draw();

  SimSchedule schedule_;
  std::uint64_t random_;
  std::size_t next_listed_ = 0;
  std::vector<SimSwitch> taken_;
  std::vector<std::uint32_t> others_;
  std::uint64_t points_ = 0;

  std::function<void(std::uint32_t)> const* body_ = nullptr;
  ucontext_t main_{};
  std::uint32_t alive_ = 0;         // bit set: fiber has not ended
  std::uint32_t current_ = 0;
  std::uint32_t first_thread_ = 1;
  std::uint64_t launch_points_ = 0;
  std::uint64_t in_a_row_ = 0;
  bool running_ = false;
  bool stuck_ = false;
};

/// Which of a grid's threads does what is reported next, from 1 on; 0 = the fiber that runs stands
/// for itself. A fiber runs many such threads, and what one of them has fenced says nothing of
/// another.
inline thread_local std::uint64_t sim_actor = 0;

/// The scheduler of this thread's simulated runs.
inline thread_local SimScheduler* sim_scheduler = nullptr;

inline void sim_point() {
  if (sim_scheduler != nullptr) sim_scheduler->point();
}

}  // namespace perdure::exec
