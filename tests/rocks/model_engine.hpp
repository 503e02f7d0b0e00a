// An Engine of sorted vectors in host memory, which counts the trips to its machine.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "lsm/engine/engine.hpp"

namespace perdure::lsm::test {

class ModelRun final : public Run {
 public:
  struct Entry {
    std::string key;
    Version version;
  };
  explicit ModelRun(std::vector<Entry> entries)
      : Run(static_cast<std::uint32_t>(entries.size()), 0), entries_(std::move(entries)) {}
  std::vector<Entry> const& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

inline std::string_view element(Column const& keys, std::size_t i) {
  return {reinterpret_cast<char const*>(keys.data) + keys.offsets[i],
          static_cast<std::size_t>(keys.offsets[i + 1] - keys.offsets[i])};
}

class ModelEngine final : public Engine {
 public:
  std::size_t trips = 0;
  bool lost = false;  // the machine

  std::string describe() const override { return "sorted vectors"; }
  std::uint64_t free_bytes() const override { return ~std::uint64_t{0}; }

  Result<RunPtr> build(Entries const& entries) override {
    std::vector<ModelRun::Entry> all(entries.keys.count);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].key = element(entries.keys, i);
      all[i].version.value = entries.values[i];
      all[i].version.request =
          entries.requests.empty() ? entries.first_request + i : entries.requests[i];
      all[i].version.kind = entries.kinds.empty() ? Kind::put : entries.kinds[i];
    }
    std::ranges::stable_sort(all, [](auto const& a, auto const& b) {
      return a.key != b.key ? a.key < b.key : a.version.request > b.version.request;
    });
    return RunPtr(std::make_shared<ModelRun>(std::move(all)));
  }

  Result<RunPtr> merge(RunList) override { return unsupported(); }
  Status find(RunList, Column const&, Limits const&, std::span<Answer>) override {
    return unsupported();
  }
  Status chains(RunList, Column const&, Limits const&, Chains&) override { return unsupported(); }

  Status seek(Run const& run, Column const& keys, Bound bound,
              std::span<std::uint32_t> positions) override {
    if (Status const status = trip(); !status.ok()) return status;
    auto const& all = static_cast<ModelRun const&>(run).entries();
    for (std::size_t i = 0; i < keys.count; ++i) {
      std::string_view const wanted = element(keys, i);
      auto const at = bound == Bound::lower
                          ? std::ranges::lower_bound(all, wanted, {}, &ModelRun::Entry::key)
                          : std::ranges::upper_bound(all, wanted, {}, &ModelRun::Entry::key);
      positions[i] = static_cast<std::uint32_t>(at - all.begin());
    }
    return {};
  }

  Status fetch(Run const& run, std::uint32_t first, std::uint32_t count,
               EntryBlock& block) override {
    if (Status const status = trip(); !status.ok()) return status;
    block.keys.clear();
    block.versions.clear();
    block.key_offsets.assign(1, 0);
    for (std::uint32_t i = first; i < first + count; ++i) {
      ModelRun::Entry const& entry = static_cast<ModelRun const&>(run).entries().at(i);
      auto const* const key = reinterpret_cast<std::byte const*>(entry.key.data());
      block.keys.insert(block.keys.end(), key, key + entry.key.size());
      block.key_offsets.push_back(block.keys.size());
      block.versions.push_back(entry.version);
    }
    return {};
  }

 private:
  static Status unsupported() { return {Code::unsupported, "not of an iterator"}; }
  Status trip() {
    ++trips;
    return lost ? Status(Code::device_error, "the model's machine is lost") : Status();
  }
};

}  // namespace perdure::lsm::test
