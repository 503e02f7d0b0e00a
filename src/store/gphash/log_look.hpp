// Looks keys up in a pool of layout `log` beside its writer, by whoever follows its log. Invariant:
// what is answered was checked after it had been copied: the entry that led to it counted still,
// and the value's bytes have the checksum that it says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perdure/batch.h"
#include "perdure/status.h"
#include "store/gphash/log_follower.hpp"

namespace perdure::gphash {

class LogLook {
 public:
  struct Ask {
    std::span<std::byte const> key;
    LogRecords::Target target;
    KeyStatus status = KeyStatus::not_found;  // the answer, once it is settled
    bool settled = false;
  };
  static constexpr std::size_t kMost = 256;

  /// At most so many.
  LogLook(LogFollower& follower, std::span<Ask> asks);
  /// Answers all. A key that changes at each of many looks counts as absent.
  Status get();

  // The steps of one look, at those that have no answer yet; the explorer lets others write between
  // them.
  void find();
  void copy();
  /// Those are answered whose entries are what they were, once all that had come by then is known.
  Status settle();

 private:
  struct One {
    Ask* ask;
    EntryIndex::Key key;
    std::size_t count;  // of the entries that may be the key's
    std::uint64_t what;  // of the first
    std::size_t others;  // of more_: where those behind it begin
  };
  [[nodiscard]] std::uint64_t what(One const& one, std::size_t i) const {
    return i == 0 ? one.what : more_[one.others + i - 1];
  }
  [[nodiscard]] bool stands(EntryIndex const& index, One const& one) const;

  LogFollower& follower_;
  LogRecords records_;
  std::uint64_t version_ = 0;  // of the index that it was found in
  std::array<One, kMost> each_;  // those that have no answer yet
  std::size_t count_ = 0;
  std::vector<std::uint64_t> more_;  // of keys of equal hashes alone, for it takes memory
};

}  // namespace perdure::gphash
