// Looks keys up in a pool of layout `log` beside its writer, by whoever follows its log. Invariant:
// what is answered was checked after it had been copied: the entry that led to it counted still,
// and the value's bytes have the checksum that it says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "perdure/batch.h"
#include "perdure/status.h"
#include "store/gphash/log_follower.hpp"

namespace perdure::gphash {

class LogLook {
 public:
  explicit LogLook(LogFollower& follower) : follower_(follower) {}

  struct Ask {
    std::byte const* key = nullptr;
    LogRecords::Target target;
    KeyStatus status = KeyStatus::not_found;  // the answer
  };
  static constexpr std::size_t kMost = 256;
  /// At most so many.
  Status get(std::span<Ask> asks) const;

 private:
  struct Looking;
  Status look(Looking& looking) const;

  LogFollower& follower_;
};

}  // namespace perdure::gphash
