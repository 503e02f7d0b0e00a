// Records that entries of a log name, as a reader beside the writer copies them: nothing is
// trusted. Invariant: nothing outside the pool is read; a value is whole only if its bytes, as they
// were copied, have the checksum that the entry says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "pm/pool_format.hpp"
#include "pm/record.hpp"
#include "pm/record_shape.hpp"

namespace perdure::gphash {

struct LogRecords {
  explicit LogRecords(pm::PoolHeader const& h);

  std::byte const* base = nullptr;  // where the pool is mapped
  std::uint64_t pool_bytes = 0;  // that can be read

  struct Target {
    std::byte* to = nullptr;
    std::uint32_t bytes = 0;  // of the value, at most
    std::uint32_t value_bytes = 0;  // how long it is
  };
  enum class Copied { whole, damaged, of_another };
  /// What the record is that an entry of this key names, or of this key's hash: then it may be
  /// another key's. Of a whole one the value goes to the target.
  Copied copy(std::uint64_t what, std::span<std::byte const> key, Target& target) const;
  /// Whether the record that an entry names is whole, and has the key that the entry says.
  [[nodiscard]] bool has_record_of(std::span<std::byte const> cell) const;
  void prefetch(std::uint64_t what) const;

 private:
  using Key = std::span<std::byte const>;
  [[nodiscard]] bool copy_bare(std::uint64_t what, Target& target) const;
  [[nodiscard]] std::optional<pm::RecordView> view(std::uint64_t what) const;
  [[nodiscard]] bool copy_of(pm::RecordView const& r, std::uint64_t what, Key key,
                             Target& target) const;

  pm::RecordShape shape_;
  bool hashes_;  // is what entries have of keys
  std::uint32_t key_bytes_;
  std::uint32_t value_bytes_;
  std::uint64_t most_record_;  // bytes
};

}  // namespace perdure::gphash
