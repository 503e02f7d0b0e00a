#include "kv_bench.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

#include "failure.hpp"
#include "index_keys.hpp"

namespace perdure::bench {
namespace {

namespace kv = kv_baselines;

/// Records of a call that fills a store.
constexpr std::uint64_t kFilled = 1024, kFilledLarge = 256, kLarge = 1024;

double cpu_seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

constexpr std::uint64_t kNoBound = std::uint64_t{1} << 40;
constexpr std::uint64_t kLeastRange = std::uint64_t{1} << 30;

kv::Options options_of(KvSetting const& s) {
  kv::Options options = s.store;
  if (!s.sustained) options.most_queued = kNoBound;
  // Of addresses alone: the heap's slots, or a log that is never more than half outdated, and the
  // room for bursts on top of that.
  std::uint64_t const each = s.store.value_bytes + 96;
  auto const aged = static_cast<std::uint64_t>(s.age * static_cast<double>(s.records));
  std::uint64_t const bytes = (2 * s.records + 4 * s.ops + aged) * each;
  options.max_bytes = std::max(bytes, kLeastRange) + kLeastRange;
  return options;
}

/// Each value begins with its key.
void begin_values(std::span<std::uint64_t const> keys, std::size_t bytes,
                  std::vector<std::byte>& values) {
  for (std::size_t i = 0; i < keys.size(); ++i)
    std::memcpy(values.data() + i * bytes, &keys[i], sizeof keys[i]);
}

std::uint64_t wrong_values(std::span<OpKind const> kinds, std::span<std::uint64_t const> keys,
                           std::size_t bytes, std::vector<std::byte> const& out) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < keys.size(); ++i)
    wrong += kinds[i] == OpKind::get &&
             std::memcmp(out.data() + i * bytes, &keys[i], sizeof keys[i]) != 0;
  return wrong;
}

}  // namespace

/// One thread's session and arrays.
struct KvBench::Thread {
  std::unique_ptr<kv::Session> session;
  Random random;
  std::vector<OpKind> kinds;
  std::vector<std::uint64_t> keys;
  std::vector<std::byte> values, out;
  std::uint64_t inserted = 0;  // by workload d and e
  std::uint64_t faults = 0;
  double cpu_seconds = 0, emulating_seconds = 0, longest_us = 0;
  Clock::time_point end;
  alignas(64) std::atomic<std::uint64_t> done{0};
};

/// What a workload asks next, of one thread.
class KvBench::Operations {
 public:
  Operations(KvBench const& bench, KvWork const& work, std::uint32_t t, Thread& thread)
      : bench_(bench),
        s_(bench.setting_),
        work_(work),
        ops_(work.workload == "delete" ? std::min(s_.ops, s_.records) : s_.ops),
        t_(t),
        thread_(thread) {}

  /// Of the thread's part.
  [[nodiscard]] std::uint64_t count() const { return from(t_ + 1) - from(t_); }

  /// The i-th of the thread's part.
  void next(std::uint64_t i, OpKind& kind, std::uint64_t& key) {
    std::string const& workload = work_.workload;
    std::uint64_t const part = from(t_) + i;
    if (workload == "insert") return set(OpKind::put, s_.records + part, kind, key);
    if (workload == "delete") return set(OpKind::erase, part, kind, key);
    if (workload == "update") return set(OpKind::update, loaded(), kind, key);
    if (workload == "get" || workload == "c") return set(OpKind::get, loaded(), kind, key);
    double const writes = workload == "a" ? 0.5 : 0.05;
    bool const write = unit(thread_.random) < writes;
    if (workload == "d" || workload == "e") {
      if (write) return set(OpKind::put, own(thread_.inserted++), kind, key);
      return set(OpKind::get, workload == "d" ? latest() : loaded(), kind, key);
    }
    set(write ? OpKind::update : OpKind::get, loaded(), kind, key);
  }
  /// Whether what next() calls a get is a scan.
  [[nodiscard]] bool scans() const { return work_.workload == "e"; }

