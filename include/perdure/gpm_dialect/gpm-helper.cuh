// What the published header of this name brings besides: libpmem's calls, standard headers, and a
// check of CUDA's errors that ends the program.
#pragma once

#include <cstdio>
#include <fstream>
#include <thread>

#include "perdure/gpm_dialect/libpmem.h"

#define checkForCudaErrors(answer) perdure::exec::cuda_or_exit((answer), __FILE__, __LINE__)
