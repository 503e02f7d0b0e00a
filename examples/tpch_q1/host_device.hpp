// The mark of a function that runs on the host and in kernels: one source is compiled for both.
#pragma once

#ifdef __CUDACC__
#define Q1_FN __host__ __device__ inline
#else
#define Q1_FN inline
#endif
