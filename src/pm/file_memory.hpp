// The addresses that stand for a file: ranges of it are backed, mapped, locked and pinned, or given
// back. Invariant: what fails leaves file and addresses as they were; a range that could be had is
// backed by the medium, so that no later touch of it is a SIGBUS. A descriptor that others closed,
// and whose number may stand for a file of theirs, is never used to make a file longer or shorter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "perdure/status.h"
#include "perdure/survival.h"

namespace perdure::pm {

struct MapOptions {
  bool read_only = false;
  bool lock_memory = false;
  bool gpu = false;  // register with the GPU, and whatever is added by growth
  // a copy in memory, beside the process that has it open for writing (live_copy.cpp)
  bool live = false;
};

struct FileMemory {
  std::string path;  // for what it refuses
  MapOptions options;
  Medium medium = Medium::file;
  int fd = -1;
  std::byte* data = nullptr;  // of the file's first byte; addresses behind its end are set aside
};

/// "1.5 MiB"
std::string size_text(std::uint64_t bytes);
/// Memory that the system says can be had without swapping; as much as there may be where it says
/// nothing.
std::uint64_t available_memory();
/// Bytes free on the file's file system; as many as there may be where it has no limit.
std::uint64_t free_on_file_system(int fd);

enum class Holes : std::uint8_t { as_they_are, covered };
/// Maps bytes [from, to) of the file, which has them. `covered`: zeros that take no memory stand
/// for all holes of the file before `to`.
Status show(FileMemory const& file, std::uint64_t from, std::uint64_t to, Holes holes);

/// Threads that make a file longer while somebody waits for it.
unsigned most_growing_threads();
/// Makes the file, which ends at `from`, longer, and shows what is new; up to so many threads work
/// on it. Its pages are in the page table afterwards, but on a disk.
Status extend(FileMemory const& file, std::uint64_t from, std::uint64_t to, unsigned threads);
/// The file ends at `from` again, and [from, to) of the addresses is set aside. Nothing of it is
/// pinned any more.
Status cut(FileMemory const& file, std::uint64_t from, std::uint64_t to);

}  // namespace perdure::pm
