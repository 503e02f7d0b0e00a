// Structures that may grow: they begin with struct_bytes, the size that the caller knows.
// Invariant: nothing beyond struct_bytes is read or written. What a shorter structure lacks has its
// default. What a longer one has beyond ours is 0, or it is refused, for it would ask for what this
// library does not know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "perdure/status.h"

namespace perdure::capi {

/// The sizes of all structures are multiples of this, so that no field is cut.
inline constexpr std::size_t kStructStep = 8;
/// No structure will be longer: a number beyond is a size that nobody has set.
inline constexpr std::size_t kLongestStruct = 4096;

template <class T>
concept Growing = std::is_trivially_copyable_v<T> && offsetof(T, struct_bytes) == 0 &&
                  std::is_same_v<decltype(T::struct_bytes), std::size_t> &&
                  sizeof(T) % kStructStep == 0 && sizeof(T) <= kLongestStruct;

[[nodiscard]] inline bool is_struct_size(std::size_t bytes) {
  return bytes >= kStructStep && bytes <= kLongestStruct && bytes % kStructStep == 0;
}

/// The caller's structure of that name says a size that cannot be.
[[nodiscard]] Status bad_struct_size(char const* name, std::size_t bytes);
/// It is longer than ours, and what is beyond is not 0.
[[nodiscard]] Status newer_field(char const* name);

/// A caller's structure with the size of ours; the defaults where there is none.
template <Growing T>
Result<T> read_growing(T const* given, T const& defaults, char const* name) {
  T read = defaults;
  if (given == nullptr) return read;
  std::size_t const bytes = given->struct_bytes;
  if (!is_struct_size(bytes)) return bad_struct_size(name, bytes);
  auto const* const from = reinterpret_cast<unsigned char const*>(given);
  std::memcpy(&read, from, std::min(bytes, sizeof(T)));
  if (bytes > sizeof(T) &&
      std::any_of(from + sizeof(T), from + bytes, [](unsigned char byte) { return byte != 0; }))
    return newer_field(name);
  return read;
}

/// As much of ours as the caller's structure of `bytes` holds, and zeros where it holds more.
template <Growing T>
Status write_growing(T const& ours, T* given, std::size_t bytes, char const* name) {
  if (given == nullptr) return {Code::invalid_argument, std::string(name) + " is NULL"};
  if (!is_struct_size(bytes)) return bad_struct_size(name, bytes);
  auto* const to = reinterpret_cast<unsigned char*>(given);
  std::memcpy(to, &ours, std::min(bytes, sizeof(T)));
  if (bytes > sizeof(T)) std::memset(to + sizeof(T), 0, bytes - sizeof(T));
  std::memcpy(to, &bytes, sizeof(bytes));
  return {};
}

/// The same of a report, whose size the caller has set.
template <Growing T>
Status write_report(T const& ours, T* given, char const* name) {
  return write_growing(ours, given, given != nullptr ? given->struct_bytes : 0, name);
}

}  // namespace perdure::capi
