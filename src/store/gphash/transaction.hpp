// A transaction while it is open: what its batches took and let go of, and the lock that it holds
// for itself from beginning to end. Invariant: records that it unlinked are reachable from the undo
// log, so nobody gets them before the transaction has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/process.hpp"
#include "perdure/store.h"
#include "store/store_lock.hpp"

namespace perdure {

class GphashStore;

struct OpenTransaction {
  // so far, a step among them; as many entries of the undo log are taken
  std::uint64_t operations = 0;
  std::uint32_t first_step = 0;
  std::vector<std::uint64_t> used;  // records that it published
  std::vector<std::uint64_t> unlinked;  // records that it replaced or erased
  std::vector<std::byte> logged;  // durability power: its batches, encoded
  std::uint64_t records_before = 0;
  std::optional<std::uint64_t> step;  // written
};

/// What a caller holds: the open transaction, until it ends or its store closes.
struct Transaction::State {
  std::atomic<GphashStore*> store{nullptr};  // null once it has ended
  std::uint64_t process = this_process();
  OpenTransaction open;
  ExclusiveLock store_lock;
};

}  // namespace perdure
