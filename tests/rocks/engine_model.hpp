// What the engine of sorted runs is held to: batches as plain strings, and a map of versions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lsm/engine/engine.hpp"

namespace perdure::lsm {

struct Write {
  std::string key;
  Kind kind = Kind::put;
  std::string value;
};

/// A column of strings.
class KeyColumn {
 public:
  explicit KeyColumn(std::vector<std::string> const& keys, bool fixed = false) {
    offsets_.push_back(0);
    for (std::string const& key : keys) {
      bytes_ += key;
      offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
    }
    column_.data = reinterpret_cast<std::byte const*>(bytes_.data());
    column_.count = keys.size();
    if (fixed && !keys.empty()) {
      column_.width = static_cast<std::uint32_t>(keys[0].size());
    } else {
      column_.offsets = offsets_.data();
    }
  }
  KeyColumn(KeyColumn const&) = delete;
  KeyColumn& operator=(KeyColumn const&) = delete;

  [[nodiscard]] Column const& column() const { return column_; }

 private:
  std::string bytes_;
  std::vector<std::int64_t> offsets_;
  Column column_;
};

struct KeyedVersion {
  std::string key;
  Version version;
};

inline bool same(ValueRef const& a, ValueRef const& b) {
  return a.size == b.size && a.data == b.data;
}
inline bool same(Version const& a, Version const& b) {
  return a.request == b.request && a.kind == b.kind && same(a.value, b.value);
}

/// All that was written, and which of it each run has, newest first.
class RunModel {
 public:
  using Requests = std::vector<RequestId>;

  /// Where the values of these writes lie from now on; of erases, nothing.
  std::vector<ValueRef> keep_values(std::span<Write const> writes) {
    std::vector<ValueRef> refs;
    for (Write const& write : writes) {
      refs.emplace_back();
      if (write.kind == Kind::erase) continue;
      std::string const& kept = values_.emplace_back(write.value);
      refs.back() = {reinterpret_cast<std::byte const*>(kept.data()), kept.size()};
    }
    return refs;
  }

  /// The same as a column, which has bytes for erases, too, and does not begin at its first offset.
  Column keep_column(std::span<Write const> writes, bool fixed, std::vector<ValueRef>& refs) {
    std::vector<std::string> values{writes.empty() ? "" : writes[0].value};
    for (Write const& write : writes) values.push_back(write.value);
    Column column = columns_.emplace_back(values, fixed).column();
    --column.count;
    if (fixed)
      column.data += column.width;
    else
      ++column.offsets;
    refs.clear();
    for (std::size_t i = 0; i < writes.size(); ++i) {
      auto const at = fixed ? static_cast<std::int64_t>(i * column.width) : column.offsets[i];
      refs.emplace_back();
      if (writes[i].kind != Kind::erase) refs.back() = {column.data + at, writes[i].value.size()};
    }
    return column;
  }

  /// The same as they lie in a log's record, behind their keys.
  std::vector<ValueRef> keep_record(std::span<Write const> writes) {
    std::string& record = values_.emplace_back();
    std::vector<std::size_t> at;
    for (Write const& write : writes) {
      at.push_back(record.size() + write.key.size());
      record += write.key;
      if (write.kind != Kind::erase) record += write.value;
    }
    std::vector<ValueRef> refs(writes.size());
    for (std::size_t i = 0; i < writes.size(); ++i) {
      if (writes[i].kind == Kind::erase) continue;
      refs[i] = {reinterpret_cast<std::byte const*>(record.data()) + at[i], writes[i].value.size()};
    }
    return refs;
  }

  void add_run(std::span<Write const> writes, Requests const& requests,
               std::vector<ValueRef> const& values) {
    std::vector<KeyedVersion> run;
    for (std::size_t i = 0; i < writes.size(); ++i)
      run.push_back({writes[i].key, {values[i], requests[i], writes[i].kind}});
    runs_.insert(runs_.begin(), sorted(std::move(run)));
  }
  void merge_runs(std::size_t first, std::size_t last) {
    std::vector<KeyedVersion> all;
    for (std::size_t r = first; r < last; ++r)
      all.insert(all.end(), runs_[r].begin(), runs_[r].end());
    auto const at = static_cast<std::ptrdiff_t>(first);
    runs_.erase(runs_.begin() + at, runs_.begin() + static_cast<std::ptrdiff_t>(last));
    runs_.insert(runs_.begin() + at, sorted(std::move(all)));
  }

  [[nodiscard]] std::vector<std::vector<KeyedVersion>> const& runs() const { return runs_; }

  /// The newest run with a version of the key that a reader with the limit sees, or runs().size().
  [[nodiscard]] std::size_t newest_run(std::string const& key, RequestId limit) const {
    auto const has = [&](std::vector<KeyedVersion> const& run) {
      auto at = std::ranges::lower_bound(run, key, {}, [](auto& one) { return one.key; });
      for (; at != run.end() && at->key == key; ++at)
        if (at->version.request <= limit) return true;
      return false;
    };
    return static_cast<std::size_t>(std::ranges::find_if(runs_, has) - runs_.begin());
  }
  /// What a reader with the limit sees, newest first.
  [[nodiscard]] std::vector<Version> visible(std::string const& key, RequestId limit) const {
    std::vector<Version> seen;
    for (auto const& run : runs_) {
      for (KeyedVersion const& one : run) {
        if (one.key == key && one.version.request <= limit) seen.push_back(one.version);
      }
    }
    return seen;
  }
  /// The first of these of each key that has any.
  [[nodiscard]] std::map<std::string, Version> newest(RequestId limit) const {
    std::map<std::string, Version> all;
    for (auto const& run : runs_) {
      for (KeyedVersion const& one : run)
        if (one.version.request <= limit) all.emplace(one.key, one.version);
    }
    return all;
  }
  [[nodiscard]] std::vector<Version> chain(std::string const& key, RequestId limit) const {
    std::vector<Version> seen = visible(key, limit);
    auto const end = std::ranges::find_if(seen, [](auto& v) { return v.kind != Kind::merge; });
    if (end != seen.end()) seen.erase(end + 1, seen.end());
    return seen;
  }

 private:
  static std::vector<KeyedVersion> sorted(std::vector<KeyedVersion> run) {
    std::ranges::sort(run, [](KeyedVersion const& a, KeyedVersion const& b) {
      int const order = a.key.compare(b.key);  // as unsigned bytes
      return order != 0 ? order < 0 : a.version.request > b.version.request;
    });
    return run;
  }

  std::vector<std::vector<KeyedVersion>> runs_;
  std::deque<std::string> values_;
  std::deque<KeyColumn> columns_;
};

}  // namespace perdure::lsm
