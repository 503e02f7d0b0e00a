// A hash table shared by CPU and GPU, after chapter 4 of Wu's "Optimizing the Use of Heterogeneous
// Memory" (thesis, The University of Sydney 2026): the face that benchmarks and tests see.
// docs/benchmarks/hetero.md says what was measured.
//
// Keys and values have 8 bytes. The table is Mega-KV's (layout.hpp); it is volatile, has a fixed
// capacity, and lies in host memory, in the device's, or in both. One host thread, a device, or all
// of them look keys up; the same source runs on CPU warps and on a GPU. Without a GPU the device is
// a second group of CPU warps, which describe() says.
//
// Batches on a table are of one kind at a time: gets beside gets, puts beside puts. Operations of a
// batch on one key take effect in any order, each whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "perdure/status.h"
#include "perdure/store.h"

namespace perdure::hetero {

using Keys = std::span<std::uint64_t const>;

/// What a get answers for a key that is absent. No value may be it.
inline constexpr std::uint64_t kAbsent = ~std::uint64_t{0};

/// Host threads, and a device.
class Sides {
 public:
  virtual ~Sides() = default;
  [[nodiscard]] virtual std::string describe() const = 0;
  [[nodiscard]] virtual std::uint32_t threads() const = 0;
};
/// `threads` of the host, 0 = one a core. Device::cpu: a second group, of as many threads.
Result<std::shared_ptr<Sides>> open_sides(Device device, std::uint32_t threads);

/// An array in host memory that both sides reach. Gets and puts take no others.
class Words {
 public:
  virtual ~Words() = default;
  [[nodiscard]] virtual std::span<std::uint64_t> all() = 0;
};
Result<std::unique_ptr<Words>> shared_words(std::shared_ptr<Sides> const& sides, std::size_t n);

enum class Where : std::uint8_t { host, device, twice };
/// Which copy the device's gets read: where a table lies in host memory alone or twice, it can read
/// that over its link.
enum class Copy : std::uint8_t { host, device };

/// One thread's way to a table: on this very thread, or handed to the device in order.
class Caller {
 public:
  virtual ~Caller() = default;
  /// By this thread, looking `ahead` keys ahead (0..64).
  virtual void get_here(Keys keys, std::span<std::uint64_t> values, std::uint32_t ahead) = 0;
  virtual Status put_here(Keys keys, Keys values) = 0;
  /// By the device; the arrays are its own until wait() returns.
  virtual Status begin_get(Copy copy, Keys keys, std::span<std::uint64_t> values) = 0;
  virtual Status begin_put(Keys keys, Keys values) = 0;
  /// Whether the device has ended; does not wait (approach 2).
  virtual Result<bool> done() = 0;
  virtual Status wait() = 0;
};

struct TableOptions {
  std::uint64_t keys = 1 << 16;  // that it has room for
  Where where = Where::twice;
};

/// Who answers a batch of gets: all host threads, the device, both, or who was measured fastest.
enum class Way : std::uint8_t { host, device, both, automatic };

/// How batches of a size were answered, by what was measured at run time.
struct SplitStats {
  std::uint64_t batch = 0;  // sizes from here to twice as many; times are of so many keys
  double share = 0;  // of the device, where both answer
  double host_us = 0, device_us = 0, both_us = 0;  // middle times; 0 = not tried
  Way way = Way::host;  // the fastest
  std::uint64_t contests = 0;  // of ways, that have ended
  // of its batches so far; and of them more than the better way of a contest would have taken
  double spent_seconds = 0, contest_seconds = 0;
};

struct TableStats {
  std::uint64_t records = 0;  // of the copy that puts change first
  std::uint64_t capacity = 0;
  std::uint64_t slots = 0;
  std::uint64_t bytes = 0;  // of a copy
};

class Table {
 public:
  virtual ~Table() = default;
  /// By all host threads where the table lies in host memory, else by the device. Where it lies
  /// twice, the copy has what changed before this returns.
  virtual Status put(Keys keys, Keys values) = 0;
  virtual Status get(Keys keys, std::span<std::uint64_t> values, Way way = Way::automatic) = 0;
  /// Ends while the table stands.
  virtual Result<std::unique_ptr<Caller>> caller() = 0;
  /// Everything leaves.
  virtual Status clear() = 0;

  [[nodiscard]] virtual TableStats stats() const = 0;
  [[nodiscard]] virtual SplitStats split(std::uint64_t batch) const = 0;
  /// Whether both copies are the same, byte for byte; of a table that lies twice.
  virtual Result<bool> copies_equal() = 0;
};
Result<std::unique_ptr<Table>> create_table(std::shared_ptr<Sides> sides,
                                            TableOptions const& options);
/// The bytes that a copy of such a table takes.
[[nodiscard]] std::uint64_t table_bytes(std::uint64_t keys);

struct HotColdOptions {
  std::uint64_t keys = 1 << 16;
  std::uint64_t hot_keys = 1 << 10;  // in the host's small table
  std::uint32_t ahead = 16;
};

/// Hot keys in a small table of the host's, which fits its caches, all keys in one of the device's
/// (section 4.3.3.4, Figure 4.18). The small one has copies that are newer: what was put there
/// reaches the device's when the key leaves.
class HotCold {
 public:
  virtual ~HotCold() = default;
  virtual Status put(Keys keys, Keys values) = 0;
  virtual Status get(Keys keys, std::span<std::uint64_t> values) = 0;
  /// Static: these are the hot keys, of which absent ones are left out.
  virtual Status keep(Keys keys) = 0;
  /// Dynamic, between batches: the keys that gets asked for most, by what was counted, older counts
  /// for half. Answers how many keys came in.
  virtual Result<std::uint64_t> migrate() = 0;

  [[nodiscard]] virtual std::uint64_t hot_keys() const = 0;
  /// Gets that the small table answered, and all, since it was made.
  [[nodiscard]] virtual std::uint64_t hot_gets() const = 0;
  [[nodiscard]] virtual std::uint64_t gets() const = 0;
};
Result<std::unique_ptr<HotCold>> create_hot_cold(std::shared_ptr<Sides> sides,
                                                 HotColdOptions const& options);

}  // namespace perdure::hetero
