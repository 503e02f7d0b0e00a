// A program in the published dialect of libGPM: it includes the headers that GPMbench includes, by
// their names, calls what GPMbench calls, as it calls it, and looks at no return value that
// GPMbench does not look at. A ledger of accounts is changed by a transaction that a crash cuts
// short (the process goes on with the files opened again), recovered, and checkpointed in two
// groups of a checkpoint that was made for one, as hotspot's is. Exit status 0 when the ledger is
// right, 77 without a GPU. Files: in the directory that PERDURE_PMEM names.
extern "C" {
#include "change-ddio.h"
}
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "bandwidth_analysis.cuh"
#include "gpm-annotations.cuh"
#include "gpm-helper.cuh"
#include "libgpm.cuh"
#define CHECKPOINT_TIME
double checkpoint_time = 0;
#include "libgpmcp.cuh"
#include "libgpmlog.cuh"

#define ACCOUNTS 4096
#define TPB 512

struct log_entry_t {
  int account;
  unsigned old_low, old_high;
  unsigned pad[3];
};
static_assert(sizeof(log_entry_t) == 24, "as gpKVS's");

__global__ void log_metadata(gpmlog* log, int* data, size_t size) {
  gpmlog_insert(log, data, size, 0);
}

__global__ void change(unsigned long long* accounts, gpmlog* log, int stop, int* failed) {
  int const id = threadIdx.x + blockIdx.x * blockDim.x;
  if (id >= stop) return;
  log_entry_t entry = {};
  PMEM_READ_OP(unsigned long long old = accounts[id], sizeof(unsigned long long))
  entry.account = id;
  entry.old_low = (unsigned)old;
  entry.old_high = (unsigned)(old >> 32);
  if (gpmlog_insert(log, &entry, sizeof(log_entry_t), id) != (int)sizeof(log_entry_t))
    atomicAdd(failed, 1);
  BW_DELAY(CALC(73, 24, sizeof(log_entry_t)))
  unsigned long long const fresh = old + 1000;
  gpm_memcpy_nodrain(&accounts[id], &fresh, sizeof(fresh), cudaMemcpyDeviceToDevice);
  gpm_drain();
}

/// Reads what was logged last first, in parts, as gpDB's recovery does.
__global__ void recover(unsigned long long* accounts, gpmlog* log, int partitions, int* undone) {
  int const id = threadIdx.x + blockIdx.x * blockDim.x;
  if (id >= partitions || gpmlog_get_size(log, id) < sizeof(log_entry_t)) return;
  unsigned rest[5];
  int account = -1;
  gpmlog_read(log, rest, sizeof rest, id);
  gpmlog_remove(log, sizeof rest, id);
  gpmlog_read_remove(log, &account, sizeof account, id);
  unsigned long long const old = rest[0] | (unsigned long long)rest[1] << 32;
  gpm_memcpy(&accounts[account], &old, sizeof(old), cudaMemcpyDeviceToDevice);
  if (gpmlog_is_empty(log, id)) atomicAdd(undone, 1);
}

__global__ void read_metadata(gpmlog* log, int* data) {
  // An empty log answers 0 bytes, one without a partition an error, below zero.
  data[2] = gpmlog_read(log, &data[3], sizeof(int));
  if (gpmlog_get_size(log, 0) < sizeof(int) * 2)
    data[1] = -1;
  else
    gpmlog_read(log, data, sizeof(int) * 2, 0);
}

__global__ void clear(gpmlog* log, int size) {
  int const id = threadIdx.x + blockIdx.x * blockDim.x;
  if (id < size) gpmlog_clear(log, id);
}

__global__ void set(float* values, float value) {
  values[threadIdx.x + blockIdx.x * blockDim.x] = value;
}

static int wrong = 0;
static void check(bool right, char const* what) {
  printf("%-64s %s\n", what, right ? "right" : "WRONG");
  wrong += right ? 0 : 1;
}

static unsigned long long* ledger() {
  size_t len = sizeof(unsigned long long) * ACCOUNTS;
  auto* const accounts = (unsigned long long*)gpm_map_file("./ledger.dat", len, true);
  unsigned long long* fresh = (unsigned long long*)malloc(len);
  for (int i = 0; i < ACCOUNTS; ++i) fresh[i] = 7 + i;
  gpm_memcpy(accounts, fresh, len, cudaMemcpyHostToDevice);
  free(fresh);
  return accounts;
}

