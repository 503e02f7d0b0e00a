// A small store whose values lie in a log: an ordered map as its index, one lock around it.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "pm/host.hpp"
#include "pm/value_log/value_log.hpp"
#include "pm/value_log/writer.hpp"

namespace perdure::pm {

using Image = std::vector<std::byte>;
using Model = std::map<std::string, std::string>;

inline LogKey bytes_of(std::string const& text) {
  return {reinterpret_cast<std::byte const*>(text.data()), text.size()};
}
inline std::string text_of(std::span<std::byte const> bytes) {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

class MapIndex : public LogIndex {
 public:
  LogHost& host() override { return log_host_; }
  exec::Epochs& epochs() override { return epochs_; }
  void find(std::span<LogKey const> keys, std::span<std::uint64_t> addresses) override {
    std::lock_guard const lock(mutex_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto const it = map_.find(text_of(keys[i]));
      addresses[i] = it == map_.end() ? 0 : it->second;
    }
  }
  Status put(LogKey key, std::uint64_t address, std::uint64_t& before) override {
    std::lock_guard const lock(mutex_);
    auto const [it, fresh] = map_.try_emplace(text_of(key), 0);
    if (fresh && map_.size() > most) {
      map_.erase(it);
      return {Code::no_space, "the map is full"};
    }
    before = std::exchange(it->second, address);
    return {};
  }
  std::uint64_t erase(LogKey key) override {
    std::lock_guard const lock(mutex_);
    auto const it = map_.find(text_of(key));
    if (it == map_.end()) return 0;
    std::uint64_t const address = it->second;
    map_.erase(it);
    return address;
  }
  bool swap(LogKey key, std::uint64_t from, std::uint64_t to) override {
    if (before_swap) before_swap();
    std::lock_guard const lock(mutex_);
    auto const it = map_.find(text_of(key));
    if (it == map_.end() || it->second != from) return false;
    it->second = to;
    return true;
  }
  std::map<std::string, std::uint64_t> all() {
    std::lock_guard const lock(mutex_);
    return map_;
  }

  std::function<void()> before_swap;
  std::size_t most = ~std::size_t{0};  // entries that there is memory for

 private:
  OrderedHost host_;
  LogHostOn<OrderedHost> log_host_{host_};
  exec::Epochs epochs_;
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> map_;
};

/// A thread's, over one map that all share.
class SharedMapIndex final : public LogIndex {
 public:
  explicit SharedMapIndex(MapIndex& map) : map_(map) {}
  LogHost& host() override { return map_.host(); }
  exec::Epochs& epochs() override { return map_.epochs(); }
  void find(std::span<LogKey const> keys, std::span<std::uint64_t> addresses) override {
    map_.find(keys, addresses);
  }
  Status put(LogKey key, std::uint64_t address, std::uint64_t& before) override {
    return map_.put(key, address, before);
  }
  std::uint64_t erase(LogKey key) override { return map_.erase(key); }
  bool swap(LogKey key, std::uint64_t from, std::uint64_t to) override {
    return map_.swap(key, from, to);
  }

 private:
  MapIndex& map_;
};

inline PoolHeader log_pool_header(std::uint64_t most_superblocks) {
  PoolHeader shape{};
  shape.superblock_bytes = kMinSuperblock;
  shape.max_bytes = most_superblocks * kMinSuperblock;
  shape.levels = shape.hashes = shape.slots = 1;
  shape.max_key_bytes = 128;
  shape.max_value_bytes = 100'000;
  return shape;
}

template <class T>
T ok_or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.status().message());
  return std::move(*result);
}

/// A file that never gets its name. It reserves no more addresses than its medium has bytes: one in
/// a memfd reserves so many that a few fill a thread sanitizer's.
inline std::string nameless() {
  static std::uint64_t number = 0;
  return "/dev/shm/perdure-" + std::to_string(::getpid()) + "-log-" + std::to_string(++number);
}

/// Segments of one superblock, so that little fills one.
inline LogSettings small_segments(std::uint32_t collectors) {
  return {kMinSuperblock, collectors, 8};
}

class LogStore {
  Pool pool_;  // outlives the log
  Mutex memory_;

 public:
  /// A new one. `most`: superblocks that it may have, one of them the pool's own.
  explicit LogStore(LogSettings const& options, std::uint64_t most = 64)
      : pool_(ok_or_throw(Pool::create(nameless(), log_pool_header(most), 1, {}, {}))) {
    ValueLog::announce(pool_, options.segment_bytes);
    make(options);
    log->begin();
  }
  /// What a process finds after another died. Damage is for the caller to look at.
  LogStore(Image const& image, LogSettings const& options)
      : pool_(ok_or_throw(Pool::create_from(nameless(), image.size(), {}, {},
                                            [&](std::span<std::byte> to) -> Status {
                                              std::memcpy(to.data(), image.data(), image.size());
                                              return {};
                                            }))) {
    make(options);
    exec::Workers workers(2);
    recovered = ok_or_throw(log->recover(workers));
    log->begin();
  }

