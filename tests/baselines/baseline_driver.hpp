// A baseline driven by numbers: key and value are functions of them, and a std::map beside it says
// what must be there.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "baseline.hpp"

namespace perdure::baselines::test {

inline constexpr std::uint32_t kValueBytes = 48;

using Ids = std::vector<std::uint64_t>;
using Model = std::map<std::uint64_t, std::uint64_t>;  // key's number -> value's number

/// A path on tmpfs; no file is there, and none afterwards.
class TmpFile {
 public:
  explicit TmpFile(std::string name)
      : path("/dev/shm/perdure-baselines-" + std::to_string(::getpid()) + "-" +
             without_slashes(std::move(name))) {
    std::filesystem::remove(path);
  }
  ~TmpFile() { std::filesystem::remove(path); }
  TmpFile(TmpFile const&) = delete;
  TmpFile& operator=(TmpFile const&) = delete;
  std::string const path;

 private:
  static std::string without_slashes(std::string name) {
    std::replace(name.begin(), name.end(), '/', '-');
    return name;
  }
};

/// Widths in bytes. Word w of element i is a function of i and w.
inline std::vector<std::byte> column(Ids const& numbers, std::uint32_t width) {
  std::vector<std::byte> bytes(numbers.size() * width);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    for (std::uint32_t at = 0; at + 8 <= width; at += 8) {
      std::uint64_t const word = numbers[i] * (1 + at);
      std::memcpy(bytes.data() + i * width + at, &word, 8);
    }
  }
  return bytes;
}

class Driver {
 public:
  Driver(std::unique_ptr<Baseline> baseline, std::uint32_t key_bytes)
      : baseline_(std::move(baseline)), key_bytes_(key_bytes) {}

  std::vector<KeyStatus> put(Ids const& keys, Ids const& values) {
    return write(keys, values, &Baseline::put);
  }
  std::vector<KeyStatus> update(Ids const& keys, Ids const& values) {
    return write(keys, values, &Baseline::update);
  }
  std::vector<KeyStatus> erase(Ids const& keys) {
    auto const bytes = column(keys, key_bytes_);
    std::vector<KeyStatus> statuses(keys.size());
    check(baseline_->erase(keys_of(bytes), statuses));
    return statuses;
  }

  /// The number of each value; throws where a value is none of ours, that is: not whole.
  std::vector<std::pair<KeyStatus, std::uint64_t>> get(Ids const& keys) {
    auto const bytes = column(keys, key_bytes_);
    std::vector<KeyStatus> statuses(keys.size());
    std::vector<std::byte> out(keys.size() * kValueBytes);
    check(baseline_->get(keys_of(bytes), {out.data(), kValueBytes, keys.size(), MemorySpace::host},
                         statuses));
    std::vector<std::pair<KeyStatus, std::uint64_t>> got;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::uint64_t number = 0;
      std::memcpy(&number, out.data() + i * kValueBytes, 8);
      if (std::memcmp(column({number}, kValueBytes).data(), out.data() + i * kValueBytes,
                      kValueBytes) != 0)
        throw std::runtime_error("a torn value");
      got.emplace_back(statuses[i], number);
    }
    return got;
  }

  /// Keys 0 .. keys-1 are there or not as the model says, and hold what it says.
  void expect(Model const& model, std::uint64_t keys) {
    Ids all(keys);
    for (std::uint64_t k = 0; k < keys; ++k) all[k] = k;
    auto const got = get(all);
    for (std::uint64_t k = 0; k < keys; ++k) {
      auto const want = model.find(k);
      ASSERT_EQ(got[k].first, want == model.end() ? KeyStatus::not_found : KeyStatus::ok)
          << "key " << k;
      if (want != model.end()) {
        ASSERT_EQ(got[k].second, want->second) << "key " << k;
      }
    }
    EXPECT_EQ(baseline_->stats().records, model.size());
  }

  [[nodiscard]] Baseline& baseline() { return *baseline_; }

 private:
  [[nodiscard]] Column keys_of(std::vector<std::byte> const& bytes) const {
    return {bytes.data(), nullptr, key_bytes_, bytes.size() / key_bytes_, MemorySpace::host};
  }
  static void check(Status const& status) {
    if (!status.ok()) throw std::runtime_error(status.message());
  }
  std::vector<KeyStatus> write(Ids const& keys, Ids const& values,
                               Status (Baseline::*verb)(Column const&, Column const&,
                                                        std::span<KeyStatus>)) {
    auto const key_column = column(keys, key_bytes_);
    auto const value_column = column(values, kValueBytes);
    std::vector<KeyStatus> statuses(keys.size());
    check((baseline_.get()->*verb)(
        keys_of(key_column),
        {value_column.data(), nullptr, kValueBytes, values.size(), MemorySpace::host}, statuses));
    return statuses;
  }

  std::unique_ptr<Baseline> baseline_;
  std::uint32_t key_bytes_;
};

