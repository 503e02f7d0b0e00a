// The lock on a file that says that a process has it open.
//
// Invariant: whoever has the lock is alone with the file. A killed process's lock outlives it for
// as long as the system still works for it: requests of io_uring that write to the file, maps that
// a GPU's driver has pinned. So such a lock is waited for, never taken over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "perdure/status.h"

namespace perdure::pm {

enum class Lock : std::uint8_t { none, shared, exclusive };

/// Code::busy: a living process has it, or half a second did not suffice. `named` begins messages.
Status take_lock(std::string const& named, int fd, Lock lock);

/// A process that has a file's lock.
struct LockHolder {
  long process = 0;
  bool exclusive = false;
};
/// One that the system's list of locks names and that lives, whoever has it exclusively first. The
/// list names none of another namespace of processes, and on some file systems of several disks
/// nobody.
[[nodiscard]] std::optional<LockHolder> lock_holder(int fd);

}  // namespace perdure::pm
