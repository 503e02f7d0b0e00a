// When a pool is being changed, as those see it who look at it live from another process.
// Invariants: an opening is one change, from its first write on; afterwards each exclusive hold of
// the store lock is one; nothing is written outside them but the log word (pm/log_word.hpp).
#pragma once

#include "base/assert.hpp"
#include "pm/changes.hpp"
#include "store/gphash/core.hpp"

namespace perdure {

class PoolChanges {
 public:
  explicit PoolChanges(Core& core) : core_(core), word_(core.pool.base()) {}

  /// An opening writes, from here on: one that is refused before has left the file as it was.
  void begin_opening() {
    if (core_.pool.read_only() || opening_) return;
    PERDURE_ASSERT(!core_.lock.announced());  // it is open, and the lock begins changes
    word_.begin();
    opening_ = true;
  }

  /// It is open: from here on there are moments between two changes.
  void opened() {
    RecoveryReport& recovery = core_.recovery;
    if (core_.options.live) {
      // What the copy went through was no recovery of the pool, but where a killed process had left
      // it so.
      recovery.clean = recovery.dropped == 0 && recovery.undone == 0 && recovery.duplicates == 0;
      recovery.resize_resumed = false;
      core_.pool.end_writing();
    }
    if (core_.pool.read_only()) return;
    PERDURE_ASSERT(opening_);
    opening_ = false;
    word_.end();
    core_.lock.announce(&word_);
  }

  /// Nothing more is written to the pool, which may be gone.
  void end(bool here) {
    bool const announced = core_.lock.announced();
    core_.lock.announce(nullptr);
    if (core_.pool.base() != nullptr && here && (opening_ || announced)) word_.end();
    opening_ = false;
  }

 private:
  Core& core_;
  pm::Changes word_;
  bool opening_ = false;
};

}  // namespace perdure
