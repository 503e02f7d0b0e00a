// What a value log asks of the index above it: which address a key has. Each thread that has to do
// with the log has a LogIndex of its own, over one index. Invariants: find, put, erase and swap of
// one key take effect one after the other; what they answer is what the index had just before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "exec/epochs.hpp"
#include "perdure/status.h"
#include "pm/value_log/host.hpp"

namespace perdure::pm {

using LogKey = std::span<std::byte const>;

class LogIndex {
 public:
  LogIndex() = default;
  LogIndex(LogIndex const&) = delete;
  LogIndex& operator=(LogIndex const&) = delete;
  virtual ~LogIndex() = default;

  /// How this thread touches the log's bytes.
  virtual LogHost& host() = 0;
  /// Readers of the index, and of what it leads to, hold an EpochGuard of these.
  virtual exec::Epochs& epochs() = 0;

  // The caller holds a guard.
  /// The address of each key's item; 0: it has none.
  virtual void find(std::span<LogKey const> keys, std::span<std::uint64_t> addresses) = 0;
  /// `before`: the address it had; 0: none. Not ok: nothing has changed.
  virtual Status put(LogKey key, std::uint64_t address, std::uint64_t& before) = 0;
  /// The address it had; 0: none.
  virtual std::uint64_t erase(LogKey key) = 0;
  /// If the key has address `from`, it has `to` from here on. Whether it had.
  virtual bool swap(LogKey key, std::uint64_t from, std::uint64_t to) = 0;
};

/// One more thread's, while the log stands.
using MakeLogIndex = std::function<std::unique_ptr<LogIndex>()>;

}  // namespace perdure::pm
