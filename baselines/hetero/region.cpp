#include "region.hpp"

#include <sys/mman.h>

#include <string>

#include "exec/pinning.hpp"

namespace perdure::hetero {

Result<Region> Region::make(std::size_t bytes, bool for_gpu) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  Region region;
  region.bytes_ = (bytes + kHuge - 1) / kHuge * kHuge;
  void* const at =
      ::mmap(nullptr, region.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    region.bytes_ = 0;
    return Status{Code::no_space, "out of memory for " + std::to_string(bytes) +
                                      " bytes of host memory: use fewer keys or smaller batches"};
  }
  region.data_ = static_cast<std::byte*>(at);
  ::madvise(at, region.bytes_, MADV_HUGEPAGE);  // advice: without it, just slower
  if (!for_gpu) return region;
  if (Status s = exec::pin(at, region.bytes_, false); !s.ok()) return s;
  region.pinned_ = true;
  return region;
}

Region::~Region() {
  if (pinned_) exec::unpin(data_, bytes_);
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace perdure::hetero
