#include "exec/workers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "base/own_thread.hpp"
#include "base/process.hpp"

namespace perdure::exec {

namespace {

using Clock = std::chrono::steady_clock;

/// How long a thread looks for the next job before it sleeps: batches and their launches follow
/// each other sooner, and waking a thread takes as long as a small job. Where jobs come later, but
/// one after the other, twice as long as they take to come, up to the longer one.
constexpr auto kSpinForJobs = std::chrono::microseconds(100);
constexpr auto kMostSpin = std::chrono::microseconds(500);

std::uint32_t cores() { return std::max(1u, std::thread::hardware_concurrency()); }

void run_alone(std::size_t n, std::size_t chunk, Workers::Chunk f, void* context) {
  for (std::size_t b = 0; b < n; b += chunk) f(context, b, std::min(n, b + chunk));
}

}  // namespace

/// The threads beside the caller, and the job that they have.
class Workers::Helpers {
 public:
  Helpers(std::uint32_t threads, bool spins);
  ~Helpers() { stop(); }
  /// False: the pool has another's job.
  bool run(std::size_t n, std::size_t chunk, Chunk f, void* context);

  Helpers* aside = nullptr;  // put_aside()

 private:
  struct Job {
    Chunk f = nullptr;
    void* context = nullptr;
    std::size_t n = 0;
    std::size_t chunk = 1;
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr why;  // written by who set `failed`
  };
  static void work(Job& job) noexcept;
  void stop();
  void serve();
  template <class F>
  void for_a_while(F done) const;
  void note_pause() PERDURE_REQUIRES(busy_);

  std::vector<std::thread> threads_;
  Mutex busy_;  // held by the caller whose job the pool runs
  bool const spins_;
  Mutex mutex_;  // guards the rest; generation_ and running_ are looked at without, too
  Condition wake_;
  Condition done_;
  Job* job_ PERDURE_GUARDED_BY(mutex_) = nullptr;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<std::uint32_t> running_ = 0;
  bool stop_ PERDURE_GUARDED_BY(mutex_) = false;
  Clock::time_point ended_ PERDURE_GUARDED_BY(busy_);  // the last job
  std::atomic<Clock::duration> patience_{Clock::duration(kSpinForJobs)};
};

Workers::Workers(std::uint32_t threads)
    : threads_(threads != 0 ? threads : cores()), process_(this_process()) {
  if (threads_ > 1) helpers_ = std::make_unique<Helpers>(threads_ - 1, threads_ <= cores());
}

Workers::~Workers() {
  if (helpers_ && process_ != this_process()) put_aside(std::move(helpers_));
}

void Workers::run(std::size_t n, std::size_t chunk, Chunk f, void* context) {
  if (n == 0) return;
  chunk = std::max<std::size_t>(1, chunk);
  bool const alone = !helpers_ || n <= chunk || process_ != this_process();
  if (alone || !helpers_->run(n, chunk, f, context)) run_alone(n, chunk, f, context);
}

Workers::Helpers::Helpers(std::uint32_t threads, bool spins) : spins_(spins) {
  threads_.reserve(threads);
  try {
    for (std::uint32_t i = 0; i < threads; ++i) threads_.push_back(own_thread([this] { serve(); }));
  } catch (...) {
    stop();
    throw;
  }
}

void Workers::Helpers::stop() {
  {
    MutexLock const lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Workers::Helpers::work(Job& job) noexcept {
  try {
    while (!job.failed.load(std::memory_order_relaxed)) {
      std::size_t const begin = job.next.fetch_add(job.chunk, std::memory_order_relaxed);
      if (begin >= job.n) return;
      job.f(job.context, begin, std::min(job.n, begin + job.chunk));
    }
  } catch (...) {
    if (!job.failed.exchange(true)) job.why = std::current_exception();
  }
}

bool Workers::Helpers::run(std::size_t n, std::size_t chunk, Chunk f, void* context) {
  if (!busy_.try_lock()) return false;
  MutexLock const pool(busy_, std::adopt_lock);
  note_pause();
  Job job;
  job.f = f;
  job.context = context;
  job.n = n;
  job.chunk = chunk;
  {
    MutexLock const lock(mutex_);
    job_ = &job;
    ++generation_;
  }
  wake_.notify_all();
  work(job);
  MutexLock lock(mutex_);
  job_ = nullptr;  // who has not come by now need not
  if (running_ != 0) {
    lock.unlock();
    for_a_while([this] { return running_ == 0; });
    lock.lock();
    while (running_ != 0) done_.wait(mutex_);
  }
  ended_ = Clock::now();
  if (job.why) std::rethrow_exception(job.why);
  return true;
}

void Workers::Helpers::serve() {
  std::uint64_t seen = 0;
  for (;;) {
    for_a_while([&] { return generation_ != seen; });
    MutexLock lock(mutex_);
    while (!stop_ && generation_ == seen) wake_.wait(mutex_);
    if (stop_) return;
    seen = generation_;
    Job* const job = job_;
    if (job == nullptr) continue;
    ++running_;
    lock.unlock();
    work(*job);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

template <class F>
void Workers::Helpers::for_a_while(F done) const {
  if (!spins_) return;
  auto const until = Clock::now() + patience_.load(std::memory_order_relaxed);
  while (!done() && Clock::now() < until) std::this_thread::yield();
}

/// Since the last job.
void Workers::Helpers::note_pause() {
  auto const pause = Clock::now() - ended_;
  bool const soon = pause <= kMostSpin;
  patience_.store(soon ? std::clamp<Clock::duration>(2 * pause, kSpinForJobs, kMostSpin)
                       : Clock::duration(kSpinForJobs),
                  std::memory_order_relaxed);
}

}  // namespace perdure::exec
