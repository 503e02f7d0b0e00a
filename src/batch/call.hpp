// One batch on its way through a store, whatever its index: the columns, the kind of each
// operation, and where answers go. Invariant: the columns stay the caller's, and nobody changes
// them while the call runs.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "batch/kinds.hpp"
#include "perdure/batch.h"

namespace perdure {

inline constexpr std::uint8_t kPending = 0xff;  // a status nobody has decided yet

/// One batch as the store hands it to a session; columns are the caller's.
struct Call {
  Column keys;
  Column values;
  MutableColumn out;
  OpKind kind = OpKind::get;
  std::span<OpKind const> kinds;  // empty = all `kind`
  std::optional<KindCounts> counted;  // of `kinds`, where somebody has counted them
  Rmw rmw = Rmw::replace;
  Element element = Element::u8;
  CUstream_st* stream = nullptr;
  KeyStatus* device_statuses = nullptr;
  bool keep = false;  // the log needs its columns in host memory: see Session::kept
};

/// Whether some operation of a mixed batch is of that kind.
[[nodiscard]] inline bool has(Call const& call, OpKind kind) {
  static_assert(sizeof(OpKind) == 1);
  return !call.kinds.empty() &&
         std::memchr(call.kinds.data(), static_cast<int>(kind), call.kinds.size()) != nullptr;
}
/// Whether the batch computes with what is stored.
[[nodiscard]] inline bool computes(Call const& call) {
  if (call.rmw == Rmw::replace) return false;
  return call.kinds.empty() ? call.kind == OpKind::update : has(call, OpKind::update);
}

}  // namespace perdure
