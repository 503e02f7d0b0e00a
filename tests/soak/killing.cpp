// The victim (victim.hpp) loads a pool; this process kills it with SIGKILL at a chosen moment, or a
// kernel of it aborts itself. What is left is copied, the copy is opened and judged (judge.hpp),
// and the next victim goes on with the original, so that recovery works on what recovery made. Now
// and then the original is closed in order in between, and a full pool gives way to a new one.
// Invariant: steps follow from (seed, kill, number) alone; of what failed, the files as the kill
// left them are kept.
#include "soak/killing.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "crash/pool_file.hpp"
#include "soak/children.hpp"
#include "soak/forgetting_files.hpp"
#include "soak/judge.hpp"
#include "soak/site.hpp"
#include "soak/victim.hpp"

namespace perdure::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kNewPoolOneIn = 50;
constexpr std::uint64_t kClosedOneIn = 4;

/// Whether the pool at `path` is in a resize to at least 2^log2_buckets; a glance, which may be
/// torn.
bool resizing(std::string const& path, std::uint32_t log2_buckets) {
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  Bytes head(pm::kHeadBytes);
  bool const ok = ::pread(fd, head.data(), head.size(), 0) == static_cast<ssize_t>(head.size());
  ::close(fd);
  if (!ok) return false;
  Image const image(std::move(head));
  auto found = gphash::read_levels(image.root(), image.header().levels);
  return found && found->retires && found->levels[0].log2_buckets >= log2_buckets;
}

class Soak {
 public:
  Soak(Arguments const& arguments, Tally& counts)
      : tally(counts),
        arguments_(arguments),
        random_(arguments.seed),
        site_(arguments.log_dir, on_forgetting_disk()),
        begin_(Clock::now()) {}

  /// All kills, then all traps; false (with lines on stderr) at the first that lost something.
  bool run() {
    std::uint64_t const all = arguments_.kills + arguments_.traps;
    for (std::uint64_t kill = 0; kill < all; ++kill) {
      if (!crash_once(kill, kill >= arguments_.kills)) {
        ++tally.lost;
        if (plant_ == Plant::none) site_.keep();
        break;
      }
      tally.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
      say_progress(kill + 1, all);
    }
    tally.lost += !reap(all, true);
    if (shown_ && ::isatty(STDERR_FILENO) != 0) std::fputc('\n', stderr);
    return tally.lost == 0;
  }

  Tally& tally;

 private:
  enum class Moment { any, opening, step, transaction, resize, kernel };

  bool crash_once(std::uint64_t kill, bool by_trap) {
    if (fresh_ || random_() % kNewPoolOneIn == 0) begin_life();
    page_.clear();
    Assignment work{site_.original(kind_.power),
                    kind_,
                    fresh_,
                    arguments_.seed,
                    kill,
                    by_trap ? std::optional(choose_trap()) : std::nullopt,
                    plant_};
    choose_trouble(work);
    pid_t const victim = start_victim(work, *page_);
    if (victim < 0) return wrong(kill, "cannot fork");
    if (by_trap) {
      if (!wait_for_the_trap(kill, victim, *work.trap)) return false;
    } else if (!kill_at_some_moment(kill, victim)) {
      return false;
    }
    site_.sweep();
    count(by_trap);
    bool const cut = kind_.disk && random_() % 4 != 0;
    if (cut) cut_power();
    tally.with_forks += work.forks;
    tally.with_allocations += work.allocations_fail != 0;
    tally.with_disk += work.disk_fails != 0;
    if (page_->child_wrong != 0) return wrong(kill, why_not_in_order(page_->child_wrong));
    if (!reap(kill, false)) return false;
    return examine(kill, cut) && carry_on(kill);
  }

  /// What goes wrong beside the kill: one of the troubles asked for, or none.
  void choose_trouble(Assignment& work) {
    if (arguments_.with.empty()) return;
    std::size_t const which = random_() % (arguments_.with.size() + 1);
    std::string const trouble = which == 0 ? "" : arguments_.with[which - 1];
    work.forks = trouble == "forks";
    if (trouble == "disk") work.disk_fails = spread(5, 500);
    if (trouble == "allocations") work.allocations_fail = spread(20, 5000);
  }

  [[nodiscard]] bool on_forgetting_disk() const {
    return std::find(arguments_.with.begin(), arguments_.with.end(), "disk") !=
           arguments_.with.end();
  }

  /// Memory is gone, and of the disk what was not synced.
  void cut_power() {
    PoolFiles const files = site_.original(true);
    ++tally.power_cuts;
    tally.forgotten += ForgettingFiles::cut_power(files.log_dir, random_);
    std::error_code none;
    fs::remove(files.path, none);
  }

