// What the soak writes: pools of several kinds, steps (a batch, or a transaction of several) that
// follow from (seed, kill, number) alone, so that the killed process and its judge agree on them
// without talking, and the reference they are applied to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "perdure/store.h"

namespace perdure::test {

using Model = std::unordered_map<std::string, std::string>;

struct Kind {
  Index index = Index::gphash;
  Layout layout = Layout::word;
  std::uint32_t key_bytes = 8, value_bytes = 16;  // 0: of any length
  Shape shape;
  bool power = false;
  bool disk = false;  // durability power on a disk that forgets (forgetting_files.hpp)
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
  enum class How : std::uint8_t {
    plain,
    atomic,
    committed,
    aborted
  };  // the last two: a transaction
  How how = How::plain;
  std::vector<Batch> batches;  // one, but of a transaction

  [[nodiscard]] bool is_transaction() const { return how == How::committed || how == How::aborted; }
  [[nodiscard]] std::size_t operations() const;
};

/// A pool this full is done; the next one begins tiny again.
[[nodiscard]] std::size_t life_records();

[[nodiscard]] Step make_step(Kind const& kind, std::uint64_t seed, std::uint64_t kill,
                             std::uint64_t number);
/// Of an aborted transaction nothing.
void apply_to(Model& model, Step const& step);
/// What a key may be while a step runs of which each operation takes effect by itself (a Dash
/// index): its value, or none, after each of the step's operations on it.
[[nodiscard]] std::vector<std::optional<std::string>> on_the_way(Model const& before,
                                                                 Step const& step,
                                                                 std::string const& key);

/// How a step is run.
struct Running {
  std::function<void(Transaction&)> begun = [](Transaction&) {};  // its transaction is open
  std::function<void()> ending = [] {
  };  // the commit or abort is about to be called: until here nothing of it counts
  // a planted fault: one to commit has its batches run by themselves
  bool without_transaction = false;
};
Status run(Store& store, Kind const& kind, Step const& step, Running const& how = {});

Result<Store> create_pool(PoolFiles const& files, Kind const& kind);
Result<Store> open_pool(PoolFiles const& files, Device device);
Status close_pool(Store& store);
/// A batch that changes nothing, refused by a store that refuses writes.
Status write_nothing(Store& store, Kind const& kind);
Status read_some(Store& store, Kind const& kind);

}  // namespace perdure::test
