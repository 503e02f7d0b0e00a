// Whether a store of `perdure-bench kv` fits this machine, asked before it is made: tmpfs kills who
// fills memory, and says nothing. Invariant: what is asked for is an upper bound, but for what
// bursts leave in a log.
#include <linux/magic.h>
#include <sys/statfs.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "kv_bench.hpp"

namespace perdure::bench {
namespace {

constexpr std::uint64_t kRecordHead = 24, kKey = 8, kAlign = 32;
constexpr std::uint64_t kIndexBytes = 40;  // of a record: leaves are half full at least
constexpr std::uint64_t kAlways = std::uint64_t{64} << 20;

std::uint64_t number_in(char const* file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? number : std::numeric_limits<std::uint64_t>::max();  // "max", or no file
}

/// That processes may still take: of the machine, and of the group that this one is in.
std::uint64_t memory_left() {
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;)
    if (std::uint64_t kib = 0; word == "MemAvailable:" && in >> kib) left = kib << 10;
  std::uint64_t const most = number_in("/sys/fs/cgroup/memory.max");
  std::uint64_t const used = number_in("/sys/fs/cgroup/memory.current");
  if (most != std::numeric_limits<std::uint64_t>::max() && used <= most)
    left = std::min(left, most - used);
  return left;
}

std::string gib(std::uint64_t bytes) {
  std::string const tenths = std::to_string((bytes * 10 + (1u << 29)) >> 30);
  if (tenths.size() == 1) return "0." + tenths + " GiB";
  return tenths.substr(0, tenths.size() - 1) + "." + tenths.back() + " GiB";
}

}  // namespace

KvMemory kv_memory(KvSetting const& s, std::size_t workloads) {
  std::uint64_t const slot =
      (kRecordHead + kKey + s.store.value_bytes + kAlign - 1) / kAlign * kAlign;
  auto const aged = static_cast<std::uint64_t>(s.age * static_cast<double>(s.records));
  // Workloads d, e and insert add records; a log is at most half outdated, once it is collected.
  std::uint64_t const written = workloads * s.ops + aged;
  bool const log = s.store.design.starts_with("log");
  std::uint64_t const records = s.records + (log ? std::min(written, s.records) : s.ops);
  bool const durable = s.store.design.ends_with("-index") || s.store.design == "heap-full";
  std::uint64_t const index = (s.records + s.ops) * kIndexBytes;
  std::uint64_t const arrays = s.threads * (2048 * std::uint64_t{s.store.value_bytes});
  return {records * slot + (durable ? index : 0) + kAlways,
          (durable ? index / 8 : index) + arrays + kAlways};
}

void require_memory(KvSetting const& s, std::size_t workloads) {
  KvMemory const needed = kv_memory(s, workloads);
  std::filesystem::path where = s.pool.empty() ? "/dev/shm" : s.pool;
  if (!s.pool.empty()) where = where.has_parent_path() ? where.parent_path() : ".";
  struct statfs of{};
  if (::statfs(where.c_str(), &of) != 0) return;  // making the file says why not
  std::uint64_t const there = of.f_bavail * static_cast<std::uint64_t>(of.f_bsize);
  bool const in_memory = of.f_type == TMPFS_MAGIC;
  std::uint64_t const memory = needed.other + (in_memory ? needed.pool : 0);
  if (needed.pool <= there && memory <= memory_left()) return;
  throw Failure(s.store.design + ", " + std::to_string(s.records) + " records of " +
                std::to_string(s.store.value_bytes) + " bytes: the pool takes up to " +
                gib(needed.pool) + " where " + where.string() + " has " + gib(there) + ", and " +
                gib(memory) + " of memory are needed where " + gib(memory_left()) +
                " are left; choose fewer --records or --ops, smaller --value-bytes, or another "
                "--pool");
}

}  // namespace perdure::bench