 private:
  [[nodiscard]] std::uint64_t from(std::uint64_t t) const { return ops_ * t / s_.threads; }
  static void set(OpKind k, std::uint64_t number, OpKind& kind, std::uint64_t& key) {
    kind = k;
    key = IndexKeys::mixed(number + 1);
  }
  std::uint64_t loaded() {
    if (work_.zipf == nullptr) return below(thread_.random, s_.records);
    return bench_.scramble_((*work_.zipf)(thread_.random));
  }
  /// The n-th that this thread inserts beside workloads that insert everything.
  [[nodiscard]] std::uint64_t own(std::uint64_t n) const {
    return s_.records + s_.ops + n * s_.threads + t_;
  }
  /// Of what this thread has inserted and what was loaded, the later the likelier.
  std::uint64_t latest() {
    std::uint64_t const rank =
        work_.zipf == nullptr ? below(thread_.random, s_.records) : (*work_.zipf)(thread_.random);
    if (rank < thread_.inserted) return own(thread_.inserted - 1 - rank);
    return s_.records - 1 - std::min(rank - thread_.inserted, s_.records - 1);
  }

  KvBench const& bench_;
  KvSetting const& s_;
  KvWork const& work_;
  std::uint64_t ops_;
  std::uint32_t t_;
  Thread& thread_;
};

/// f(t, thread) on each, beside each other.
template <class F>
void KvBench::on_threads(F f) {
  std::vector<std::jthread> all;
  for (std::uint32_t t = 0; t < setting_.threads; ++t)
    all.emplace_back([&f, t, this] { f(t, *threads_[t]); });
}

KvBench::KvBench(KvSetting const& setting)
    : setting_(setting), file_(setting.pool), scramble_(setting.records) {
  store_ = require(kv::create(file_.path(), options_of(setting)), "create " + file_.path());
  std::size_t const value = setting.store.value_bytes;
  std::size_t const n = std::max(setting.batch, value <= kLarge ? kFilled : kFilledLarge);
  for (std::uint32_t t = 0; t < setting.threads; ++t) {
    Thread& thread = *threads_.emplace_back(std::make_unique<Thread>());
    thread.random.seed(setting.seed * 64 + t + 1);
    thread.kinds.resize(n);
    thread.keys.resize(n);
    thread.values.resize(n * value, std::byte{0x5a});
    thread.out.resize(n * value);
  }
  fill();
}

void KvBench::open_sessions(bool filling) {
  for (auto const& thread : threads_)
    thread->session = filling ? store_->filling_session() : store_->session();
}

KvBench::~KvBench() = default;

void KvBench::fill() {
  auto const begin = Clock::now();
  open_sessions(true);
  std::uint64_t const n = setting_.records, threads = setting_.threads;
  auto const updates = static_cast<std::uint64_t>(setting_.age * static_cast<double>(n)) / threads;
  on_threads([&](std::uint32_t t, Thread& thread) {
    load(thread, n * t / threads, n * (t + 1) / threads);
  });
  on_threads([&](std::uint32_t, Thread& thread) { age(thread, updates); });
  for (auto const& thread : threads_) {
    if (thread->faults == 0) continue;
    throw Failure("the store took not all records: " + thread->session->last_status().message());
  }
  store_->wait_for_collectors();
  open_sessions(false);
  filling_seconds_ = seconds(Clock::now() - begin);
}

void KvBench::load(Thread& thread, std::uint64_t begin, std::uint64_t end) {
  std::array<OpKind, 1> const put{OpKind::put};
  for (std::uint64_t at = begin; at < end;) {
    std::size_t const some = std::min<std::uint64_t>(thread.keys.size(), end - at);
    for (std::size_t i = 0; i < some; ++i) thread.keys[i] = IndexKeys::mixed(++at);
    auto const keys = std::span(thread.keys).first(some);
    begin_values(keys, setting_.store.value_bytes, thread.values);
    thread.faults += thread.session->apply({put, keys, thread.values, {}});
  }
}

