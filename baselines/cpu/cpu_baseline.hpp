// The hash tables of Dash's evaluation (Lu et al., VLDB'20, section 6), and Dash's own with and
// without its parts: the face that benchmarks and tests see. docs/benchmarks/dash.md says what
// was rebuilt from where.
//
//   cceh            extendible hashing, linear probing, a reader-writer lock a segment (Nam et al.,
//                   FAST'19)
//   level           two levels, two hashes, one movement, resizing of the whole table (Zuo et al.,
//                   OSDI'18)
//   clevel          levels of 8-byte slots, compare-and-swap alone (Chen et al., ATC'20)
//   seph-like       levels of segments with fingerprints; a simplified rebuild (Wang et al.,
//                   OSDI'23)
//   dash-eh, ...    src/index/dash; what follows a name is what is different: see names()
//   boost-flat-map  boost::concurrent_flat_map: volatile, and only where it was found
//
// Any number of threads, each with a session of its own. When an operation returns, its effect is
// durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perdure/status.h"

namespace perdure::cpu_baselines {

/// How threads touch durable memory: stores alone, real flushes and fences, counting, or as slow as
/// Optane, emulated.
enum class HostKind : std::uint8_t { ordered, flushed, counted, emulated };

struct Options {
  std::string index = "dash-eh";
  std::uint32_t key_bytes = 8;  // 8: and not all zero; 0: of any length; or of another
  std::uint32_t value_bytes = 8;  // others: of clevel and seph-like alone, whole words
  bool reuse_records = false;  // of clevel and seph-like, where key_bytes is not 0
  std::uint64_t initial_slots = 1 << 12;
  std::uint64_t reserve_bytes = 0;  // of the pool, backed beforehand; it grows past them
  std::uint64_t max_bytes = std::uint64_t{64} << 30;
  std::uint64_t emulated_cache_bytes = std::uint64_t{147}
                                       << 18;  // 36.75 MiB: the paper's, for 200 million records
};

using Key = std::span<std::byte const>;
using Value = std::span<std::byte const>;
inline constexpr std::uint32_t kMostValueBytes = 4096;
enum class Outcome : std::uint8_t { done, exists, absent, full };

/// What operations of one session did to durable memory; all zero unless its host counts.
struct Counts {
  std::uint64_t operations = 0;
  std::uint64_t lines_read = 0;
  std::uint64_t lines_written = 0;
  std::uint64_t lines_flushed = 0;
  std::uint64_t fences = 0;
};

/// One thread's.
class Session {
 public:
  virtual ~Session() = default;
  /// Values of Options::value_bytes.
  virtual Outcome find(Key key, std::span<std::byte> value) = 0;
  /// Outcome::full: there is no memory; Table::why_full() says more.
  virtual Outcome insert(Key key, Value value) = 0;
  virtual Outcome update(Key key, Value value) = 0;
  virtual Outcome erase(Key key) = 0;
  Outcome find(Key key, std::uint64_t& value) {
    return find(key, std::as_writable_bytes(std::span(&value, 1)));
  }
  Outcome insert(Key key, std::uint64_t value) {
    return insert(key, std::as_bytes(std::span(&value, 1)));
  }
  Outcome update(Key key, std::uint64_t value) {
    return update(key, std::as_bytes(std::span(&value, 1)));
  }
  /// Operations go on between the two; what others unlinked is not used again before unpin().
  virtual void pin() = 0;
  virtual void unpin() = 0;
  [[nodiscard]] virtual Counts counts() const { return {}; }
  /// What a host that emulates spent on that, which is not to be counted.
  [[nodiscard]] virtual double emulating_seconds() const { return 0; }
  /// Counts begin anew, and the clock of one that emulates: sessions that are measured together,
  /// together.
  virtual void reset_counts() {}
};

struct TableStats {
  std::uint64_t records = 0;
  std::uint64_t slots = 0;  // 0 = it does not say
  std::uint64_t pool_bytes = 0;
  // levels added, or segments split, since it was made or opened; of clevel and seph-like
  std::uint64_t growths = 0;
};

/// What an opening took: bringing the pool into memory, and what the table then did before it was
/// ready.
struct OpenTimes {
  double map_seconds = 0;
  double recover_seconds = 0;
};

class Table {
 public:
  virtual ~Table() = default;
  [[nodiscard]] virtual OpenTimes open_times() const { return {}; }
  [[nodiscard]] virtual std::unique_ptr<Session> session(HostKind kind) = 0;
  /// `count`: with the number of records, which takes a walk. No session may be at work.
  [[nodiscard]] virtual TableStats stats(bool count) = 0;
  [[nodiscard]] virtual Status why_full() = 0;
};

/// Those that this build has, in the order of the paper's legends.
[[nodiscard]] std::vector<std::string> names();
/// Makes the file `path`; it stays when the table goes.
Result<std::unique_ptr<Table>> create(std::string const& path, Options const& options);
/// Opens such a file again, as a crash left it: ready for operations when it returns. Sizes of keys
/// and values are to be what they were.
Result<std::unique_ptr<Table>> open(std::string const& path, Options const& options);

/// A published figure of Optane modules, and what the emulation gives for the same pattern.
struct EmulationPoint {
  std::string what, unit;
  double published = 0, modelled = 0;
};
[[nodiscard]] std::vector<EmulationPoint> emulation_points();
/// ns that one dependent read of a line takes on an emulating session's thread, on this machine.
[[nodiscard]] double emulated_read_ns();

/// The share of its slots that one segment of Dash has filled when it first has no room (figure
/// 11), with the parts of Dash that `technique` names: bucketized, probing, balanced, displacement,
/// stash2, stash4; each has those before it.
[[nodiscard]] std::vector<std::string> segment_techniques();
[[nodiscard]] double segment_fill(std::string const& technique, std::uint32_t segment_bytes,
                                  std::uint64_t seed);

}  // namespace perdure::cpu_baselines