  /// Children of victims that are no more end as this process's. `all`: waits for those that still
  /// live.
  bool reap(std::uint64_t kill, bool all) {
    int status = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &status, all ? 0 : WNOHANG)) > 0;)
      if (!left_in_order(status))
        return wrong(kill, "with its parent gone, " + why_not_in_order(status));
    return true;
  }

  void begin_life() {
    static constexpr Shape kShapes[] = {{2, 2, 8}, {2, 2, 8}, {3, 2, 4}, {1, 2, 16}};
    static constexpr std::pair<std::string_view, Layout> kLayouts[] = {
        {"word", Layout::word}, {"in_place", Layout::in_place}, {"log", Layout::log}};
    static constexpr std::pair<std::uint32_t, std::uint32_t> kSizes[] = {
        {8, 16}, {0, 0}, {24, 16}, {40, 0}};
    if (arguments_.index != "gphash")
      kind_.index = arguments_.index == "dash-eh" ? Index::dash_eh : Index::dash_lh;
    std::uint64_t number = born_ + arguments_.seed;
    if (arguments_.layout == "all") {
      kind_.layout = kLayouts[number % 3].second;
      number /= 3;
    }
    for (auto const& [name, layout] : kLayouts)
      if (name == arguments_.layout) kind_.layout = layout;
    std::tie(kind_.key_bytes, kind_.value_bytes) = kSizes[number % 4];
    kind_.shape = kind_.layout == Layout::log ? kShapes[0] : kShapes[random_() % 4];
    kind_.power = arguments_.durability == "power";
    kind_.disk = on_forgetting_disk();
    kind_.device = arguments_.device == "cuda" ? Device::cuda : Device::cpu;
    site_.clear();
    model_.clear();
    unsettled_.reset();
    fresh_ = true;
    crashed_ = false;
    top_ = 0;
    ++tally.pools;
  }

  // --------------------------------------------------------------------------------------------
  // the crash

  Trap choose_trap() {
    using fault::TrapPoint;
    // Layouts word and log order between kernels only.
    static constexpr TrapPoint kPoints[] = {TrapPoint::record, TrapPoint::word,
                                            TrapPoint::host_ordering, TrapPoint::ordering};
    TrapPoint const point = kPoints[random_() % (kind_.layout == Layout::in_place ? 4 : 3)];
    return {point, spread(1, point == TrapPoint::host_ordering ? 100 : 20'000)};
  }

  /// From `least` to `most`, each order of magnitude as likely as the others.
  std::uint64_t spread(double least, double most) {
    std::uniform_real_distribution<double> exponent(std::log(least), std::log(most));
    return static_cast<std::uint64_t>(std::exp(exponent(random_)));
  }

  bool wait_for_the_trap(std::uint64_t kill, pid_t victim, Trap const& trap) {
    int status = 0;
    ::waitpid(victim, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kTrapped) return true;
    return wrong(kill, "pass " + std::to_string(trap.nth) + " of trap point " +
                           std::to_string(static_cast<std::uint32_t>(trap.point)) +
                           " did not end the process in order");
  }

  bool kill_at_some_moment(std::uint64_t kill, pid_t victim) {
    wait_for(choose_moment(), victim);
    ::kill(victim, SIGKILL);
    int status = 0;
    ::waitpid(victim, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
    return wrong(kill,
                 "the loading process ended by itself, with status " + std::to_string(status));
  }

  Moment choose_moment() {
    using enum Moment;
    if (plant_ == Plant::transactions) return transaction;
    static constexpr Moment kCpu[] = {any, opening, step, resize, step, transaction};
    static constexpr Moment kCuda[] = {any, opening, kernel, resize, kernel, transaction};
    Moment const moment = (kind_.device == Device::cuda ? kCuda : kCpu)[random_() % 6];
    bool const gphash = kind_.index == Index::gphash;
    bool const never =
        (moment == resize && !gphash) || (moment == transaction && !has_transactions());
    return never ? step : moment;
  }

  [[nodiscard]] bool has_transactions() const {
    return kind_.index == Index::gphash && kind_.layout != Layout::in_place;
  }

  void wait_for(Moment moment, pid_t victim) {
    using std::chrono::microseconds;
    auto const sleep = [](std::uint64_t us) { std::this_thread::sleep_for(microseconds(us)); };
    auto const begun = [&] { return page_->phase != Phase::forked; };
    auto const loading = [&] { return page_->opened_in_us != 0; };
    switch (moment) {
      case Moment::any:
        if (kind_.device == Device::cuda)
          wait_until(victim, loading);  // making a context takes longer than all else
        wait_until(victim, begun);
        return sleep(spread(1, 200'000));
      case Moment::opening:
        wait_until(victim, begun);
        return sleep(random_() % (opening_us_ * 5 / 4 + 200));
      case Moment::step: {
        std::uint64_t const goal = random_() % 30;
        wait_until(victim, [&] { return page_->started > goal; });
        return sleep(random_() % 3000);
      }
      case Moment::transaction: {
        std::uint64_t const goal = random_() % 20;
        wait_until(
            victim, [&] { return page_->started > goal && page_->open_transaction == 1; }, 5000,
            false);
        return spin(spread(1, 10'000));
      }
      case Moment::resize: {
        auto const goal = std::max(top_ + 1, 8 + static_cast<std::uint32_t>(random_() % 5));
        wait_until(victim, loading);
        wait_until(victim, [&] { return resizing(site_.original(false).path, goal); }, 700);
        return spin(spread(1, 300));
      }
      case Moment::kernel:
        wait_until(victim, loading);
        sleep(random_() % 100'000);
        wait_until(victim, [&] { return page_->kernel == 1; }, 1000, false);
        return spin(random_() % 200);
    }
  }

  template <class Condition>
  void wait_until(pid_t victim, Condition met, int most_ms = 60'000, bool patient = true) {
    auto const deadline = Clock::now() + std::chrono::milliseconds(most_ms);
    while (!met() && Clock::now() < deadline && page_->phase != Phase::done && !has_ended(victim)) {
      if (patient) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  static void spin(std::uint64_t us) {
    for (auto const end = Clock::now() + std::chrono::microseconds(us); Clock::now() < end;) {
    }
  }
  static bool has_ended(pid_t victim) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(victim), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }

  /// Where the crash hit, by what the victim had said and by the pool's root.
  void count(bool by_trap) {
    Page const& page = *page_;
    ++(by_trap ? tally.traps : tally.kills);
    bool const opening = page.phase == Phase::opening;
    bool const first = page.opens == 1;
    tally.in_step += page.started > page.acknowledged;
    tally.in_resize += resizing(site_.original(false).path, 0);
    tally.in_create += opening && first && fresh_;
    tally.in_recovery += opening && first && !fresh_ && crashed_;
    tally.in_open += opening && (!first || (!fresh_ && !crashed_));
    tally.in_close += page.phase == Phase::closing;
    tally.in_kernel += page.kernel == 1;
    tally.steps += page.acknowledged;
    tally.operations += page.operations;
    tally.children += page.forked_off;
    tally.failures += page.failures;
    tally.refused += page.refused;
    tally.failed_for_good += page.failed_for_good;
    if (page.opened_in_us != 0) opening_us_ = page.opened_in_us;
  }

  // ------------------------------------------------------------------------------------------ the
  // judgement

  /// Whether the power was `cut` after the kill.
  bool examine(std::uint64_t kill, bool cut) {
    Page const& page = *page_;
    std::uint64_t const acknowledged = page.acknowledged;
    for (std::uint64_t n = 0; n < acknowledged; ++n)
      if (!was_refused(n)) apply_to(model_, make_step(kind_, arguments_.seed, kill, n));
    Expected expected{model_, std::nullopt, acknowledged > page.closed_at};
    if (page.started > acknowledged)
      expected.in_flight = make_step(kind_, arguments_.seed, kill, acknowledged);
    if (expected.in_flight) {
      bool const open = expected.in_flight->is_transaction() && page.ending != page.started;
      if (open) expected.in_flight->how = Step::How::aborted;  // nothing of it may show
      tally.in_open_transaction += open;
      tally.in_atomic += expected.in_flight->how == Step::How::atomic;
      tally.in_transaction += expected.in_flight->is_transaction();
    }
    // What the last kill left was shown by a copy alone, until an opening of the original has
    // ended.
    bool const shown = page.opened_in_us != 0;
    if (shown) unsettled_.reset();
    if (cut && unsettled_) expected = unsettled_->expected;
    Verdict v = judge(site_.copy(kind_.power), kind_, Device::cpu, expected);
    bool const may_be_unborn = fresh_ || (cut && unsettled_ && unsettled_->fresh);
    bool const unborn = may_be_unborn && acknowledged == 0 && !shown &&
                        (v.open.code() == Code::not_found || v.open.code() == Code::corrupt ||
                         (kind_.disk && v.open.code() == Code::invalid_argument));
    if (unborn) {
      fresh_ = true;
      return true;
    }
    if (!v.wrong.empty()) {
      return wrong(kill, v.wrong + " (" + std::to_string(acknowledged) + " steps acknowledged, " +
                             std::to_string(page.started) + " started, " +
                             std::to_string(page.opens) + " opens, " +
                             (shown ? "" : "the first of them under way, ") + "the power " +
                             (cut ? "" : "not ") + "cut)");
    }
    if (kind_.device == Device::cuda && !judge_on_gpu(kill, v.found)) return false;
    site_.remove_copy();
    tally.keys += v.keys;
    tally.duplicates += v.recovery.duplicates;
    tally.half_inserted += v.recovery.dropped;
    tally.undone += v.recovery.undone;
    tally.replayed += v.recovery.replayed;
    tally.only_in_a_copy += cut && unsettled_ && v.found != model_;
    if (cut) {
      unsettled_.reset();
    } else if (!unsettled_) {
      unsettled_ = {expected, fresh_ && !shown};
    }
    model_ = std::move(v.found);
    top_ = v.top_level;
    crashed_ = true;
    born_ += fresh_;
    fresh_ = model_.size() > life_records();
    return true;
  }

  [[nodiscard]] bool was_refused(std::uint64_t number) {
    auto const* const begin = page_->refused_step.data();
    return std::find(begin, begin + page_->refused, number) != begin + page_->refused;
  }

  /// In a new process, for this one must not touch CUDA before it forks; all keys as the CPU found
  /// them.
  bool judge_on_gpu(std::uint64_t kill, Model const& found) {
    PoolFiles const files = site_.copy(kind_.power);
    pid_t const judging = ::fork();
    if (judging == 0) {
      Verdict const v = judge(files, kind_, Device::cuda, {found, std::nullopt, false});
      if (!v.wrong.empty()) std::fprintf(stderr, "soak: on the GPU: %s\n", v.wrong.c_str());
      std::fflush(stderr);
      ::_exit(v.wrong.empty() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(judging, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    return wrong(kill, "the pool opened on the GPU is not as opened on the CPU");
  }

  /// The next victim goes on with the original: as the crash left it, or closed in order.
  bool carry_on(std::uint64_t kill) {
    if (fresh_ || random_() % kClosedOneIn != 0) return true;
    std::optional<ForgettingFiles> disk;
    if (kind_.disk) disk.emplace();
    auto store = open_soon([&] { return open_pool(site_.original(kind_.power), Device::cpu); });
    unsettled_.reset();
    Status const closed = store.ok() ? store->close() : store.status();
    crashed_ = false;
    return closed.ok() || wrong(kill, "the original, after its copy was fine: " + closed.message());
  }

  bool wrong(std::uint64_t kill, std::string const& what) {
    PoolFiles const files = site_.original(kind_.power);
    if (shown_) std::fputc('\n', stderr);
    std::fprintf(stderr, "soak: seed %llu, kill %llu, %s: %s\n  %s: %s%s%s\n",
                 static_cast<unsigned long long>(arguments_.seed),
                 static_cast<unsigned long long>(kill), kind_.describe().c_str(), what.c_str(),
                 plant_ != Plant::none ? "a planted fault, not kept" : "kept", files.path.c_str(),
                 files.log_dir.empty() ? "" : " and ", files.log_dir.c_str());
    shown_ = false;
    return false;
  }

  /// On a terminal one line that changes, elsewhere a line every half minute.
  void say_progress(std::uint64_t done, std::uint64_t all) {
    bool const terminal = ::isatty(STDERR_FILENO) != 0;
    if (tally.seconds - said_at_ < (terminal ? 0.2 : 30) && !(terminal && done == all)) return;
    said_at_ = tally.seconds;
    shown_ = terminal;
    std::fprintf(
        stderr, "%s%llu of %llu kills, %llu inside a step, %llu steps, %llu keys checked, %.0f s%s",
        terminal ? "\r" : "soak: ", static_cast<unsigned long long>(done),
        static_cast<unsigned long long>(all), static_cast<unsigned long long>(tally.in_step),
        static_cast<unsigned long long>(tally.steps), static_cast<unsigned long long>(tally.keys),
        tally.seconds, terminal ? "  " : "\n");
    std::fflush(stderr);
  }

  static Plant plant_of(std::string const& name) {
    for (PlantName const& p : kPlants)
      if (name == p.name) return p.plant;
    return Plant::none;
  }

  Arguments const arguments_;
  Plant const plant_ = plant_of(arguments_.plant);
  std::mt19937_64 random_;
  Site site_;
  SharedPage page_;
  Clock::time_point const begin_;
  Kind kind_;
  Model model_;  // what the last judgement found
  struct Unsettled {
    Expected expected;
    bool fresh;  // or no pool
  };
  std::optional<Unsettled>
      unsettled_;  // what it might have found, where a power cut may still bring that about
  std::uint64_t born_ = 0;  // pools that outlived their making; what did not is made again
  bool fresh_ = true;  // the next victim makes the pool
  bool crashed_ = false;  // the original was not closed in order
  std::uint32_t top_ = 0;
  std::uint64_t opening_us_ = 2000;
  double said_at_ = 0;
  bool shown_ = false;
};

}  // namespace

bool kill_again_and_again(Arguments const& arguments, Tally& tally) {
  return Soak(arguments, tally).run();
}

}  // namespace perdure::test
