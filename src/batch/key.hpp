// What an index is asked about: a key, and what a group of operations on it does. Nothing of it is
// owned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure {

/// A key with its hash.
struct KeyRef {
  std::byte const* data;
  std::uint32_t bytes;
  std::uint64_t hash;
};

/// What a group does to the index.
enum class Change : std::uint32_t { none, insert, replace, erase };

}  // namespace perdure
