// What the soak writes: pools of several kinds, steps (a batch, or a transaction of several) that follow from
// (seed, kill, number) alone, so that the killed process and its judge agree on them without talking, and the
// reference they are applied to.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "perdure/store.h"

namespace perdure::test {

using Model = std::unordered_map<std::string, std::string>;

struct Kind {
  Layout layout = Layout::word;
  bool variable = false;
  Shape shape;
  bool power = false;
  Device device = Device::cpu;  // of the process that is killed

  [[nodiscard]] std::string describe() const;
};

/// Where a pool lies; `log_dir` is empty but for durability power.
struct PoolFiles {
  std::string path;
  std::string log_dir;
};

struct Operation {
  OpKind kind;
  std::string key, value;
};

struct Batch {
  bool mixed = false;  // one call of apply(); otherwise all operations are of one kind
  std::vector<Operation> operations;
};

/// What is acknowledged as one.
struct Step {
  enum class How : std::uint8_t { plain, atomic, committed, aborted };  // the last two: a transaction
  How how = How::plain;
  std::vector<Batch> batches;  // one, but of a transaction

  [[nodiscard]] bool is_transaction() const { return how == How::committed || how == How::aborted; }
  [[nodiscard]] std::size_t operations() const;
};

/// A pool this full is done; the next one begins tiny again.
[[nodiscard]] std::size_t life_records();

[[nodiscard]] Step make_step(Kind const& kind, std::uint64_t seed, std::uint64_t kill, std::uint64_t number);
/// Of an aborted transaction nothing.
void apply_to(Model& model, Step const& step);
Status run(Store& store, Kind const& kind, Step const& step);

Result<Store> create_pool(PoolFiles const& files, Kind const& kind);
Result<Store> open_pool(PoolFiles const& files, Device device);

}  // namespace perdure::test
