// One look at a pool of layout `word` beside its writer, by whoever has its bytes: nobody locks,
// and nothing is trusted. Invariant: what is answered was checked after it had been copied, or
// summed as it was copied: key, sizes and checksum. So every word and byte that leads to a record
// may be of any moment, or none; it only has to lie in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "index/gphash/candidates.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"
#include "pm/pool_format.hpp"
#include "pm/root.hpp"

namespace perdure::gphash {

/// The table as a root names it: each level as if it were a live one, for what retires is searched
/// like the others. `mapped`: bytes of the file that can be read.
[[nodiscard]] Result<TableView> table_of(std::string const& path, pm::PoolHeader const& h,
                                         pm::Root const& root, std::uint64_t mapped);

class PoolLook {
 public:
  /// `words` and `records` are both where the pool begins; the explorer has them of two moments.
  PoolLook(std::byte const* words, std::byte const* records, TableView const& table)
      : words_(words), records_(records), table_(table) {}

  /// The value's first `bytes` bytes go to `to`; the whole record is verified. Where the answer is
  /// ok, `value_bytes` is how long the value is.
  [[nodiscard]] KeyStatus at(std::span<std::byte const> key, std::byte* to, std::uint32_t bytes,
                             std::uint32_t& value_bytes) const;

 private:
  struct Key {
    std::span<std::byte const> key;
    std::uint64_t hash;
    std::byte* to;
    std::uint32_t bytes;  // of the value, at most
  };
  /// What one search for a key met.
  struct Met {
    std::optional<KeyStatus> answer;
    std::uint32_t value_bytes = 0;  // of that
    Offset slot;  // of the record that has the key, and fails its checksum; else none
    std::uint64_t word = 0;
  };

  [[nodiscard]] std::uint64_t changes() const;
  [[nodiscard]] Met search(Candidates<ShapeAny> const& where, Key const& key) const;
  [[nodiscard]] std::optional<bool> copied(Offset at, Key const& key,
                                           std::uint32_t& value_bytes) const;

  std::byte const* words_;
  std::byte const* records_;
  TableView const& table_;
};

}  // namespace perdure::gphash
