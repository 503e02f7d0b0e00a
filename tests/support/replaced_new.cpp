// The operators new and delete of replaced_new.hpp: malloc's memory, and failures when they are
// told.
#include "support/replaced_new.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace perdure::test {
namespace {

void* allocate(std::size_t bytes, std::size_t align) {
  if (allocation_fails()) throw std::bad_alloc();
  bytes = std::max<std::size_t>(bytes, 1);
  void* const at = align <= alignof(std::max_align_t)
                       ? std::malloc(bytes)
                       : std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

}  // namespace
}  // namespace perdure::test

using perdure::test::allocate;

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
