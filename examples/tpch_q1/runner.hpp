// One run of Q1 over a table, on the host's threads, on a GPU, or on both. Invariant: whichever
// machines take part, the answer is the same, for every block goes to one of them and sums are
// exact.
#pragma once

#include <perdure/status.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "machines.hpp"

namespace perdure::q1 {

/// `gpu` reads the table in host memory, over the link; `both` shares it out as it comes;
/// `gpu_memory` has a copy of the columns in the GPU's own memory, made once.
enum class Mode : std::uint8_t { cpu, gpu, both, gpu_memory };

[[nodiscard]] std::string_view name(Mode mode);
Result<Mode> mode_of(std::string_view name);

/// Threads that wait for work together, so that a run need not begin any.
class HostThreads {
 public:
  explicit HostThreads(unsigned count);
  HostThreads(HostThreads const&) = delete;
  HostThreads& operator=(HostThreads const&) = delete;
  ~HostThreads();

  [[nodiscard]] std::size_t count() const { return threads_.size(); }
  /// Each thread calls job(its number); finish() waits for all of them.
  void begin(std::function<void(std::size_t)> job);
  void finish();

 private:
  void serve(std::size_t number);

  std::function<void(std::size_t)> job_;
  std::atomic<std::uint32_t> round_{0}, busy_{0};
  std::atomic<bool> ended_{false};
  std::vector<std::jthread> threads_;  // last: they use the others
};

struct Answer {
  Totals totals;
  double seconds = 0;        // of the run
  double merge_seconds = 0;  // of it, to put together what threads have
};

class Runner {
 public:
  Runner(Table& table, unsigned threads) : table_(&table), threads_(threads) {}

  /// Makes ready what a mode needs: the GPU pins the table, or copies it. Seconds that it took.
  Result<double> prepare(Mode mode);
  /// After prepare(mode).
  Result<Answer> run(Mode mode, Query query, Stage stage = Stage::whole);
  [[nodiscard]] Gpu const* gpu() const { return gpu_.get(); }

 private:
  Table* table_;
  HostThreads threads_;
  std::unique_ptr<Gpu> gpu_;
};

}  // namespace perdure::q1
