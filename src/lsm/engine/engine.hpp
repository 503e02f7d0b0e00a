// The seam between the LSM store and the machines: sorted runs of entries in a machine's memory,
// and what is asked of them. A memtable is one or several runs; a view is a list of runs, newest
// first.
//
// Invariants: a run never changes once it is made, so that any number of readers use it while
// others are made. Every entry of a run is newer than every entry of the runs behind it in a list.
// Calls come from any threads. After an error nothing has changed but what the call was to fill,
// which may hold anything.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/entry.hpp"
#include "perdure/status.h"

namespace perdure::lsm {

struct RunView;
struct RangeQuery;  // ranges.hpp
struct RangePairs;

/// Entries sorted by key (as bytes compare), the newest version of a key first.
class Run {
 public:
  virtual ~Run() = default;
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// Of the machine's memory.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Words that it has of each value, where these are of more than one; else 0.
  [[nodiscard]] std::uint32_t row_words() const { return row_words_; }

 protected:
  Run(std::uint32_t count, std::uint64_t bytes, std::uint32_t row_words)
      : count_(count), row_words_(row_words), bytes_(bytes) {}

 private:
  std::uint32_t count_;
  std::uint32_t row_words_;
  std::uint64_t bytes_;
};
using RunPtr = std::shared_ptr<Run const>;
/// Newest first.
using RunList = std::span<RunPtr const>;

/// The most that a run of the list has.
[[nodiscard]] inline std::uint32_t row_words(RunList runs) {
  std::uint32_t most = 0;
  for (RunPtr const& run : runs) most = std::max(most, run->row_words());
  return most;
}

/// What is known of a key.
enum class Found : std::uint8_t {
  absent = 0,  // no run has a version of it that the reader sees
  put = 1,
  erased = 2,
  merge = 3,  // the newest version is an operand: chains() has what it stands on
};

struct Answer {
  std::byte const* data =
      nullptr;  // where the value is: of `put`, or of `merge` the newest operand
  std::uint64_t word = 0;  // the value's bytes, where they are `inside` and fit; else anything
  RequestId request = 0;  // of the version
  std::uint32_t size = 0;  // of the value
  Found found = Found::absent;
  // the run had the bytes, here or in the key's row: nobody needs to go where they are
  bool inside = false;

  [[nodiscard]] ValueRef value() const { return {data, size}; }
};
static_assert(sizeof(Answer) == 32);

/// Where answers' values of more than a word go, as far as runs have them: a row of words a key.
struct AnswerRows {
  std::uint64_t* words = nullptr;  // null: nobody asks for them, and answers have addresses
  std::size_t stride = 0;  // from one row to the next; row_words() of the runs at least

  [[nodiscard]] AnswerRows from(std::size_t key) const {
    return {words != nullptr ? words + key * stride : nullptr, stride};
  }
  /// The bytes of key i's value.
  [[nodiscard]] std::byte const* value(Answer const& answer, std::size_t i) const {
    if (!answer.inside) return answer.data;
    std::uint64_t const* const at = answer.size <= 8 ? &answer.word : words + i * stride;
    return reinterpret_cast<std::byte const*>(at);
  }
};

/// Versions of keys, newest first, each down to the first that is no operand, or, where all are
/// operands, all of them. Key i's are versions[offsets[i] .. offsets[i + 1]).
struct Chains {
  std::vector<std::uint64_t> offsets;
  std::vector<Version> versions;
};

/// What a machine makes of operands by itself: of values of one size of at most a word.
enum class Operation : std::uint8_t {
  none = 0,
  add = 1,  // of words, the least byte first, modulo 2^64
  max = 2,  // as bytes compare
  min = 3,
};

/// The versions that a batch of readers sees: each key's own limit, or one for all.
struct Limits {
  std::span<RequestId const> each = {};  // one a key
  RequestId all = kNewest;  // where `each` is empty
};

enum class Bound : std::uint8_t {
  lower,  // the first entry with a key not below
  upper,  // the first entry with a key above
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// The machine, for people.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Machine memory to be had.
  [[nodiscard]] virtual std::uint64_t free_bytes() const = 0;
  /// Whether it has memory of its own, across a link: what calls fill comes faster into memory that
  /// is pinned.
  [[nodiscard]] virtual bool is_far() const { return false; }

  /// Sorts a batch. Fewer than 2^31 entries, values below 4 GiB, requests below 2^62.
  virtual Result<RunPtr> build(Entries const& entries) = 0;
  /// All entries of the runs, as one. Fewer than 2^31.
  virtual Result<RunPtr> merge(RunList runs) = 0;

  /// keys.count answers. Keys in host memory.
  virtual Status find(RunList runs, Column const& keys, Limits const& limits,
                      std::span<Answer> answers, AnswerRows const& rows) = 0;
  virtual Status chains(RunList runs, Column const& keys, Limits const& limits, Chains& chains) = 0;
  /// Of keys whose newest version is an operand, what their chains come to by `operation`, which is
  /// not `none`: `put` where there is something below the operands that ends the chain, else
  /// `merge`; `word` and `size` say what. Not `inside`: a run of these lacks the values' bytes, or
  /// their sizes differ, and only chains() helps. Code::unsupported: so does it for all keys.
  virtual Status fold(RunList runs, Column const& keys, Limits const& limits, Operation operation,
                      std::span<Answer> answers) = 0;

  /// What each range has. Code::unsupported: no machine has all of the runs, or it is too much for
  /// one answer.
  virtual Result<RangePairs> ranges(RunList runs, RangeQuery const& query) = 0;
  /// How many pairs such a question has best.
  struct FewMany {
    std::uint64_t least, most;
  };
  [[nodiscard]] virtual FewMany range_pairs() const = 0;

  /// Where each key's bound is in the run: 0 .. run.count().
  virtual Status seek(Run const& run, Column const& keys, Bound bound,
                      std::span<std::uint32_t> positions) = 0;
  /// Entries [first, first + count) of the run; `block` holds these alone afterwards.
  virtual Status fetch(Run const& run, std::uint32_t first, std::uint32_t count,
                       EntryBlock& block) = 0;

  /// Where host memory has all of the run, its arrays, which live as long as it; else null. What
  /// was null once need not stay so.
  [[nodiscard]] virtual RunView const* host_view(Run const&) const { return nullptr; }
};

struct EngineOptions {
  static constexpr std::uint32_t kMostInside = 1024;
  /// Of the largest values that runs keep themselves, where all of a batch have one size.
  std::uint32_t value_bytes_inside = 8;
  /// What entries have in memory of a device can be read. That of a GPU does so in any case.
  bool reads_device_arrays = false;
};

/// By the CPU's warps, on the workers' threads, which must outlive it.
Result<std::unique_ptr<Engine>> make_cpu_engine(exec::Workers& workers,
                                                EngineOptions const& options = {});
/// By the GPU. Code::unsupported: this build has no GPU code, or the machine no GPU.
Result<std::unique_ptr<Engine>> make_cuda_engine(exec::Workers& workers,
                                                 EngineOptions const& options = {});
/// By both, each for what it does faster (two_sided.hpp). As make_cuda_engine().
Result<std::unique_ptr<Engine>> make_two_sided_engine(exec::Workers& workers,
                                                      EngineOptions const& options = {});

}  // namespace perdure::lsm
