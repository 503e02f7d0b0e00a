// An array of bytes in host memory, at a multiple of a page, zeroed. Kernels can read it in place
// once it is pinned (machines.hpp).
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace perdure::q1 {

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* at) const { ::munmap(at, bytes); }
};

class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::size_t bytes) : at_(nullptr, Unmap{bytes}) {
    if (bytes == 0) return;
    void* const at =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    at_.reset(static_cast<std::byte*>(at));
    ::madvise(at, bytes, MADV_HUGEPAGE);  // fewer misses of the TLB; without it all works, too
  }

  [[nodiscard]] std::byte* data() const { return at_.get(); }
  [[nodiscard]] std::size_t size() const { return at_ ? at_.get_deleter().bytes : 0; }
  [[nodiscard]] std::span<std::byte> span() const { return {data(), size()}; }

 private:
  std::unique_ptr<std::byte, Unmap> at_;
};

}  // namespace perdure::q1
