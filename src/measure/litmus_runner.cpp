#include "measure/litmus_runner.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "base/process.hpp"
#include "exec/cpu/cpu_lanes.hpp"
#include "measure/litmus_counts.hpp"
#include "measure/measuring.hpp"

namespace perdure::measure {

using exec::CpuLanes;
using exec::Order;

namespace {

constexpr std::uint32_t kMostTeams = 8;
constexpr std::uint64_t kPassRuns = std::uint64_t{1} << 18;  // at most
constexpr std::uint64_t kCellWords =
    std::uint64_t{kMostTeams} * kRing * exec::kLanes * kWordStride;  // of all x, or of all y
constexpr std::uint64_t kSeenWords = kMostThreads * kPassRuns;
constexpr std::uint64_t kMetWords = std::uint64_t{kMostTeams} * kMostThreads * kMetStride;
constexpr auto kPatience = std::chrono::seconds(20);  // with a kernel that does not end

}  // namespace

Result<std::unique_ptr<LitmusRunner>> LitmusRunner::make(LitmusGpu* gpu, LitmusMemory memory) {
  std::uint32_t const cores = std::max(1u, std::thread::hardware_concurrency());
  std::unique_ptr<LitmusRunner> made(new LitmusRunner(gpu, cores));
  if (Status s = made->allocate(memory); !s.ok()) return s;
  return made;
}

LitmusRunner::~LitmusRunner() {
  if (managed_ != nullptr) gpu_->free_managed(managed_);
}

Status LitmusRunner::allocate(LitmusMemory memory) {
  auto const kind = gpu_ == nullptr ? Pages::Kind::plain : Pages::Kind::pinned;
  constexpr std::size_t kNoteBytes = (kSeenWords + kMetWords + kMetStride) * sizeof(std::uint32_t);
  constexpr std::size_t kCellBytes = 2 * kCellWords * sizeof(std::uint32_t);
  auto notes = Pages::make(kNoteBytes, kind);
  if (!notes.ok()) return notes.status();
  notes_ = std::move(*notes);
  if (memory == LitmusMemory::managed && gpu_ != nullptr) {
    auto managed = gpu_->allocate_managed(kCellBytes);
    if (!managed.ok()) return managed.status();
    managed_ = *managed;
    x_ = static_cast<std::uint32_t*>(managed_);
    return {};
  }
  auto cells = Pages::make(kCellBytes, memory == LitmusMemory::system ? Pages::Kind::plain : kind);
  if (!cells.ok()) return cells.status();
  cells_ = std::move(*cells);
  x_ = cells_.as<std::uint32_t>();
  return {};
}

LitmusPass LitmusRunner::pass_of(LitmusCase const& one) const {
  LitmusPass pass;
  pass.x = x_;
  pass.y = x_ + kCellWords;
  pass.seen = notes_.as<std::uint32_t>();
  pass.met = pass.seen + kSeenWords;
  pass.stop = pass.met + kMetWords;
  std::copy(one.test->steps.begin(), one.test->steps.end(), pass.steps);
  pass.threads = one.test->threads;
  auto const on_host = static_cast<std::uint32_t>(
      std::count(one.sides.begin(), one.sides.begin() + pass.threads, SideOf::cpu));
  pass.teams = on_host == 0 ? kMostTeams : std::clamp(cores_ / on_host, 1u, kMostTeams);
  // A thread that must wait for a core makes a meeting long, and so do pages that move: such passes
  // are short, so that the clock is looked at in time.
  bool const slow = on_host * pass.teams > cores_ || managed_ != nullptr;
  std::uint64_t const runs = slow ? kPassRuns / 16 : kPassRuns;
  pass.groups = static_cast<std::uint32_t>(runs / (std::uint64_t{pass.teams} * exec::kLanes));
  pass.order = one.order;
  pass.seed = passes_ * 0x9e3779b97f4a7c15ull;
  return pass;
}

Result<Counted> LitmusRunner::run(LitmusCase const& one, std::uint64_t runs, double seconds) {
  Counted all;
  auto const began = std::chrono::steady_clock::now();
  do {
    LitmusPass pass = pass_of(one);
    ++passes_;
    std::uint64_t const per_group = std::uint64_t{pass.teams} * exec::kLanes;
    std::uint64_t const left = (runs - all.runs + per_group - 1) / per_group;
    pass.groups = static_cast<std::uint32_t>(std::min<std::uint64_t>(pass.groups, left));
    if (Status s = run_pass(one, pass); !s.ok()) return s;
    all.runs += pass.runs();
    all.seen += count_seen(*one.test, pass);
    all.seconds = seconds_since(began);
  } while (all.runs < runs && all.seconds < seconds);
  return all;
}

Status LitmusRunner::run_pass(LitmusCase const& one, LitmusPass const& pass) {
  std::memset(x_, 0, 2 * kCellWords * sizeof(std::uint32_t));
  std::memset(pass.met, 0, (kMetWords + kMetStride) * sizeof(std::uint32_t));
  GpuThreads on_gpu;
  for (std::uint32_t i = 0; i < pass.threads; ++i)
    if (one.sides[i] == SideOf::gpu) on_gpu.which[on_gpu.count++] = i;
  if (on_gpu.count > 0) {
    if (Status s = gpu_->start(pass, one.scope, on_gpu); !s.ok()) return s;
  }
  std::vector<std::thread> threads;
  try {
    for (std::uint32_t team = 0; team < pass.teams; ++team) {
      for (std::uint32_t i = 0; i < pass.threads; ++i) {
        if (one.sides[i] == SideOf::cpu)
          threads.emplace_back([&pass, team, i] { run_thread(CpuLanes{}, pass, team, i); });
      }
    }
  } catch (std::system_error const& error) {
    CpuLanes::store<Order::sequential>(pass.stop, 1);
    static_cast<void>(join(threads, pass, on_gpu.count > 0));
    return {Code::no_space, std::string("beginning the threads of a litmus test: ") + error.what()};
  }
  return join(threads, pass, on_gpu.count > 0);
}

Status LitmusRunner::join(std::vector<std::thread>& threads, LitmusPass const& pass, bool on_gpu) {
  for (std::thread& one : threads) one.join();
  auto const until = std::chrono::steady_clock::now() + kPatience;
  while (on_gpu) {
    auto ended = gpu_->ended();
    if (!ended.ok()) return ended.status();
    if (*ended) break;
    if (std::chrono::steady_clock::now() < until) continue;
    CpuLanes::store<Order::sequential>(pass.stop, 1);
    if (Status s = gpu_->wait(); !s.ok()) return s;
  }
  if (CpuLanes::load<Order::sequential>(pass.stop) == 0) return {};
  return {Code::device_error,
          "a thread of a litmus test did not come: stores of one side did not reach the other in "
          "time, or this machine has no core free for it (run fewer programs beside it)"};
}

Result<Counted> LitmusRunner::hand_over(std::uint64_t runs, double seconds) {
  Counted all;
  auto const began = std::chrono::steady_clock::now();
  std::uint32_t* const right = notes_.as<std::uint32_t>();
  std::uint32_t const n = static_cast<std::uint32_t>(std::min<std::uint64_t>(kPassRuns, runs));
  std::uint32_t round = 0;
  do {
    std::uint32_t const ours = ++round, theirs = ++round;
    std::fill_n(x_, n, ours);
    std::fill_n(right, n, 0);
    if (Status s = gpu_->hand_over(x_, right, n, ours, theirs); !s.ok()) return s;
    for (std::uint32_t i = 0; i < n; ++i) all.seen += right[i] == 1 && x_[i] == theirs ? 0 : 1;
    all.runs += n;
    all.seconds = seconds_since(began);
  } while (all.runs < runs && all.seconds < seconds);
  return all;
}

}  // namespace perdure::measure