void KvBench::age(Thread& thread, std::uint64_t updates) {
  std::array<OpKind, 1> const update{OpKind::update};
  for (std::uint64_t done = 0; done < updates;) {
    std::size_t const some = std::min<std::uint64_t>(thread.keys.size(), updates - done);
    for (std::size_t i = 0; i < some; ++i)
      thread.keys[i] = IndexKeys::mixed(below(thread.random, setting_.records) + 1);
    auto const keys = std::span(thread.keys).first(some);
    begin_values(keys, setting_.store.value_bytes, thread.values);
    thread.faults += thread.session->apply({update, keys, thread.values, {}});
    done += some;
  }
}

/// One call of n operations, which are made already.
bool KvBench::ask_once(Operations& operations, Thread& thread, std::size_t n) {
  std::size_t const bytes = setting_.store.value_bytes;
  auto const kinds = std::span(thread.kinds).first(n);
  auto const keys = std::span(thread.keys).first(n);
  begin_values(keys, bytes, thread.values);
  if (operations.scans() && kinds[0] == OpKind::get) {
    std::size_t const most = 1 + below(thread.random, kLongestScan);
    std::uint64_t const seen =
        thread.session->scan(keys[0], most, [&](std::uint64_t key, auto value) {
          thread.faults += std::memcmp(value.data(), &key, sizeof key) != 0;
        });
    return seen != 0;
  }
  bool const same = std::ranges::adjacent_find(kinds, std::not_equal_to{}) == kinds.end();
  std::uint64_t const wrong =
      thread.session->apply({same ? kinds.first(1) : kinds, keys, thread.values, thread.out}) +
      wrong_values(kinds, keys, bytes, thread.out);
  thread.faults += wrong > 1 ? wrong - 1 : 0;
  return wrong == 0;
}

void KvBench::ask(KvWork const& work, std::uint32_t t, Thread& thread) {
  Operations operations(*this, work, t, thread);
  std::uint64_t const n = operations.count();
  std::uint64_t const batch = operations.scans() ? 1 : setting_.batch;
  bool const series = setting_.series_ms != 0;
  std::uint32_t calls = 0;
  for (std::uint64_t at = 0; at < n;) {
    std::size_t const some = std::min(batch, n - at);
    for (std::size_t i = 0; i < some; ++i) operations.next(at + i, thread.kinds[i], thread.keys[i]);
    at += some;
    auto const begin = series ? Clock::now() : Clock::time_point{};
    thread.faults += !ask_once(operations, thread, some);
    thread.done.store(at, std::memory_order_relaxed);
    if (series)
      thread.longest_us = std::max(thread.longest_us, seconds(Clock::now() - begin) * 1e6);
    // The clock costs little beside sixteen calls.
    if (setting_.seconds != 0 && ++calls % 16 == 0 &&
        seconds(Clock::now() - begin_) >= setting_.seconds)
      return;
  }
}

/// Counts operations while they run.
void KvBench::watch(KvMeasured& measured, std::atomic<std::uint32_t> const& running) const {
  if (setting_.series_ms == 0) return;
  measured.series.resize(threads_.size());
  auto next = Clock::now();
  while (running.load() != 0) {
    next += std::chrono::milliseconds(setting_.series_ms);
    std::this_thread::sleep_until(next);
    for (std::size_t t = 0; t < threads_.size(); ++t)
      measured.series[t].push_back(threads_[t]->done.load(std::memory_order_relaxed));
  }
}

/// How many records are not there, or have another's value.
std::uint64_t KvBench::check_all() {
  std::array<OpKind, 1> const get{OpKind::get};
  std::size_t const bytes = setting_.store.value_bytes;
  std::uint64_t const n = setting_.records, threads = setting_.threads;
  std::atomic<std::uint64_t> wrong{0};
  on_threads([&](std::uint32_t t, Thread& thread) {
    for (std::uint64_t at = n * t / threads, end = n * (t + 1) / threads; at < end;) {
      std::size_t const some = std::min<std::uint64_t>(256, end - at);
      for (std::size_t i = 0; i < some; ++i) thread.keys[i] = IndexKeys::mixed(++at);
      std::fill_n(thread.kinds.begin(), some, OpKind::get);
      auto const keys = std::span(thread.keys).first(some);
      wrong += thread.session->apply({get, keys, thread.values, thread.out});
      wrong += wrong_values(std::span(thread.kinds).first(some), keys, bytes, thread.out);
    }
  });
  return wrong;
}

