#include "lsm/cache/cache_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "fault/planted_faults.hpp"

namespace perdure::lsm {

namespace {

std::uint64_t memory_of_machine() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t bytes_of_set(std::uint32_t entry_bytes) {
  return sizeof(CacheSet) + kCacheWays * std::uint64_t{entry_bytes};
}

Status refused(char const* option, std::uint64_t is, std::string const& why) {
  return {Code::invalid_argument, std::string(option) + " is " + std::to_string(is) + "; " + why};
}

}  // namespace

Status CacheShape::check() const {
  if (bytes == 0) return {};
  if (entry_bytes < kEntryUnit || entry_bytes > kMostEntryBytes || entry_bytes % kEntryUnit != 0)
    return refused("block_cache_entry_bytes", entry_bytes,
                   "give a multiple of 64 from 64 to " + std::to_string(kMostEntryBytes));
  std::uint64_t const least = std::max(kLeastBytes, bytes_of_set(entry_bytes));
  if (bytes < least)
    return refused("block_cache_bytes", bytes,
                   "give at least " + std::to_string(least) + ", or 0 for no block cache");
  if (bytes > memory_of_machine())
    return refused("block_cache_bytes", bytes,
                   "the machine has " + std::to_string(memory_of_machine()) +
                       " bytes of memory; give less, or 0 for no block cache");
  return {};
}

Result<CacheMemory> CacheMemory::map(CacheShape const& shape) {
  std::uint64_t const of_set = bytes_of_set(shape.entry_bytes);
  std::uint64_t const sets = shape.bytes / of_set;
  void* const at = fault::failing_allocation.strikes()
                       ? MAP_FAILED
                       : ::mmap(nullptr, sets * of_set, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return Status{Code::no_space, "no memory for a block cache of " + std::to_string(shape.bytes) +
                                      " bytes: " + std::strerror(errno)};
  // Small pages: a fault that looks for a large one may compact memory for half a second, in the
  // middle of a Get. The sets, which each Get looks at, are there at once, where the system can.
  ::madvise(at, sets * sizeof(CacheSet), MADV_POPULATE_WRITE);
  CacheView view;
  view.sets = static_cast<CacheSet*>(at);
  view.slots = reinterpret_cast<std::uint64_t*>(view.sets + sets);
  view.count = sets;
  view.slot_words = shape.entry_bytes / sizeof(std::uint64_t);
  return CacheMemory(at, sets * of_set, view);
}

CacheMemory::CacheMemory(CacheMemory&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_), view_(other.view_) {}

CacheMemory::~CacheMemory() {
  if (at_ != nullptr) ::munmap(at_, bytes_);
}

}  // namespace perdure::lsm
