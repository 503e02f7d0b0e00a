// Arithmetic of updates, element by element, the same on every machine and for every index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/annotate.hpp"
#include "perdure/batch.h"

namespace perdure {

template <class T>
PERDURE_FN bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return !(value >= value);
  return false;
}

/// Integers wrap. Of min and max, a NaN is the answer whichever of the two it is, as in NumPy's
/// minimum and maximum; so the order of operations on one key, which are folded, does not matter.
template <class T>
PERDURE_FN T combine(Rmw rmw, T stored, T operand) {
  switch (rmw) {
    case Rmw::add:
      if constexpr (std::is_floating_point_v<T>) {
        return stored + operand;
      } else {
        return static_cast<T>(static_cast<std::uint64_t>(stored) +
                              static_cast<std::uint64_t>(operand));
      }
    case Rmw::min: return operand < stored || is_nan(operand) ? operand : stored;
    case Rmw::max: return stored < operand || is_nan(operand) ? operand : stored;
    case Rmw::replace: break;
  }
  return operand;
}

template <class T>
PERDURE_FN T load_element(std::byte const* from, std::uint64_t e) {
  T value;
  memcpy(&value, from + e * sizeof(T), sizeof(T));
  return value;
}

template <class T>
PERDURE_FN void store_element(std::byte* to, std::uint64_t e, T value) {
  memcpy(to + e * sizeof(T), &value, sizeof(T));
}

/// A host thread's update of a whole value; bytes that make no whole element stay.
template <class T>
void combine_as(Rmw rmw, std::span<std::byte> value, std::byte const* operand) {
  for (std::uint64_t e = 0; (e + 1) * sizeof(T) <= value.size(); ++e)
    store_element<T>(
        value.data(), e,
        combine<T>(rmw, load_element<T>(value.data(), e), load_element<T>(operand, e)));
}
inline void combine_values(Rmw rmw, Element element, std::span<std::byte> value,
                           std::byte const* operand) {
  switch (element) {
    case Element::u8: return combine_as<std::uint8_t>(rmw, value, operand);
    case Element::i32: return combine_as<std::int32_t>(rmw, value, operand);
    case Element::u32: return combine_as<std::uint32_t>(rmw, value, operand);
    case Element::i64: return combine_as<std::int64_t>(rmw, value, operand);
    case Element::u64: return combine_as<std::uint64_t>(rmw, value, operand);
    case Element::f32: return combine_as<float>(rmw, value, operand);
    case Element::f64: return combine_as<double>(rmw, value, operand);
  }
}

}  // namespace perdure
