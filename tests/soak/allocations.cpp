#include "soak/allocations.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> in_call = false;
std::atomic<std::uint64_t> seed_of_all = 0, one_of = 0, asked = 0, failed = 0;

void* allocate(std::size_t bytes, std::size_t align) {
  if (in_call && one_of != 0 && perdure::test::fails(seed_of_all, asked++, one_of)) {
    ++failed;
    throw std::bad_alloc();
  }
  bytes = std::max<std::size_t>(bytes, 1);
  void* const at = align <= alignof(std::max_align_t)
                       ? std::malloc(bytes)
                       : std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  return allocate(bytes, static_cast<std::size_t>(align));
}
// A sanitizer's own would serve these, and not know what is freed here.
[[gnu::noinline]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  try {
    return allocate(bytes, 1);
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::nothrow_t const&) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  std::free(at);
}

namespace perdure::test {

void fail_allocations(std::uint64_t seed, std::uint64_t one_in) {
  seed_of_all = seed;
  one_of = one_in;
}

std::uint64_t failed_allocations() { return failed; }

InCall::InCall() { in_call = true; }
InCall::~InCall() { in_call = false; }

}  // namespace perdure::test
