#include "exec/sim/sim_scheduler.hpp"

#include <bit>
#include <memory>

namespace perdure::exec {
namespace {

constexpr std::size_t kStack = 256 << 10;

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStack]};
};
/// Of this thread's schedulers, of which one launches at a time.
thread_local std::vector<std::unique_ptr<Fiber>> fibers;

Fiber& fiber_number(std::uint32_t f) {
  while (fibers.size() <= f) fibers.push_back(std::make_unique<Fiber>());
  return *fibers[f];
}

}  // namespace

void SimScheduler::enter(unsigned low, unsigned high) {
  auto* const me = reinterpret_cast<SimScheduler*>(static_cast<std::uintptr_t>(low) |
                                                   (static_cast<std::uintptr_t>(high) << 32));
  std::uint32_t const fiber = me->current_;
  (*me->body_)(fiber);
  me->alive_ &= ~(1u << fiber);
  swapcontext(&fibers[fiber]->context, &me->main_);
}

std::uint64_t SimScheduler::draw() {  // splitmix64
  std::uint64_t z = (random_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

bool SimScheduler::launch(std::uint32_t n, std::function<void(std::uint32_t)> const& body) {
  body_ = &body;
  alive_ = n >= 32 ? ~0u : (1u << n) - 1;
  launch_points_ = 0;
  stuck_ = false;
  auto const self = reinterpret_cast<std::uintptr_t>(this);
  for (std::uint32_t f = 0; f < n; ++f) {
    ucontext_t& c = fiber_number(f).context;
    getcontext(&c);
    c.uc_stack.ss_sp = fiber_number(f).stack.get();
    c.uc_stack.ss_size = kStack;
    c.uc_link = nullptr;
    makecontext(&c, reinterpret_cast<void (*)()>(&SimScheduler::enter), 2,
                static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
  }
  current_ = n - 1;
  running_ = true;
  while (alive_ != 0 && !stuck_) {
    std::uint32_t next = next_after(current_);
    current_ = next;
    if (std::uint32_t const others = alive_ & ~(1u << next); others != 0) current_ = choose(others);
    in_a_row_ = 0;
    swapcontext(&main_, &fibers[current_]->context);
  }
  running_ = false;
  first_thread_ += n;
  return !stuck_;
}

std::uint32_t SimScheduler::next_after(std::uint32_t fiber) const {
  std::uint32_t const above = fiber >= 31 ? 0 : alive_ & (~0u << (fiber + 1));
  return static_cast<std::uint32_t>(std::countr_zero(above != 0 ? above : alive_));
}

/// Who goes on at this point: the current fiber, or one of `others`.
std::uint32_t SimScheduler::choose(std::uint32_t others) {
  std::uint64_t const now = points_++;
  others_.push_back(others);
  std::uint32_t chosen = current_;
  if (next_listed_ < schedule_.switches.size() && schedule_.switches[next_listed_].point == now) {
    std::uint32_t const listed = schedule_.switches[next_listed_++].fiber;
    if ((others >> listed & 1) != 0) chosen = listed;
  } else if (schedule_.one_in != 0 && draw() % schedule_.one_in == 0) {
    std::uint64_t skip = draw() % static_cast<std::uint64_t>(std::popcount(others));
    std::uint32_t left = others;
    for (; skip > 0; --skip) left &= left - 1;
    chosen = static_cast<std::uint32_t>(std::countr_zero(left));
  }
  if (chosen != current_) taken_.push_back({now, chosen});
  return chosen;
}

void SimScheduler::point() {
  if (!running_) return;
  if (++launch_points_ >
      schedule_.most_points) {  // the fibers are given up where they stand, with what they own
    stuck_ = true;
    swapcontext(&fibers[current_]->context, &main_);
  }
  std::uint32_t const others = alive_ & ~(1u << current_);
  if (others == 0) return;
  std::uint32_t next = choose(others);
  if (next == current_ && ++in_a_row_ > kPatience) {
    std::uint32_t const above = current_ >= 31 ? 0 : others & (~0u << (current_ + 1));
    next = static_cast<std::uint32_t>(std::countr_zero(above != 0 ? above : others));
  }
  if (next == current_) return;
  in_a_row_ = 0;
  std::uint32_t const from = current_;
  current_ = next;
  swapcontext(&fibers[from]->context, &fibers[next]->context);
}

}  // namespace perdure::exec
