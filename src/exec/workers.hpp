// A pool of CPU threads that run one job at a time, the caller among them. Jobs are split into
// chunks handed out by a counter, so an unlucky chunk does not hold up the rest, and a job waits
// only for threads that have begun on it. run() may be called from several threads: one job runs on
// the pool, the others run on their callers alone, as all do in a child that was forked, where the
// threads are not. Invariants: run() ends, by an exception of the job's too, only when no thread
// works on the job; neither it nor the end of a pool waits, in a child, for anything that its
// parent had begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace perdure::exec {

class Workers {
 public:
  explicit Workers(std::uint32_t threads);
  ~Workers();
  Workers(Workers const&) = delete;
  Workers& operator=(Workers const&) = delete;

  [[nodiscard]] std::uint32_t threads() const { return threads_; }

  /// Calls f(context, begin, end) over disjoint chunks that cover [0, n); returns when all are
  /// done. After an exception no further chunk begins, and the first one is thrown here.
  using Chunk = void (*)(void* context, std::size_t begin, std::size_t end);
  void run(std::size_t n, std::size_t chunk, Chunk f, void* context);

  template <class F>
  void for_chunks(std::size_t n, std::size_t chunk, F&& f) {
    using Body = std::remove_reference_t<F>;
    run(
        n, chunk,
        [](void* body, std::size_t b, std::size_t e) { (*static_cast<Body*>(body))(b, e); },
        const_cast<void*>(static_cast<void const*>(&f)));
  }

 private:
  class Helpers;
  std::uint32_t threads_;
  std::uint64_t process_;  // whose threads they are
  std::unique_ptr<Helpers> helpers_;  // null: the caller alone
};

}  // namespace perdure::exec
