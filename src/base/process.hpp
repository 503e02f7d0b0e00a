// Which process this is, and the descriptors whose locks are this process's alone. A fork copies
// memory and shares open files: so what must not be used in a child has to notice where it is, and
// a lock (flock) that a child inherits would outlive the process that took it. Invariants: a
// process and any that descend from it by forking, however that is done (fork, _Fork, clone), have
// different numbers; a child made by fork() shares none of the descriptors that were opened here,
// and one made otherwise releases them at its first question; a descriptor that others closed,
// and whose number now stands for a file of theirs, is left alone, in a child too; what is opened
// here never has the number of a standard stream, which a program may have closed and still write
// to; nobody waits for another's file to open.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace perdure {

/// Never 0.
[[nodiscard]] std::uint64_t this_process() noexcept;

/// Never destroyed, and reachable for ever: for what a fork brought here with locks that nobody
/// here holds, threads that are elsewhere, or memory of a GPU. T has a `T* aside`.
template <class T>
void put_aside(std::unique_ptr<T> it) noexcept {
  static std::atomic<T*> all{nullptr};
  T* const last = it.release();
  last->aside = all.exchange(last);
}

/// As ::open(), for a file that will be locked. Where a fork came in between, the file is opened
/// once more: one that was made (O_EXCL) and is gone by then counts as there (EEXIST), so that the
/// caller tries again.
int open_held(char const* path, int flags, mode_t mode = 0);
/// As ::memfd_create().
int memfd_held(char const* name);
/// As ::eventfd(): of 0, non-blocking.
int eventfd_held();
/// A descriptor of the same file that is none of stdin's, stdout's and stderr's, and closes when a
/// program is executed; the one given is closed if it is one of them. -1 stays -1.
int above_standard(int fd);
/// As open_held() of a descriptor that is there already. Code that cannot do so in one go: a fork
/// in between shares it.
void hold(int fd);
/// Whether the number still stands for what was opened here: in this process, and by nobody's
/// close.
[[nodiscard]] bool is_held(int fd);
/// Unlocks and closes it. Nothing where it is closed already: in another process than the one that
/// opened it, or by somebody who closed every descriptor.
void close_held(int fd);
/// Somebody else closes it.
void let_go_of(int fd);

}  // namespace perdure
