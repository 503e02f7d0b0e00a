// Keys of the benchmarks of indexes, by number: uniform over all 64 bits, each number another key,
// none of them 0; inline they are 8 bytes, variable 16, as in Dash's evaluation. The value of a key
// follows from its number, so that every answer can be checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "common.hpp"
#include "cpu_baseline.hpp"

namespace perdure::bench {

class IndexKeys {
 public:
  explicit IndexKeys(bool variable) : bytes_(variable ? 16 : 8) {}

  class One {
   public:
    operator cpu_baselines::Key() const { return {bytes_.data(), size_}; }

   private:
    friend class IndexKeys;
    std::array<std::byte, 16> bytes_;
    std::size_t size_ = 8;
  };
  [[nodiscard]] One key(std::uint64_t n) const {
    One one;
    std::uint64_t const words[2] = {mixed(n + 1), n};
    std::memcpy(one.bytes_.data(), words, sizeof words);
    one.size_ = bytes_;
    return one;
  }
  [[nodiscard]] static std::uint64_t value(std::uint64_t n) { return n * 0x9e3779b97f4a7c15u + 1; }
  /// A bijection that leaves 0 alone.
  [[nodiscard]] static std::uint64_t mixed(std::uint64_t n) {
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
    n = (n ^ n >> 27) * 0x94d049bb133111ebu;
    return n ^ n >> 31;
  }

 private:
  std::size_t bytes_;
};

/// Numbers from here on are of keys that no table has.
inline constexpr std::uint64_t kAbsentKeys = std::uint64_t{1} << 40;

inline cpu_baselines::HostKind host_named(std::string const& text) {
  if (text == "ordered") return cpu_baselines::HostKind::ordered;
  if (text == "flushed") return cpu_baselines::HostKind::flushed;
  if (text == "counted") return cpu_baselines::HostKind::counted;
  if (text == "emulated") return cpu_baselines::HostKind::emulated;
  throw Failure("--host '" + text + "': choose ordered, flushed, counted or emulated");
}

/// As much of the data as in Dash's evaluation: 36.75 MiB for 200 million records, and no more than
/// those.
[[nodiscard]] inline std::uint64_t emulated_cache_bytes_for(std::uint64_t records) {
  constexpr std::uint64_t kBytes = std::uint64_t{147} << 18, kRecords = 200'000'000;
  return records < kRecords ? static_cast<std::uint64_t>(static_cast<double>(kBytes) *
                                                         static_cast<double>(records) / kRecords)
                            : kBytes;
}

/// Operations between which a thread releases what others unlinked.
inline constexpr std::uint64_t kPinned = 256;

/// What a table of that many records takes of its pool, generously: the baselines' load factors go
/// down to a third, and a table that is resized has its old room beside the new one.
[[nodiscard]] inline std::uint64_t pool_bytes_for(std::uint64_t records, bool variable) {
  return records * (variable ? 144 : 104) + (std::uint64_t{64} << 20);
}

}  // namespace perdure::bench
