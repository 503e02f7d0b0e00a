// Marks for functions that compile for host and device alike. Always inlined: the CPU code is built
// once per instruction set, and an out-of-line copy from the AVX-512 build must never be linked into
// a program that runs without it. Builds with a sanitizer have one copy alone, and the explorer (PERDURE_EXPLORE) its
// simulated warps: there the compiler chooses, and takes a third of the time.
#pragma once

#if defined(__CUDACC__)
#define PERDURE_FN __host__ __device__ __forceinline__
#elif defined(PERDURE_EXPLORE) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PERDURE_FN inline
#else
#define PERDURE_FN inline __attribute__((always_inline))
#endif
