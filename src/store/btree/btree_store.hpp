// The store whose index is a B+-tree in ordinary memory: many host threads, each operation by
// itself, keys in order. Only records are in the pool (the thesis's section 2.4, minimal
// persistence with an allocator); each opening makes the tree of them (btree_open.cpp). Locks:
// store/threads/core.hpp. How a put and a get read: store/threads/batches.cpp and btree_runs.hpp.
// Invariant: a pool is marked clean only with a count of its records.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pm/pool.hpp"
#include "store/btree/btree_core.hpp"
#include "store/threads/threads_store.hpp"

namespace perdure {

class BtreeStore final : public threads::ThreadsStore {
 public:
  BtreeStore(std::string pool_path, OpenOptions const& open_options, pm::Pool pool)
      : ThreadsStore(std::move(pool_path), open_options, pool.header()),
        core_(path, options, recovery, std::move(pool)) {}

  static Result<std::unique_ptr<Impl>> create(std::string const& path, CreateOptions const& create,
                                              OpenOptions const& open);
  static Result<std::unique_ptr<Impl>> open(std::string const& path, OpenOptions const& options,
                                            pm::Pool pool);
  static Result<std::unique_ptr<Impl>> restore(std::string const& path,
                                               RestoreOptions const& restore,
                                               OpenOptions const& open, pm::Pool pool);

  Status write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) override {
    if (threads::Batches(core_).load(call, statuses, how)) return {};
    return ThreadsStore::write(call, statuses, how);
  }
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                        std::atomic<bool> const* stop) override;
  Result<RangePage> range(RangeQuery const& query, std::atomic<bool> const* stop) override;
  Result<std::uint64_t> count_range(RangeQuery const& query) override;
  Result<VerifyReport> verify(std::atomic<bool> const* stop) override;
  [[nodiscard]] Stats stats() override;
  Status snapshot(std::string const& to, SnapshotOptions const& how) override;
  Status close() override;

 private:
  /// Bounds that keys of the pool can be compared with.
  [[nodiscard]] Status check_bounds(RangeQuery const& query) const;
  [[nodiscard]] threads::Core& core() override { return core_; }
  [[nodiscard]] Stats stats_open();
  void tell_log(Stats& stats);
  Result<VerifyReport> verify_by_tree(VerifyReport report, std::atomic<bool> const* stop);
  void compare_counts(VerifyReport& report);
  Status write_image(std::string const& to, SnapshotOptions const& how);

  BtreeCore core_;
  Stats last_;  // of a closed store

  friend struct BtreeOpening;  // btree_open.cpp
};

}  // namespace perdure
