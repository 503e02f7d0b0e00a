// Whether this build runs under ThreadSanitizer.
#pragma once

namespace perdure {
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
}  // namespace perdure
