// Which process this is, and the descriptors whose locks are this process's alone. A fork copies memory and shares open
// files: so what must not be used in a child has to notice where it is, and a lock (flock) that a child inherits would
// outlive the process that took it. Invariants: a process and any that descend from it by forking, however that is done
// (fork, _Fork, clone), have different numbers; a child made by fork() holds none of the descriptors that were opened
// here, and one made otherwise lets go of them at its first question.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace perdure {

/// Never 0.
[[nodiscard]] std::uint64_t this_process() noexcept;

/// As ::open(), for a file that will be locked.
int open_held(char const* path, int flags, mode_t mode = 0);
/// As ::memfd_create().
int memfd_held(char const* name);
/// As ::eventfd(): of 0, non-blocking.
int eventfd_held();
/// The same of a descriptor that is there already. Code that cannot do so in one go: a fork in between shares it.
void hold(int fd);
/// Whether it is one of those, in this process.
[[nodiscard]] bool is_held(int fd);
/// Unlocks and closes it. In another process than the one that opened it: nothing, for it is closed there.
void close_held(int fd);
/// Somebody else closes it.
void let_go_of(int fd);

}  // namespace perdure