  [[nodiscard]] Image image() const { return {pool_.base(), pool_.base() + pool_.bytes()}; }
  [[nodiscard]] Model contents() {
    Model found;
    for (auto const& [key, address] : index.all()) {
      LogRecord item;
      if (!view_log_record(pool_.base(), pool_.bytes(), Offset{address}, item) ||
          text_of(item.key) != key)
        throw std::runtime_error("the index leads to no item of its key");
      found[key] = text_of(item.value);
    }
    return found;
  }
  [[nodiscard]] std::byte* base() const { return pool_.base(); }

  MapIndex index;
  LogRecovered recovered;
  std::unique_ptr<ValueLog> log;

 private:
  void make(LogSettings const& options) {
    log = std::make_unique<ValueLog>(
        pool_, memory_, [this] { return std::make_unique<SharedMapIndex>(index); }, options);
  }
};

/// Operations as text, and what was answered. An update appends its operand to what is there.
struct Operation {
  OpKind kind;
  std::string key;
  std::string value;
};

class Asked : public LogAnswers {
 public:
  explicit Asked(std::vector<Operation> const& operations)
      : statuses(operations.size(), KeyStatus::not_tried),
        operations_(operations),
        updated_(operations.size()) {}
  void done(std::size_t i, KeyStatus status, bool) override { statuses.at(i) = status; }
  void refused(std::size_t i, Status why) override {
    statuses.at(i) = KeyStatus::no_space;
    refusal = std::move(why);
  }
  KeyStatus found(std::size_t, LogRecord const&) override { return KeyStatus::ok; }
  KeyStatus update(std::size_t i, LogRecord const& item,
                   std::span<std::byte const>& value) override {
    // As long as the operand, for that much room was reserved.
    std::string sum = operations_[i].value;
    for (std::size_t at = 0; at < std::min(sum.size(), item.value.size()); ++at)
      sum[at] = static_cast<char>(sum[at] ^ static_cast<char>(item.value[at]));
    updated_[i] = sum;
    value = bytes_of(updated_[i]);
    return KeyStatus::ok;
  }
  /// The model's version of the same.
  static void apply(Operation const& operation, Model& model) {
    auto const it = model.find(operation.key);
    if (operation.kind == OpKind::put) {
      model[operation.key] = operation.value;
    } else if (operation.kind == OpKind::erase) {
      model.erase(operation.key);
    } else if (operation.kind == OpKind::update && it != model.end()) {
      std::string sum = operation.value;
      for (std::size_t at = 0; at < std::min(sum.size(), it->second.size()); ++at)
        sum[at] = static_cast<char>(sum[at] ^ it->second[at]);
      it->second = sum;
    }
  }

  std::vector<KeyStatus> statuses;
  Status refusal;

 private:
  std::vector<Operation> const& operations_;
  std::vector<std::string> updated_;
};

struct Outcome {
  std::vector<KeyStatus> statuses;
  Status refusal;
};

inline Outcome run(LogStore& store, std::vector<Operation> const& operations) {
  Asked asked(operations);
  std::vector<LogOperation> as_bytes;
  for (Operation const& each : operations) {
    LogKey const key = bytes_of(each.key);
    as_bytes.push_back({each.kind, key, bytes_of(each.value), hash_bytes(key.data(), key.size())});
  }
  LogWriter(*store.log, store.index, asked).run(as_bytes);
  return {std::move(asked.statuses), std::move(asked.refusal)};
}

inline std::string key_of(std::size_t i) { return "key " + std::to_string(i); }

/// A segment is collected after somebody was refused room, and before it waits for any. `store` is
/// new, and nobody collects beside this.
inline std::string fault_of_waiting(LogStore& store) {
  std::string const value(kMinSuperblock / 16, 'x');
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < 20; ++i) run(store, {{OpKind::put, key_of(i), value}});
  auto& segments = store.log->segments();
  std::uint64_t const freed = segments.freed();  // a refusal comes now
  if (store.log->collector().collect_queued() == 0) return "nothing was collected";
  constexpr std::uint64_t kMore = kMinSuperblock - kFirstLogRecord;  // than what is begun has
  for (auto const what : {LogSegments::For::puts, LogSegments::For::tombstones}) {
    if (!segments.wait_for_room(what, kMore, freed)) return "what has been freed is missed";
    if (segments.wait_for_room(what, kMore, segments.freed())) return "nothing more was freed";
  }
  return "";
}

}  // namespace perdure::pm