KvMeasured KvBench::recover(KvWork const& work) {
  KvMeasured measured = run({"update", nullptr, 1});
  std::uint64_t records = setting_.records + inserted_;
  for (auto const& thread : threads_) {
    records += thread->inserted;
    thread->session.reset();
  }
  store_.reset();
  kv::Options options = options_of(setting_);
  options.parts = work.recovery_threads == 1;
  auto const begin = Clock::now();
  store_ = require(kv::recover(file_.path(), options, work.recovery_threads, measured.recovery),
                   "open " + file_.path());
  measured.recovery_seconds = seconds(Clock::now() - begin);
  open_sessions(false);
  measured.faults += check_all() + (measured.recovery.records != records);
  return measured;
}

KvMeasured KvBench::run(KvWork const& work) {
  if (work.workload == "recover") return recover(work);
  KvMeasured measured;
  store_->wait_for_collectors();  // for what came before
  for (auto const& thread : threads_) {
    thread->session->reset();
    thread->faults = 0;
    thread->done = 0;
  }
  kv::MediaWrites const media = store_->media_writes();
  kv::Collected const collected = store_->collected();
  time(work, measured);
  measured.media = store_->media_writes();
  measured.media.lines -= media.lines;
  measured.media.internal -= media.internal;
  measured.collected = store_->collected();
  measured.collected.segments -= collected.segments;
  measured.collected.moved_bytes -= collected.moved_bytes;
  measured.collected.appended_bytes -= collected.appended_bytes;
  finish(measured);
  if (work.workload == "insert") inserted_ += measured.ops;
  return measured;
}

void KvBench::time(KvWork const& work, KvMeasured& measured) {
  std::atomic<std::uint32_t> running{setting_.threads};
  double cpu_begin = 0;
  std::barrier ready(static_cast<std::ptrdiff_t>(threads_.size()), [&]() noexcept {
    begin_ = Clock::now();
    cpu_begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  });
  std::jthread const watching([&] { watch(measured, running); });
  on_threads([&](std::uint32_t t, Thread& thread) {
    ready.arrive_and_wait();
    double const cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    double const emulating = thread.session->emulating_seconds();
    ask(work, t, thread);
    thread.end = Clock::now();
    thread.emulating_seconds = thread.session->emulating_seconds() - emulating;
    thread.cpu_seconds = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu - thread.emulating_seconds;
    --running;
  });
  for (auto const& thread : threads_)
    measured.seconds =
        std::max(measured.seconds, seconds(thread->end - begin_) - thread->emulating_seconds);
  auto const ended = Clock::now();
  if (setting_.sustained) {
    store_->wait_for_collectors();
    measured.seconds += seconds(Clock::now() - ended);
  }
  measured.all_cpu_seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin;
}

void KvBench::finish(KvMeasured& measured) const {
  for (auto const& thread : threads_) {
    measured.ops += thread->done;
    measured.cpu_seconds += thread->cpu_seconds;
    measured.all_cpu_seconds -= thread->emulating_seconds;
    measured.longest_us = std::max(measured.longest_us, thread->longest_us);
    measured.faults += thread->faults;
    kv::PartSeconds const parts = thread->session->part_seconds();
    measured.parts.index += parts.index;
    measured.parts.space += parts.space;
    measured.parts.value += parts.value;
    kv::Counts const more = thread->session->counts();
    measured.counts.lines_read += more.lines_read;
    measured.counts.lines_written += more.lines_written;
    measured.counts.lines_flushed += more.lines_flushed;
    measured.counts.fences += more.fences;
  }
}

}  // namespace perdure::bench
