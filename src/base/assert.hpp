// Assertions: what must hold unless Perdure itself has a bug, whatever files, arguments and
// machines do (those are answered with a Status). Invariant: a process in which one fails ends at
// once, before it writes anything more; what it leaves is what a kill leaves, and the next opening
// recovers it.
//
// PERDURE_ASSERT(condition) is on in every build of the host, so its condition takes a few
// instructions. One that costs more says so: PERDURE_ASSERT(!kCostlyAssertions || is_sorted(...)).
// Those are on in debug builds, under sanitizers and in the explorer. Device code of a release has
// none: they would take registers of every kernel.
#pragma once

namespace perdure {

#if !defined(NDEBUG) || defined(PERDURE_EXPLORE) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__)
inline constexpr bool kCostlyAssertions = true;
#else
inline constexpr bool kCostlyAssertions = false;
#endif

/// Says on standard error what did not hold and where, and ends the process.
[[noreturn]] void assertion_failed(char const* condition, char const* file, int line) noexcept;

}  // namespace perdure

// A macro, for a function does not see the text of its condition.
#if !defined(__CUDA_ARCH__)
#define PERDURE_ASSERT(...)             \
  ((__VA_ARGS__) ? static_cast<void>(0) \
                 : ::perdure::assertion_failed(#__VA_ARGS__, __FILE__, __LINE__))
#elif defined(NDEBUG)
#define PERDURE_ASSERT(...) static_cast<void>(0)
#else
#define PERDURE_ASSERT(...) ((__VA_ARGS__) ? static_cast<void>(0) : __trap())
#endif
