// The pool that a table of this folder lies in: the engine's own pools and allocators, so that all
// tables have the same cost of memory. Superblock 1 is the table's own; its first word is the
// number of this opening. Invariant: `memory` is held wherever runs of the pool are taken or given.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "base/offset.hpp"
#include "cpu_baseline.hpp"
#include "pm/blocks.hpp"
#include "pm/lines.hpp"
#include "pm/pool.hpp"

namespace perdure::cpu_baselines {

class BaselinePool {
 public:
  static constexpr std::uint64_t kSuperblock = pm::kMaxSuperblock;
  static constexpr std::uint64_t kKeyBlock = std::uint64_t{1}
                                             << 16;  // of key records, taken by a session at a time

  static Result<std::unique_ptr<BaselinePool>> create(std::string const& path,
                                                      Options const& options);
  static Result<std::unique_ptr<BaselinePool>> open(std::string const& path,
                                                    Options const& options);

  [[nodiscard]] std::byte* base() const { return pool.base(); }
  [[nodiscard]] Offset index() const { return Offset{kSuperblock}; }
  [[nodiscard]] pm::DurableRange range() const {
    return pm::DurableRange({pool.base(), static_cast<std::size_t>(pool.header().max_bytes)});
  }
  /// Of a value in a record, in words.
  [[nodiscard]] std::uint32_t value_words() const { return pool.header().value_bytes / 8; }
  /// Records are blocks of their own, and used again.
  [[nodiscard]] bool reuses_records() const { return reuses_; }
  [[nodiscard]] std::uint64_t* words(std::uint64_t at) const {
    return reinterpret_cast<std::uint64_t*>(pool.base() + at);
  }
  Result<Offset> take_run(std::uint64_t bytes);
  void give_run(Offset first, std::uint64_t bytes);
  void claim_run(Offset first, std::uint64_t bytes);

  pm::Pool pool;
  Mutex memory;
  pm::Blocks keys;

 private:
  BaselinePool(pm::Pool made, Options const& options)
      : pool(std::move(made)),
        keys(pool, memory, key_block(options)),
        reuses_(options.reuse_records) {}
  static std::uint64_t key_block(Options const& options);
  [[nodiscard]] static std::uint64_t superblocks_of(std::uint64_t bytes) {
    return (bytes + kSuperblock - 1) / kSuperblock;
  }

  bool reuses_;
};

}  // namespace perdure::cpu_baselines
