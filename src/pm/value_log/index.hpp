// What a value log asks of the index above it: which address a key has. Invariants: find, put,
// erase and swap of one key take effect one after the other; what they answer is what the index had
// just before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/epochs.hpp"

namespace perdure::pm {

using LogKey = std::span<std::byte const>;

class LogIndex {
 public:
  LogIndex() = default;
  LogIndex(LogIndex const&) = delete;
  LogIndex& operator=(LogIndex const&) = delete;
  virtual ~LogIndex() = default;

  /// Readers of the index, and of what it leads to, hold an EpochGuard of these.
  virtual exec::Epochs& epochs() = 0;

  // The caller holds a guard.
  /// The address of each key's item; 0: it has none.
  virtual void find(std::span<LogKey const> keys, std::span<std::uint64_t> addresses) = 0;
  /// `before`: the address it had; 0: none. False: there is no memory, and nothing has changed.
  virtual bool put(LogKey key, std::uint64_t address, std::uint64_t& before) = 0;
  /// The address it had; 0: none.
  virtual std::uint64_t erase(LogKey key) = 0;
  /// If the key has address `from`, it has `to` from here on. Whether it had.
  virtual bool swap(LogKey key, std::uint64_t from, std::uint64_t to) = 0;
};

}  // namespace perdure::pm
