#include "exec/workers.hpp"

#include <algorithm>
#include <chrono>

namespace perdure::exec {

namespace {

/// How long a thread looks for the next job before it sleeps: batches and their launches follow each other sooner, and
/// waking a thread takes as long as a small job.
constexpr auto kSpin = std::chrono::microseconds(100);

}  // namespace

Workers::Workers(std::uint32_t threads) {
  std::uint32_t const cores = std::max(1u, std::thread::hardware_concurrency());
  if (threads == 0) threads = cores;
  spins_ = threads <= cores;
  helpers_.reserve(threads - 1);
  try {
    for (std::uint32_t i = 1; i < threads; ++i) helpers_.emplace_back([this] { serve(); });
  } catch (...) {
    stop();
    throw;
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    std::lock_guard const lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& helper : helpers_) helper.join();
}

void Workers::work(Job& job) noexcept {
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

void Workers::run(std::size_t n, std::size_t chunk, Chunk f, void* context) {
  if (n == 0) return;
  chunk = std::max<std::size_t>(1, chunk);
  std::unique_lock const pool(busy_, std::try_to_lock);
  if (helpers_.empty() || n <= chunk || !pool.owns_lock()) {
    for (std::size_t b = 0; b < n; b += chunk) f(context, b, std::min(n, b + chunk));
    return;
  }
  Job job;
  job.f = f;
  job.context = context;
  job.n = n;
  job.chunk = chunk;
  {
    std::lock_guard const lock(mutex_);
    job_ = &job;
    ++generation_;
  }
  wake_.notify_all();
  work(job);
  std::unique_lock lock(mutex_);
  job_ = nullptr;  // who has not come by now need not
  if (running_ != 0) {
    lock.unlock();
    for_a_while([this] { return running_ == 0; });
    lock.lock();
    done_.wait(lock, [this] { return running_ == 0; });
  }
  if (job.why) std::rethrow_exception(job.why);
}

void Workers::serve() {
  std::uint64_t seen = 0;
  for (;;) {
    for_a_while([&] { return generation_ != seen; });
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
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
void Workers::for_a_while(F done) const {
  if (!spins_) return;
  auto const until = std::chrono::steady_clock::now() + kSpin;
  while (!done() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

}  // namespace perdure::exec