struct Kind {
  Design design;
  std::uint32_t key_bytes;
  CpuIndex index = CpuIndex::word;  // of cpu_assisted
  Device device = Device::cpu;
};

/// The CPU's indexes behind cpu_assisted, and keys that Dash keeps in its slots or in records.
inline std::vector<Kind> with_assisted(std::vector<Kind> kinds) {
  for (CpuIndex const index :
       {CpuIndex::word, CpuIndex::dash_eh, CpuIndex::dash_lh, CpuIndex::clevel, CpuIndex::seph})
    kinds.push_back({Design::cpu_assisted, 8, index});
  for (CpuIndex const index : {CpuIndex::dash_eh, CpuIndex::clevel, CpuIndex::seph})
    kinds.push_back({Design::cpu_assisted, 32, index});
  return kinds;
}

/// These, and in a build with CUDA the same on a GPU.
inline std::vector<Kind> on_all_devices(std::vector<Kind> kinds) {
#if defined(PERDURE_BASELINES_ON_CUDA)
  for (std::size_t i = 0, n = kinds.size(); i < n; ++i)
    kinds.push_back({kinds[i].design, kinds[i].key_bytes, kinds[i].index, Device::cuda});
#endif
  return kinds;
}

inline bool can_run(Kind const& kind) {
  for (DeviceInfo const& info : devices())
    if (info.device == kind.device) return info.available;
  return false;
}

inline std::string kind_name(Kind const& kind) {
  std::string text = name(kind.design, kind.index);
  for (char& c : text)
    if (c == '-') c = '_';
  return (kind.device == Device::cuda ? "cuda_" : "cpu_") + text + "_key" +
         std::to_string(kind.key_bytes);
}

inline void PrintTo(Kind const& kind, std::ostream* out) { *out << kind_name(kind); }

inline BaselineOptions options(Kind const& kind, std::uint64_t expected_records,
                               std::uint32_t threads = 2) {
  BaselineOptions o;
  o.design = kind.design;
  o.index = kind.index;
  o.device = kind.device;
  o.key_bytes = kind.key_bytes;
  o.value_bytes = kValueBytes;
  o.expected_records = expected_records;
  o.threads = threads;
  return o;
}

inline std::unique_ptr<Baseline> must(Result<std::unique_ptr<Baseline>> baseline) {
  if (!baseline) throw std::runtime_error(baseline.status().message());
  return std::move(*baseline);
}

inline Driver created(TmpFile const& file, Kind const& kind, std::uint64_t expected_records,
                      std::uint32_t threads = 2) {
  return {must(create_baseline(file.path, options(kind, expected_records, threads))),
          kind.key_bytes};
}

inline Driver attached(TmpFile const& file, Kind const& kind) {
  return {must(attach_baseline(file.path, options(kind, 0))), kind.key_bytes};
}

}  // namespace perdure::baselines::test
