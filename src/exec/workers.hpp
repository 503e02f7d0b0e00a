// A pool of CPU threads that run one job at a time, the caller among them. Jobs are split into
// chunks handed out by a counter, so an unlucky chunk does not hold up the rest, and a job waits only for threads
// that have begun on it. run() may be called from several threads: one job runs on the pool, the others run on
// their callers alone. Invariant: run() ends, by an exception of the job's too, only when no thread works on the job.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace perdure::exec {

class Workers {
 public:
  explicit Workers(std::uint32_t threads);
  ~Workers();
  Workers(Workers const&) = delete;
  Workers& operator=(Workers const&) = delete;

  [[nodiscard]] std::uint32_t threads() const { return static_cast<std::uint32_t>(helpers_.size()) + 1; }

  /// Calls f(context, begin, end) over disjoint chunks that cover [0, n); returns when all are done. After an exception
  /// no further chunk begins, and the first one is thrown here.
  using Chunk = void (*)(void* context, std::size_t begin, std::size_t end);
  void run(std::size_t n, std::size_t chunk, Chunk f, void* context);

  template <class F>
  void for_chunks(std::size_t n, std::size_t chunk, F&& f) {
    using Body = std::remove_reference_t<F>;
    run(
        n, chunk, [](void* body, std::size_t b, std::size_t e) { (*static_cast<Body*>(body))(b, e); },
        const_cast<void*>(static_cast<void const*>(&f)));
  }

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

  std::vector<std::thread> helpers_;
  std::mutex busy_;  // held by the caller whose job the pool runs
  bool spins_ = false;
  std::mutex mutex_;  // guards the rest; generation_ and running_ are looked at without, too
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<std::uint32_t> running_ = 0;
  bool stop_ = false;
};

}  // namespace perdure::exec
