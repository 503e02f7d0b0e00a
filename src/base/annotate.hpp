// Marks for functions that compile for host and device alike. On a GPU they are always inlined, for
// a call there costs registers and spills. On the host the compiler chooses: that takes it a third
// of the time. A copy that it leaves out of line stays in its own object, whatever instruction set
// that is compiled for (cmake/cpu_objects.cmake).
#pragma once

#if defined(__CUDACC__)
#define PERDURE_FN __host__ __device__ __forceinline__
#else
#define PERDURE_FN inline
#endif

// For the functions of a search on the host that the compiler would leave out of line: Dash's then
// take twice as long. Sanitizers and the explorer do not measure, and compile faster without.
#if defined(PERDURE_EXPLORE) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PERDURE_HOT inline
#else
#define PERDURE_HOT inline __attribute__((always_inline))
#endif

// The same for a lambda. To one that is called goes what it has captured through memory, copied by
// words and read by pairs of words; such a read waits until all earlier stores have left the
// processor, and so for the flush of the operation before.
#if defined(PERDURE_EXPLORE) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PERDURE_HOT_LAMBDA
#else
#define PERDURE_HOT_LAMBDA __attribute__((always_inline))
#endif
