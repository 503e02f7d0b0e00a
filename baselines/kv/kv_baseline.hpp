// The designs of key-value stores that chapter 2 of X. Wu's thesis compares, for the benchmark and
// the tests: the store's own engines (src/store/btree), no second implementation of them, over a
// Host that flushes, counts, or takes as long as other media would. docs/benchmarks/kv.md says what
// comes of them.
//
//   values       heap: a record has a slot of its own; log: records are appended, and collected
//   persistence  minimal: keys and values, and every opening makes the index anew; index: the
//                leaves of the tree, too; full: all, by transactions of a batch each
//   caches       flushed: what is written goes to the medium at once; kept: it stays in the caches
//                until they evict it, as where caches survive a power loss
//
// Keys are 8 bytes, values all of one size. Invariant: any thread may have a session; a session is
// one thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perdure/batch.h"
#include "perdure/status.h"

namespace perdure::kv_baselines {

/// What a session's accesses to durable memory are.
enum class HostKind : std::uint8_t {
  flushed,  // stores, flushes and fences of this machine
  counted,  // exact counts in place of times
  emulated,  // as slow as the medium that Options names
};

/// A medium, as it is emulated: of figures that are published of it.
struct Medium {
  double read_gb_per_s = 39.4;
  double write_gb_per_s = 13.9;
  double read_ns = 300;
  double near_ns = 124;  // of a line beside one that was just read
};

struct Options {
  std::string design = "heap";
  HostKind host = HostKind::flushed;
  bool kept = false;
  std::uint32_t value_bytes = 256;  // at least 8
  std::uint64_t reserve_bytes = 0;  // of the pool, backed beforehand; it grows past them
  std::uint64_t max_bytes = std::uint64_t{64} << 30;
  std::uint32_t collectors = 1;  // of a log
  std::uint64_t most_queued = 8;
  std::uint64_t emulated_cache_bytes = std::uint64_t{147} << 18;  // of each thread
  bool parts = false;  // sessions tell what their time went to, which takes some of it
  Medium medium;
};

/// What a session's operations did to durable memory; all zero unless its host counts.
struct Counts {
  std::uint64_t lines_read = 0;
  std::uint64_t lines_written = 0;
  std::uint64_t lines_flushed = 0;
  std::uint64_t fences = 0;
};

/// What a thread's time went to (the thesis's table 2.1).
struct PartSeconds {
  double index = 0, space = 0, value = 0;
};

/// Operations on keys[i]; those that put take values[i * value_bytes], and gets give theirs there.
struct Batch {
  std::span<OpKind const> kinds;  // as many as keys, or one for all
  std::span<std::uint64_t const> keys;
  std::span<std::byte const> values;
  std::span<std::byte> out;
};

/// One thread's.
class Session {
 public:
  Session() = default;
  Session(Session const&) = delete;
  Session& operator=(Session const&) = delete;
  virtual ~Session() = default;

  /// Each has taken effect, and is durable, when this returns: in order, but gets of a batch that
  /// has nothing else. How many were answered with anything but ok; why, last_status() says.
  virtual std::uint64_t apply(Batch const& batch) = 0;
  [[nodiscard]] virtual Status last_status() const = 0;
  /// So many records from the first key on that is not below `from`, in the order of keys' bytes.
  virtual std::uint64_t scan(
      std::uint64_t from, std::size_t most,
      std::function<void(std::uint64_t key, std::span<std::byte const> value)> const& visit) = 0;

  [[nodiscard]] virtual Counts counts() const = 0;
  /// Zero unless Options::parts.
  [[nodiscard]] virtual PartSeconds part_seconds() const = 0;
  /// What a host that emulates spent on that, which is not to be counted.
  [[nodiscard]] virtual double emulating_seconds() const = 0;
  /// Counts begin anew, and the clock of one that emulates: sessions that are measured together,
  /// together.
  virtual void reset() = 0;
};

/// What collectors did since the store was made or opened; of a heap nothing.
struct Collected {
  std::uint64_t segments = 0, moved_bytes = 0, appended_bytes = 0;
  std::uint64_t waits = 0, longest_wait_ns = 0;  // of writers, for a queue that was full
};

/// What media wrote since the last reset; of stores whose host emulates.
struct MediaWrites {
  std::uint64_t lines = 0;  // of 64 bytes, that came to them
  std::uint64_t internal = 0;  // of 256 bytes, that they wrote
};

/// What an opening took (the thesis's figure 2.5).
struct Recovery {
  std::uint64_t records = 0;
  double map_seconds = 0;  // the pool, into memory
  PartSeconds parts;  // index: making it; space: allocator or log; value: reading records
};

/// When it goes, its pool is as a kill would leave it.
class Store {
 public:
  Store() = default;
  Store(Store const&) = delete;
  Store& operator=(Store const&) = delete;
  virtual ~Store() = default;

  [[nodiscard]] virtual std::unique_ptr<Session> session() = 0;
  /// One whose writes nobody measures: it does not flush, but on a medium that is emulated.
  [[nodiscard]] virtual std::unique_ptr<Session> filling_session() = 0;
  /// Until collectors have nothing left to do; nobody writes meanwhile.
  virtual void wait_for_collectors() = 0;
  [[nodiscard]] virtual Collected collected() const = 0;
  [[nodiscard]] virtual MediaWrites media_writes() const = 0;
  /// Of the pool, in use.
  [[nodiscard]] virtual std::uint64_t pool_bytes() const = 0;
};

[[nodiscard]] std::vector<std::string> names();
/// Makes the file `path`; it stays when the store goes.
Result<std::unique_ptr<Store>> create(std::string const& path, Options const& options);
/// Opens such a file again; options are to be what they were. Several threads have no parts.
Result<std::unique_ptr<Store>> recover(std::string const& path, Options const& options,
                                       std::uint32_t threads, Recovery& recovery);

}  // namespace perdure::kv_baselines
