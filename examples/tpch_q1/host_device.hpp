// The marks of functions that run on the host and in kernels: one source is compiled for both.
// Q1_RARE: seldom called. On the host it stays out of the loops that call it, which are a fifth
// faster so; a kernel would have to put its machine into memory to call it.
#pragma once

#ifdef __CUDACC__
#define Q1_FN __host__ __device__ inline
#define Q1_RARE __host__ __device__ inline
#else
#define Q1_FN inline
#define Q1_RARE [[gnu::noinline, gnu::cold]] inline
#endif
