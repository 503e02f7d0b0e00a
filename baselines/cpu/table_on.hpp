// The face of a table, from a template over Hosts: `Index` has create, open, find, insert, update,
// erase, stats (each with a Host first), epochs and why_full. A session is that index with one
// Host.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "baseline_pool.hpp"
#include "cpu_baseline.hpp"
#include "exec/epochs.hpp"
#include "keys.hpp"
#include "pm/counted_host.hpp"
#include "pm/emulated_host.hpp"

namespace perdure::cpu_baselines {

/// They have values of any whole words; others have 8 bytes in their slots.
template <class Index>
concept ValuesInRecords = requires { requires Index::kValuesInRecords; };

template <class Index, class Host>
class SessionOn final : public Session {
 public:
  SessionOn(Index& index, BaselinePool& pool, Host host)
      : index_(index), log_(pool), host_(std::move(host)) {}

  Outcome find(Key key, std::span<std::byte> value) override {
    host_.begin();
    if constexpr (ValuesInRecords<Index>) {
      return index_.find(host_, key, value);
    } else {
      std::uint64_t word = 0;
      Outcome const outcome = index_.find(host_, key, word);
      std::memcpy(value.data(), &word, sizeof word);
      return outcome;
    }
  }
  Outcome insert(Key key, Value value) override {
    host_.begin();
    return index_.insert(host_, log_, key, stored(value));
  }
  Outcome update(Key key, Value value) override {
    host_.begin();
    return index_.update(host_, log_, key, stored(value));
  }
  Outcome erase(Key key) override {
    host_.begin();
    return index_.erase(host_, key);
  }
  void pin() override { guard_.emplace(index_.epochs()); }
  void unpin() override { guard_.reset(); }
  [[nodiscard]] Counts counts() const override {
    if constexpr (std::is_same_v<Host, pm::CountedHost>) {
      pm::LineCounts const& c = host_.counts();
      return {c.operations, c.lines_read, c.lines_written, c.lines_flushed, c.fences};
    }
    return {};
  }
  [[nodiscard]] double emulating_seconds() const override {
    if constexpr (std::is_same_v<Host, pm::EmulatedHost>) return host_.own_ns() * 1e-9;
    return 0;
  }
  void reset_counts() override {
    if constexpr (std::is_same_v<Host, pm::CountedHost>) host_.reset_counts();
    if constexpr (std::is_same_v<Host, pm::EmulatedHost>) host_.reset_clock();
  }

 private:
  static auto stored(Value value) {
    if constexpr (ValuesInRecords<Index>) {
      return value;
    } else {
      return word_at(value, 0);
    }
  }

  Index& index_;
  KeyLog log_;
  Host host_;
  std::optional<exec::EpochGuard> guard_;
};

template <class Index>
class TableOn final : public Table {
 public:
  TableOn(std::unique_ptr<BaselinePool> pool, Options const& options)
      : pool_(std::move(pool)),
        cache_bytes_(options.emulated_cache_bytes),
        index_(*pool_, options) {}

  static Result<std::unique_ptr<Table>> create(std::string const& path, Options const& options) {
    if (Status s = check(options); !s.ok()) return s;
    auto pool = BaselinePool::create(path, options);
    if (!pool) return pool.status();
    auto table = std::make_unique<TableOn>(std::move(*pool), options);
    if (Status s = table->index_.create(table->host_, options); !s.ok()) return s;
    return Result<std::unique_ptr<Table>>(std::move(table));
  }
  static Result<std::unique_ptr<Table>> open(std::string const& path, Options const& options) {
    auto const begin = Clock::now();
    auto pool = BaselinePool::open(path, options);
    if (!pool) return pool.status();
    auto const mapped = Clock::now();
    auto table = std::make_unique<TableOn>(std::move(*pool), options);
    if (Status s = table->index_.open(table->host_); !s.ok()) return s;
    table->times_ = {seconds(mapped - begin), seconds(Clock::now() - mapped)};
    return Result<std::unique_ptr<Table>>(std::move(table));
  }

  std::unique_ptr<Session> session(HostKind kind) override {
    switch (kind) {
      case HostKind::ordered: return with(pm::OrderedHost{});
      case HostKind::flushed: return with(pm::FlushedHost{});
      case HostKind::counted: return with(pm::CountedHost(pool_->range()));
      case HostKind::emulated:
        return with(pm::EmulatedHost(medium(), pool_->range(), cache_bytes_));
    }
    return nullptr;
  }
  [[nodiscard]] OpenTimes open_times() const override { return times_; }
  TableStats stats(bool count) override {
    TableStats stats = index_.stats(host_, count);
    stats.pool_bytes = pool_->pool.bytes();
    return stats;
  }
  Status why_full() override { return index_.why_full(); }

 private:
  using Clock = std::chrono::steady_clock;
  static Status check(Options const& options) {
    if (options.reuse_records && options.key_bytes == 0)
      return {Code::invalid_argument,
              options.index + " can use records again only where keys are all of one size"};
    std::uint32_t const most = ValuesInRecords<Index> ? kMostValueBytes : 8;
    if (options.value_bytes >= 8 && options.value_bytes % 8 == 0 && options.value_bytes <= most)
      return {};
    return {Code::invalid_argument, options.index + " has values of whole words, " +
                                        std::to_string(most) + " bytes at most: not of " +
                                        std::to_string(options.value_bytes)};
  }
  /// A megabyte that whoever measures an opening does not wait for.
  pm::EmulatedMedium& medium() {
    std::call_once(medium_once_, [this] { medium_ = std::make_unique<pm::EmulatedMedium>(); });
    return *medium_;
  }
  static double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
  template <class Host>
  std::unique_ptr<Session> with(Host host) {
    return std::make_unique<SessionOn<Index, Host>>(index_, *pool_, std::move(host));
  }

  std::unique_ptr<BaselinePool> pool_;
  std::uint64_t cache_bytes_;
  std::once_flag medium_once_;
  std::unique_ptr<pm::EmulatedMedium> medium_;
  pm::FlushedHost host_;
  OpenTimes times_;
  Index index_;
};

/// How the table of one name is made.
struct Maker {
  char const* name;
  Result<std::unique_ptr<Table>> (*create)(std::string const& path, Options const& options);
  Result<std::unique_ptr<Table>> (*open)(std::string const& path, Options const& options);
};

template <class Inline, class Variable>
Maker maker(char const* name) {
  return {name,
          [](std::string const& path, Options const& options) {
            return options.key_bytes == 8 ? TableOn<Inline>::create(path, options)
                                          : TableOn<Variable>::create(path, options);
          },
          [](std::string const& path, Options const& options) {
            return options.key_bytes == 8 ? TableOn<Inline>::open(path, options)
                                          : TableOn<Variable>::open(path, options);
          }};
}

// Each in a source of its own, for each is long to compile.
Maker cceh();
Maker level();
Maker clevel();
Maker seph();
Maker dash_eh();
Maker dash_eh_stash4();
Maker dash_lh();
std::vector<Maker> dash_without_parts();
std::vector<Maker> volatile_tables();

}  // namespace perdure::cpu_baselines
