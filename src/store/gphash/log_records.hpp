// Records that entries of a log name, as a reader beside the writer copies them: nothing is
// trusted. Invariant: nothing outside the pool is read; a value is whole only if its bytes, as they
// were copied, have the checksum that the entry says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pm/pool_format.hpp"
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
  /// Whether the record that an entry of this key names is whole; its value goes to the target.
  bool copy(std::uint64_t what, std::byte const* key, Target& target) const;
  void prefetch(std::uint64_t what) const;

 private:
  [[nodiscard]] bool copy_bare(std::uint64_t what, Target& target) const;
  [[nodiscard]] bool copy_whole(std::uint64_t what, std::byte const* key, Target& target) const;

  pm::RecordShape shape_;
  std::uint32_t key_bytes_;
  std::uint32_t value_bytes_;
  std::uint64_t most_record_;  // bytes
};

}  // namespace perdure::gphash
