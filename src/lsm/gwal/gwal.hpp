// The G-WAL (H-Rocks, sections 5 and 6.5): what memtables hold and RocksDB does not yet, so that a
// killed process loses nothing. One segment a generation of memtables. A segment is the memtables'
// value buffer too: values lie in the records' payloads, and entries point there.
//
// Invariants:
//  1. A record is whole or not there: its header carries the checksum of its payload, and one
//     ordering point stands between both and the acknowledgement.
//  2. Records of a segment come back in the order of their requests, without a gap; the first that
//     does not pass ends the segment, and one that passes behind it is damage, which fails closed.
//  3. A segment with the intent S was ingested by RocksDB if and only if RocksDB's last sequence
//     number is above S. It is then discarded, else replayed. So it comes back exactly once.
//  4. A segment belongs to one database, whose identity its header has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lsm/entry.hpp"
#include "perdure/status.h"

namespace perdure::exec {
class Workers;
}

namespace perdure::lsm {

class GwalPayloadSum;

/// Where the log of durability `power` lies (gwal_power.hpp).
struct GwalPowerOptions {
  std::string directory;  // of the redo log, on a disk; made where it is missing
  std::uint64_t bytes = std::uint64_t{256} << 20;  // of a log that is made
  std::string note;  // a file in the database's directory, which is there while the log counts
};

struct GwalOptions {
  std::string directory;  // of this log alone; made where it is missing
  std::string identity;  // of the database (DB::GetDbIdentity), at most 64 bytes
  std::uint64_t segment_bytes =
      std::uint64_t{64} << 20;  // at least; a record that is longer has a segment of its size
  // Files of retired segments that are kept to be used again, for as long as the log is open, and
  // one that is made beforehand among them.
  std::uint32_t spare_segments = 2;
  // sum long records, and verify what is recovered; none: who writes, and threads of its own
  exec::Workers* workers = nullptr;
  // There is one: records lie in the redo log, and segments are memory alone.
  std::optional<GwalPowerOptions> power = {};
};

/// What one record says.
struct GwalRecord {
  RequestId first_request = 0;
  std::uint64_t requests = 0;  // how many
  std::span<std::byte const> payload = {};
};

/// Writing one generation. One thread at a time.
class GwalSegment {
 public:
  virtual ~GwalSegment() = default;
  [[nodiscard]] virtual std::uint64_t number() const = 0;
  /// Bytes that it takes.
  [[nodiscard]] virtual std::uint64_t memory() const = 0;
  /// Room for a payload, 8-byte aligned, which stays where it is until the segment goes. Not
  /// committed, it is used again by the next reserve(). Code::no_space: begin the next segment.
  virtual Result<std::span<std::byte>> reserve(std::uint64_t bytes) = 0;
  /// The payload reserved last is a record: one ordering point. Requests ascend, over all segments.
  /// With `sync` it is as durable as the medium when this returns, and all before it. `sum`: the
  /// payload's, where the caller has summed it.
  virtual Status commit(RequestId first_request, std::uint64_t requests, bool sync,
                        GwalPayloadSum const* sum) = 0;
  Status commit(RequestId first_request, std::uint64_t requests, bool sync) {
    return commit(first_request, requests, sync, nullptr);
  }
  /// Durable when it returns: from here on the segment is discarded once RocksDB's last sequence
  /// number is above `rocks_sequence`. Where nothing was ingested after all, and RocksDB's number
  /// is to rise for another reason: kNoGwalIntent first.
  virtual Status intend(std::uint64_t rocks_sequence) = 0;
  /// RocksDB has all of it: nothing of it comes back. The memory stays as long as the object. The
  /// oldest segment goes first; one that has no records goes with those before it.
  virtual Status retire() = 0;
};

/// What an opening found of one segment.
struct GwalFound {
  std::uint64_t number = 0;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  bool discarded = false;  // RocksDB had it already
  // It ended in a record that was being written; or, after the system went down, records behind
  // its end had not been synced, and are lost.
  bool torn = false;
};

/// A segment that an earlier process left, as it is: nothing is appended to it any more. The
/// records lie in its memory.
struct GwalRecovered {
  GwalFound found;
  std::unique_ptr<GwalSegment> segment;  // null: it was discarded
  std::vector<GwalRecord> records;
};

/// Whether a record can be logged now.
enum class GwalRoom : std::uint8_t {
  there,
  after_retiring,  // of segments
  never,  // it is larger than the log
};

inline constexpr std::uint64_t kSmallGwalSegment = std::uint64_t{1} << 20;

/// As the number of an intent: there is none any more.
inline constexpr std::uint64_t kNoGwalIntent = ~std::uint64_t{0};

class Gwal {
 public:
  virtual ~Gwal() = default;

  /// Code::busy: another process has it, or another opening of this one, or a segment of that.
  /// Code::corrupt: a newer format, another database's identity, or a damaged header; the message
  /// names the segment and the way out.
  static Result<std::unique_ptr<Gwal>> open(GwalOptions const& options);

  /// All segments that were found, oldest first; those that RocksDB had already come without
  /// records, and are gone. Once, before begin(). Of the others, intend() and retire() as ever.
  /// Code::corrupt: damage before the end; nothing has been changed.
  virtual Result<std::vector<GwalRecovered>> recover(std::uint64_t rocks_sequence) = 0;

  /// A segment is to be begun: its file is made beforehand, by a thread of the log, and nothing is
  /// said where that fails. Of the segments that follow, the log does so itself.
  virtual void prepare() = 0;

  /// Of the memory that retired segments left so many segments' stays.
  virtual void trim(std::size_t left) = 0;

  /// The next segment, with room for a payload of `bytes` at least. The one before it is sealed:
  /// it takes no more records. Code::no_space: the medium is full, and nothing has changed.
  /// `small`: of kSmallGwalSegment bytes where it has to be made, which takes less than a
  /// millisecond.
  virtual Result<std::unique_ptr<GwalSegment>> begin(std::uint64_t bytes, bool small = false) = 0;

  /// Of a record with a payload of `bytes`. By who commits, and before that.
  virtual GwalRoom make_room(std::uint64_t) { return GwalRoom::there; }
  /// What recover() found besides segments; for people, empty where there is nothing to say.
  [[nodiscard]] virtual std::string report() const { return {}; }
  /// Nothing is written any more; what was not retired is there at the next opening.
  virtual void close() {}
};

}  // namespace perdure::lsm
