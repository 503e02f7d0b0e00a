// The published monitor of bandwidth by its names: here it measures nothing. Stopping it waits for
// the GPU, as programs count on; and they count on its standard headers, and its namespace.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <thread>

#include "exec/cuda/cuda_status.cuh"
#include "perdure/gpm_dialect/gpm-annotations.cuh"

using namespace std;

#define START_BW_MONITOR
#define START_BW_MONITOR2(file)
#define STOP_BW_MONITOR perdure::exec::cuda_or_exit(perdure::exec::cuda_wait(), __FILE__, __LINE__);
