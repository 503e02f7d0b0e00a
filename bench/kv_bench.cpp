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

using Clock = std::chrono::steady_clock;
namespace kv = kv_baselines;

double cpu_seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// Of the store that is written: the heap's slots, or a log that is never more than half outdated
/// and the room for a burst on top of that.
std::uint64_t bytes_for(KvSetting const& s) {
  std::uint64_t const each = s.store.value_bytes + 96;
  return (2 * s.records + 2 * s.ops) * each + (std::uint64_t{256} << 20);
}

constexpr std::uint64_t kNoBound = std::uint64_t{1} << 40;

kv::Options options_of(KvSetting const& s) {
  kv::Options options = s.store;
  if (!s.sustained) options.most_queued = kNoBound;
  options.max_bytes = std::max<std::uint64_t>(bytes_for(s), std::uint64_t{1} << 30);
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
  Operations(KvBench const& bench, std::string const& workload, std::uint32_t t, Thread& thread)
      : bench_(bench), s_(bench.setting_), workload_(workload), t_(t), thread_(thread) {}

  /// The i-th of the thread's part.
  void next(std::uint64_t i, OpKind& kind, std::uint64_t& key) {
    std::uint64_t const part = s_.ops * t_ / s_.threads + i;
    if (workload_ == "insert") return set(OpKind::put, s_.records + part, kind, key);
    if (workload_ == "delete") return set(OpKind::erase, part, kind, key);
    if (workload_ == "update") return set(OpKind::update, loaded(), kind, key);
    if (workload_ == "get" || workload_ == "c") return set(OpKind::get, loaded(), kind, key);
    double const writes = workload_ == "a" ? 0.5 : 0.05;
    bool const write = unit(thread_.random) < writes;
    if (workload_ == "d" || workload_ == "e") {
      if (write) return set(OpKind::put, own(thread_.inserted++), kind, key);
      return set(OpKind::get, workload_ == "d" ? latest() : loaded(), kind, key);
    }
    set(write ? OpKind::update : OpKind::get, loaded(), kind, key);
  }
  /// Whether what next() calls a get is a scan.
  [[nodiscard]] bool scans() const { return workload_ == "e"; }

 private:
  static void set(OpKind k, std::uint64_t number, OpKind& kind, std::uint64_t& key) {
    kind = k;
    key = IndexKeys::mixed(number + 1);
  }
  std::uint64_t loaded() {
    if (s_.theta == 0) return below(thread_.random, s_.records);
    return bench_.scramble_(bench_.zipf_(thread_.random));
  }
  /// The n-th that this thread inserts beside workloads that insert everything.
  [[nodiscard]] std::uint64_t own(std::uint64_t n) const {
    return s_.records + s_.ops + n * s_.threads + t_;
  }
  /// Of what this thread has inserted and what was loaded, the later the likelier.
  std::uint64_t latest() {
    std::uint64_t const rank =
        s_.theta == 0 ? below(thread_.random, s_.records) : bench_.zipf_(thread_.random);
    if (rank < thread_.inserted) return own(thread_.inserted - 1 - rank);
    return s_.records - 1 - std::min(rank - thread_.inserted, s_.records - 1);
  }

  KvBench const& bench_;
  KvSetting const& s_;
  std::string const& workload_;
  std::uint32_t t_;
  Thread& thread_;
};

KvBench::KvBench(KvSetting const& setting)
    : setting_(setting),
      file_(setting.pool),
      zipf_(setting.theta == 0 ? 1 : setting.records, setting.theta),
      scramble_(setting.records) {
  store_ = require(kv::create(file_.path(), options_of(setting)), "create " + file_.path());
  for (std::uint32_t t = 0; t < setting.threads; ++t) {
    Thread& thread = *threads_.emplace_back(std::make_unique<Thread>());
    thread.random.seed(setting.seed * 64 + t + 1);
    std::size_t const n = std::max<std::uint64_t>(setting.batch, 256);
    thread.kinds.resize(n);
    thread.keys.resize(n);
    thread.values.resize(n * setting.store.value_bytes, std::byte{0x5a});
    thread.out.resize(n * setting.store.value_bytes);
  }
  open_sessions();
  load();
}

void KvBench::open_sessions() {
  for (auto const& thread : threads_) thread->session = store_->session();
}

KvBench::~KvBench() = default;

void KvBench::load() {
  std::uint64_t const n = setting_.records;
  std::vector<std::jthread> all;
  for (std::uint32_t t = 0; t < setting_.threads; ++t) {
    all.emplace_back([&, t] {
      Thread& thread = *threads_[t];
      std::array<OpKind, 1> const put{OpKind::put};
      for (std::uint64_t at = n * t / setting_.threads, end = n * (t + 1) / setting_.threads;
           at < end;) {
        std::size_t const some = std::min<std::uint64_t>(256, end - at);
        for (std::size_t i = 0; i < some; ++i) thread.keys[i] = IndexKeys::mixed(++at);
        auto const keys = std::span(thread.keys).first(some);
        begin_values(keys, setting_.store.value_bytes, thread.values);
        thread.faults += thread.session->apply({put, keys, thread.values, {}});
      }
    });
  }
  all.clear();
  for (auto const& thread : threads_) {
    if (thread->faults == 0) continue;
    throw Failure("the store took not all records: " + thread->session->last_status().message());
  }
  store_->wait_for_collectors();
}

