// The machines that run the query: threads of the host, and a GPU. Invariant: both run the bodies
// of sums.hpp over blocks that they take from one queue, and read rows where they are.
#pragma once

#include <perdure/status.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pool.hpp"
#include "queue.hpp"
#include "result.hpp"

namespace perdure::q1 {

/// `filter`: rows that pass are counted, under no group's name, and nothing is added up.
enum class Stage : std::uint8_t { whole, filter };

struct Work {
  std::span<Block const> blocks;
  Form form = Form::columns;
  Query query;
  Stage stage = Stage::whole;
  bool shared = false;  // several devices take from the queue
};

/// What one thread of the host makes of blocks until the queue has none.
void run_on_host(Work const& work, BlockQueue& queue, Totals& to);

/// A GPU. Any one thread at a time may use it.
class Gpu {
 public:
  virtual ~Gpu() = default;
  Gpu() = default;
  Gpu(Gpu const&) = delete;
  Gpu& operator=(Gpu const&) = delete;

  /// Code::unsupported: a build without CUDA, or no GPU here; the message says which.
  static Result<std::unique_ptr<Gpu>> open();
  [[nodiscard]] virtual std::string name() const = 0;
  /// Pins the table's memory, so that kernels read it over the link. It stays pinned until the
  /// GPU is destroyed, and the table must stay as long.
  virtual Status pin(Table& table) = 0;
  /// Copies the table's rows into the GPU's own memory; then `copied` work runs there.
  virtual Status copy(Table const& table) = 0;
  /// As run_on_host. `copied`: over the copy instead of the table's own memory.
  virtual Status run(Work const& work, bool copied, BlockQueue& queue, Totals& to) = 0;
};

}  // namespace perdure::q1