static void transaction_cut_short() {
  unsigned long long* accounts = ledger();
  int* counts;
  cudaMallocHost((void**)&counts, sizeof(int) * 2);
  counts[0] = counts[1] = 0;
  size_t log_size = sizeof(log_entry_t) * ((ACCOUNTS + TPB - 1) / TPB) * TPB;
  gpmlog* dlog = gpmlog_create_managed("ledger_log", log_size, (ACCOUNTS + TPB - 1) / TPB, TPB);
  gpmlog* log = gpmlog_create("ledger_md", sizeof(int) * 2, 1);
  int* data;
  cudaMallocHost((void**)&data, sizeof(int) * 4);
  data[0] = 11, data[1] = 22;
  ddio_off();
  log_metadata<<<1, 1>>>(log, data, sizeof(int) * 2);
  change<<<(ACCOUNTS + TPB - 1) / TPB, TPB>>>(accounts, dlog, ACCOUNTS / 3, &counts[0]);
  ddio_on();
  gpmlog_close(dlog);
  gpmlog_close(log);
  gpm_unmap("./ledger.dat", accounts, sizeof(unsigned long long) * ACCOUNTS);
  check(counts[0] == 0, "a log of 24 bytes a thread takes an entry of 24 of each");

  size_t len = 0;
  accounts = (unsigned long long*)gpm_map_file("./ledger.dat", len, false);
  check(len >= sizeof(unsigned long long) * ACCOUNTS && gpm_is_pmem(accounts, len),
        "the ledger is opened again");
  size_t changed = 0;
  for (int i = 0; i < ACCOUNTS; ++i) changed += accounts[i] != 7ull + i;
  check(changed == ACCOUNTS / 3, "a third of the ledger was changed");
  log = gpmlog_open("ledger_md");
  data[0] = data[1] = data[2] = 0;
  read_metadata<<<1, 1>>>(log, data);
  cudaDeviceSynchronize();
  check(data[0] == 11 && data[1] == 22, "what the log of one partition held is read");
  check(data[2] < 0, "a log with partitions behind locks has no place of a thread");
  dlog = gpmlog_open("ledger_log");
  int const partitions = gpmlog_get_partitions(dlog);
  check(partitions == ACCOUNTS, "the log has a partition a thread");
  recover<<<(partitions + TPB - 1) / TPB, TPB>>>(accounts, dlog, partitions, &counts[1]);
  clear<<<1, 1>>>(log, 1);
  cudaDeviceSynchronize();
  check(counts[1] == ACCOUNTS / 3, "every change was undone, from entries read in parts");
  changed = 0;
  for (int i = 0; i < ACCOUNTS; ++i) changed += accounts[i] != 7ull + i;
  check(changed == 0, "the ledger is as it was");
  gpmlog_close(dlog);
  gpmlog_close(log);
  gpm_unmap(accounts, len);
}

static void two_groups_of_one() {
  size_t const size = sizeof(float) << 20;
  float* values[2];
  gpmcp* cp = gpmcp_create("ledger_cp", size, 2, 1);
  for (int i = 0; i < 2; ++i) {
    cudaMalloc((void**)&values[i], size);
    gpmcp_register(cp, values[i], size, i);
  }
  START_BW_MONITOR2("bw.csv");
  for (int i = 0; i < 2; ++i) {
    set<<<1 << 12, 256>>>(values[i], 1.5f + i);
    gpmcp_checkpoint(cp, i);
    cudaMemset(values[i], 0, size);
  }
  STOP_BW_MONITOR
  gpmcp_close(cp);
  cp = gpmcp_open("ledger_cp");
  float first[2] = {}, last[2] = {};
  for (int i = 0; i < 2; ++i) gpmcp_register(cp, values[i], size, i);
  for (int i = 0; i < 2; ++i) {
    gpmcp_restore(cp, i);
    cudaMemcpy(&first[i], values[i], sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(&last[i], values[i] + ((1 << 20) - 1), sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(values[i]);
  }
  check(checkpoint_time > 0, "checkpoints say how long they took");
  check(first[0] == 1.5f && last[0] == 1.5f, "group 0 of a checkpoint for one group comes back");
  check(first[1] == 2.5f && last[1] == 2.5f, "group 1 of it comes back too");
  gpmcp_close(cp);
}

static void host_memory() {
  size_t mapped = 0;
  int is_pmem = 0;
  int* const nodes =
      (int*)pmem_map_file("/pmem/ledger_nodes", 4000, PMEM_FILE_CREATE, 0666, &mapped, &is_pmem);
  check(nodes != NULL && mapped >= 4000, "libpmem's files are where gpm_map_file's are");
  if (nodes == NULL) return;
  nodes[999] = 5;
  pmem_persist(nodes, 4000);
  pmem_unmap(nodes, 4000);
  int* const again =
      (int*)pmem_map_file("/pmem/ledger_nodes", 8000, PMEM_FILE_CREATE, 0666, &mapped, &is_pmem);
  check(again != NULL && again[999] == 5, "a file that is there keeps what it holds");
  gpm_memset(again, 3, 8);
  check(again[0] == 0x03030303 && again[2] == 0, "the host fills what is mapped");
  pmem_unmap(again, 8000);
}

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    fprintf(stderr, "no GPU here\n");
    return 77;
  }
  char const* const directory = getenv("PERDURE_PMEM");
  if (directory == NULL) {
    fprintf(stderr, "set PERDURE_PMEM to a directory in /dev/shm\n");
    return 2;
  }
  mkdir(directory, 0700);
  transaction_cut_short();
  two_groups_of_one();
  host_memory();
  checkForCudaErrors(cudaDeviceSynchronize());
  for (char const* name : {"ledger.dat", "ledger_log", "ledger_md", "ledger_cp", "ledger_nodes"})
    remove((std::string(directory) + "/" + name).c_str());
  rmdir(directory);
  return wrong == 0 ? 0 : 1;
}