void KvBench::work(std::string const& workload, std::uint32_t t, Thread& thread) {
  Operations operations(*this, workload, t, thread);
  std::size_t const bytes = setting_.store.value_bytes;
  std::uint64_t const n =
      setting_.ops * (t + 1) / setting_.threads - setting_.ops * t / setting_.threads;
  std::uint64_t const batch = operations.scans() ? 1 : setting_.batch;
  for (std::uint64_t at = 0; at < n;) {
    std::size_t const some = std::min(batch, n - at);
    for (std::size_t i = 0; i < some; ++i) operations.next(at + i, thread.kinds[i], thread.keys[i]);
    at += some;
    auto const kinds = std::span(thread.kinds).first(some);
    auto const keys = std::span(thread.keys).first(some);
    begin_values(keys, bytes, thread.values);
    auto const begin = setting_.series_ms != 0 ? Clock::now() : Clock::time_point{};
    if (operations.scans() && kinds[0] == OpKind::get) {
      std::size_t const most = 1 + below(thread.random, kLongestScan);
      std::uint64_t const seen =
          thread.session->scan(keys[0], most, [&](std::uint64_t key, auto value) {
            thread.faults += std::memcmp(value.data(), &key, sizeof key) != 0;
          });
      thread.faults += seen == 0;
    } else {
      bool const same = std::ranges::adjacent_find(kinds, std::not_equal_to{}) == kinds.end();
      thread.faults +=
          thread.session->apply({same ? kinds.first(1) : kinds, keys, thread.values, thread.out});
      thread.faults += wrong_values(kinds, keys, bytes, thread.out);
    }
    thread.done.store(at, std::memory_order_relaxed);
    if (setting_.series_ms != 0)
      thread.longest_us = std::max(thread.longest_us, seconds(Clock::now() - begin) * 1e6);
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
std::uint64_t KvBench::read_all() {
  Thread& thread = *threads_.front();
  std::array<OpKind, 1> const get{OpKind::get};
  std::size_t const bytes = setting_.store.value_bytes;
  std::uint64_t wrong = 0;
  for (std::uint64_t at = 0; at < setting_.records;) {
    std::size_t const some = std::min<std::uint64_t>(256, setting_.records - at);
    for (std::size_t i = 0; i < some; ++i) thread.keys[i] = IndexKeys::mixed(++at);
    std::fill_n(thread.kinds.begin(), some, OpKind::get);
    auto const keys = std::span(thread.keys).first(some);
    wrong += thread.session->apply({get, keys, thread.values, thread.out});
    wrong += wrong_values(std::span(thread.kinds).first(some), keys, bytes, thread.out);
  }
  return wrong;
}

KvMeasured KvBench::recover() {
  KvMeasured measured = run("update");
  for (auto const& thread : threads_) thread->session.reset();
  store_.reset();
  kv::Options options = options_of(setting_);
  options.parts = true;
  auto const begin = Clock::now();
  store_ = require(kv::recover(file_.path(), options, measured.recovery), "open " + file_.path());
  measured.seconds = seconds(Clock::now() - begin);
  open_sessions();
  measured.faults += read_all() + (measured.recovery.records != setting_.records);
  return measured;
}

KvMeasured KvBench::run(std::string const& workload) {
  if (workload == "recover") return recover();
  KvMeasured measured;
  for (auto const& thread : threads_) {
    thread->session->reset();
    thread->faults = 0;
    thread->done = 0;
  }
  kv::MediaWrites const media = store_->media_writes();
  kv::Collected const collected = store_->collected();
  std::atomic<std::uint32_t> running{setting_.threads};
  Clock::time_point begin;
  double cpu_begin = 0;
  std::barrier ready(static_cast<std::ptrdiff_t>(threads_.size()), [&]() noexcept {
    begin = Clock::now();
    cpu_begin = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  });
  {
    std::vector<std::jthread> all;
    for (std::uint32_t t = 0; t < setting_.threads; ++t) {
      all.emplace_back([&, t] {
        Thread& thread = *threads_[t];
        ready.arrive_and_wait();
        double const cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
        double const emulating = thread.session->emulating_seconds();
        work(workload, t, thread);
        thread.end = Clock::now();
        thread.emulating_seconds = thread.session->emulating_seconds() - emulating;
        thread.cpu_seconds = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu - thread.emulating_seconds;
        --running;
      });
    }
    watch(measured, running);
  }
  for (auto const& thread : threads_)
    measured.seconds =
        std::max(measured.seconds, seconds(thread->end - begin) - thread->emulating_seconds);
  auto const ended = Clock::now();
  if (setting_.sustained) {
    store_->wait_for_collectors();
    measured.seconds += seconds(Clock::now() - ended);
  }
  measured.all_cpu_seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin;
  measured.media = store_->media_writes();
  measured.media.lines -= media.lines;
  measured.media.internal -= media.internal;
  measured.collected = store_->collected();
  measured.collected.segments -= collected.segments;
  measured.collected.moved_bytes -= collected.moved_bytes;
  measured.collected.appended_bytes -= collected.appended_bytes;
  finish(measured);
  return measured;
}

void KvBench::finish(KvMeasured& measured) const {
  for (auto const& thread : threads_) {
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
