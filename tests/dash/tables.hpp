// Tables of Dash in pools of their own, and operations on them that answer as a map would.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "index/dash/extendible.hpp"
#include "index/dash/keys.hpp"
#include "pm/host.hpp"

namespace perdure::dash {

using Model = std::map<std::uint64_t, std::uint64_t>;

/// A table in a pool, and what opening it again takes.
template <class Table>
class TableInPool {
 public:
  explicit TableInPool(SegmentShape shape, std::uint32_t depth = 1)
      : shape_(shape), pool_(make_pool()) {
    auto index = pool_.take_run(1);
    if (!index) throw std::runtime_error(index.status().message());
    index_ = *index;
    make();
    if (Status s = table_->create(host_, index_, depth); !s.ok())
      throw std::runtime_error(s.message());
  }

  /// As after a crash: another object over the same bytes, which trusts nothing but the pool.
  void reopen(bool sound) {
    pool_.find_owners();  // which the table that goes may not have asked for
    table_.reset();
    for (std::uint64_t i = 1; i < pool_.superblocks(); ++i)
      pool_.give_run(Offset{i * pool_.superblock_bytes()}, 1);
    pool_.claim_run(index_, 1);
    make();
    if (Status s = table_->open(host_, index_, sound); !s.ok())
      throw std::runtime_error(s.message());
  }
  void sweep() {
    table_->sweep(host_, [](Slot) {});
  }

  [[nodiscard]] std::optional<std::uint64_t> get(std::uint64_t key) {
    exec::EpochGuard const guard(table_->epochs());
    Slot found;
    if (table_->find(host_, as_key(key), found) != Answer::done) return std::nullopt;
    return found.second;
  }
  Answer write(std::uint64_t key, std::uint64_t value, typename Table::Write how) {
    exec::EpochGuard const guard(table_->epochs());
    std::optional<Slot> before;
    return table_->write(host_, as_key(key), {key, value}, how, before);
  }
  Answer erase(std::uint64_t key) {
    exec::EpochGuard const guard(table_->epochs());
    Slot before;
    return table_->erase(host_, as_key(key), before);
  }
  [[nodiscard]] Model contents() {
    Model all;
    std::uint64_t position = 0;
    do {
      exec::EpochGuard const guard(table_->epochs());
      auto const next = table_->walk(host_, position, [&](Slot slot) {
        if (!all.emplace(slot.first, slot.second).second)
          throw std::runtime_error("a key stands twice");
      });
      if (!next) throw std::runtime_error(table_->why_damaged().message());
      position = *next;
    } while (position != 0);
    return all;
  }
  [[nodiscard]] Table& table() { return *table_; }
  [[nodiscard]] pm::Pool& pool() { return pool_; }
  [[nodiscard]] pm::OrderedHost& host() { return host_; }

 private:
  static pm::Pool make_pool() {
    pm::PoolHeader header{};
    header.superblock_bytes = pm::kMinSuperblock;
    header.max_bytes = 512 * pm::kMinSuperblock;
    auto pool = pm::Pool::create("memfd:dash", header, 2, {}, {});
    if (!pool) throw std::runtime_error(pool.status().message());
    return std::move(*pool);
  }
  static InlineKeys::Key as_key(std::uint64_t key) {
    return InlineKeys(8).key(reinterpret_cast<std::byte const*>(&key));
  }
  void make() { table_ = std::make_unique<Table>(pool_, memory_, InlineKeys(8), shape_); }

  SegmentShape shape_;
  pm::Pool pool_;
  Mutex memory_;
  Offset index_;
  pm::OrderedHost host_;
  std::unique_ptr<Table> table_;
};

}  // namespace perdure::dash
