// Entries of memtables: what a write leaves there (H-Rocks, sections 4.1 and 5). Every version of a
// key stays until its memtable is flushed, told apart by the request that wrote it.
//
// Invariant: of one key's versions the one with the largest request counts, and a reader with the
// limit r sees the one with the largest request not above r.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perdure/batch.h"

namespace perdure::lsm {

/// The number of a write in the order of arrival (reqID of the paper). A batch has a range of them.
using RequestId = std::uint64_t;
inline constexpr RequestId kNewest = ~RequestId{0};  // as a limit: whatever there is

/// What an entry says of its key.
enum class Kind : std::uint8_t { put = 0, erase = 1, merge = 2 };

/// Bytes in host memory that belong to somebody else: the value buffer of a memtable, for as long
/// as anybody has the memtable.
struct ValueRef {
  std::byte const* data = nullptr;
  std::uint64_t size = 0;
};

/// A column family's part of a batch, in order of arrival; host memory.
struct Entries {
  Column keys = {};  // of any lengths, 0 among them
  std::span<Kind const> kinds = {};  // one a key; empty: all `put`
  RequestId first_request = 0;
  // one a key, ascending, counted from first_request; empty: 0, 1, ...
  std::span<RequestId const> requests = {};
  std::span<ValueRef const> values = {};  // one a key; of an erase, nothing
  // In place of `values`: one a key, of which an erase has whatever. So nobody handles an address a
  // value. Nothing looks behind `data` here; it is the value buffer's, as a ValueRef's is.
  Column value_column = {};
  // Besides `values`, where all of them have one size of at most 8 bytes: their bytes, filled up
  // with zeros; of an erase, whatever. Empty: nobody has put them side by side.
  std::span<std::uint64_t const> value_words = {};
  // The bytes of `keys`, and of `value_column`, once more: in memory of the device, whose engine
  // reads them there and spares the link. They stay as they are until the call returns. Null:
  // nobody has them there.
  std::byte const* device_keys = nullptr;
  std::byte const* device_values = nullptr;
};

/// One version of a key.
struct Version {
  ValueRef value;
  RequestId request = 0;
  Kind kind = Kind::put;
};

/// Entries in the order of a run: by key, as bytes compare, and the newest version of a key first.
/// In host memory; the keys and all else but the values' bytes are owned.
struct EntryBlock {
  std::vector<std::byte> keys;
  std::vector<std::uint64_t> key_offsets;  // size() + 1
  std::vector<Version> versions;

  [[nodiscard]] std::size_t size() const { return versions.size(); }
  [[nodiscard]] std::span<std::byte const> key(std::size_t i) const {
    return std::span(keys).subspan(key_offsets[i], key_offsets[i + 1] - key_offsets[i]);
  }
};

}  // namespace perdure::lsm
