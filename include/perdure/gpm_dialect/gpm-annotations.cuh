// The macros that programs for the published libGPM mark their accesses with: here they do what is
// marked, and count and delay nothing. Macros because programs put declarations, and nothing at
// all, into them.
#pragma once

#define PMEM_READ_OP(operation, size) operation;
#define PMEM_WRITE_OP(operation, size) operation;
#define PMEM_READ_WRITE_OP(operation, size) operation;
#define OUTPUT_STATS
#define BW_DELAY(cycles)
#define CALC(base_bandwidth, target_bandwidth, size) 0
