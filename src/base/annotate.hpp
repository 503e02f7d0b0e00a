// Marks for functions that compile for host and device alike. Always inlined: the CPU code is built
// once per instruction set, and an out-of-line copy from the AVX-512 build must never be linked into
// a program that runs without it.
#pragma once

#if defined(__CUDACC__)
#define PERDURE_FN __host__ __device__ __forceinline__
#else
#define PERDURE_FN inline __attribute__((always_inline))
#endif
