// The store whose index is a Dash table: many host threads, each operation by itself. Invariants: a
// batch runs under the shared side of `open_`, a writing one (and a scan, which locks buckets)
// under that of `changing_`, too; who closes has `open_` alone, who needs the table at rest
// `changing_`. A write that an exception ends in its midst ends the store, too: nobody waits for
// its locks, and every call is refused until the pool is opened anew. After a crash records are
// counted when somebody asks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "exec/reader_writer_lock.hpp"
#include "exec/workers.hpp"
#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "store/dash/dash_engine.hpp"
#include "store/dash/dash_space.hpp"
#include "store/store_impl.hpp"

namespace perdure {

class DashStore final : public Store::Impl {
 public:
  DashStore(std::string path, OpenOptions const& options, pm::Pool pool);
  ~DashStore() override;

  static Result<std::unique_ptr<Impl>> create(std::string const& path, CreateOptions const& create,
                                              OpenOptions const& open);
  static Result<std::unique_ptr<Impl>> open(std::string const& path, OpenOptions const& options,
                                            pm::Pool pool);
  static Result<std::unique_ptr<Impl>> restore(std::string const& path,
                                               RestoreOptions const& restore,
                                               OpenOptions const& open, pm::Pool pool);

  Status read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) override;
  Result<VariableValues> read_variable(Call const& call, std::span<KeyStatus> statuses,
                                       CallOptions const& how) override;
  Status write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) override;
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                        std::atomic<bool> const* stop) override;
  Result<VerifyReport> verify(std::atomic<bool> const* stop) override;
  Status acknowledge_repair() override;
  [[nodiscard]] Stats stats() override;
  [[nodiscard]] Survival survives() override;
  void reset_counts() override;
  Status snapshot(std::string const& to, SnapshotOptions const& how) override;
  Status close() override;

  // What a Dash index lacks: see dash_refusals.cpp.
  Result<std::shared_ptr<Transaction::State>> begin(TransactionOptions const& options) override;
  Status register_dense(std::vector<DenseBuffer> const& buffers) override;
  Result<std::optional<std::uint64_t>> restore_step(CUstream_st* stream) override;
  Result<std::shared_ptr<DeviceSession::State>> device_session(DeviceSessionOptions const& options,
                                                               bool anywhere) override;
  Result<CacheReport> load_cache() override;

 private:
  static Status check_create(std::string const& path, CreateOptions const& create);
  static Status check_open_options(std::string const& path, Index index,
                                   OpenOptions const& options);
  [[nodiscard]] Status lacks(char const* what, char const* way_out) const;
  [[nodiscard]] Index index() const { return static_cast<Index>(pool_.header().index); }

  Status make_table(std::uint64_t expected_records);
  Status attach();
  Result<dash::SegmentShape> find_table();
  /// Of a pool that was closed in order: what is not as that close left it, as far as it can be
  /// told without a look at the segments.
  [[nodiscard]] std::vector<std::string> changed_words(Offset index);
  [[nodiscard]] std::uint64_t sum_of_index() const;
  std::string mend_index();
  Status repair(Offset index, std::vector<std::string> wrong);
  /// For the next opening; none where that would find damage. No writer runs.
  [[nodiscard]] std::optional<pm::ClosingNote> closing_note();
  void make_engine(dash::SegmentShape segments);
  /// What is free after an opening: at once of small tables, else beside everything else.
  void begin_sweep();
  void stop_sweep();

  Status check_open(bool writing) const;
  /// Runs what changes the table. An exception in its midst ends the store: its locks stay taken,
  /// and what it left only recovery can tell.
  template <class F>
  Status whole_or_failed(F f);
  Status check_call(Call const& call, std::span<KeyStatus> statuses) const;
  Status next_sequence(std::uint64_t& sequence);
  Status read_piece(Call const& call, std::span<KeyStatus> statuses);
  Result<VariableValues> read_variable_piece(Call const& call, std::span<KeyStatus> statuses);
  Status write_open(Call const& call, std::span<KeyStatus> statuses);
  void add(DashTally const& tally);
  [[nodiscard]] Status corrupt(std::string const& what) const;
  [[nodiscard]] Status met(std::uint64_t damaged, std::size_t n) const;
  bool count_records();  // false: some segments are damaged; the caller has changing_ alone
  /// False: the index is damaged, and `records_` lacks what could not be reached.
  bool count_if_unknown();
  [[nodiscard]] Stats stats_open();

  pm::Pool pool_;
  pm::Repairs repairs_{pool_};
  std::optional<pm::ClosingNote> left_;  // by the orderly close before this opening
  Mutex memory_;  // guards what takes from the pool, and its root
  DashSpace space_;
  exec::Workers workers_;
  std::unique_ptr<DashEngine> engine_;
  exec::ReaderWriterLock open_, changing_;
  bool closed_ = false;  // guarded by open_
  std::atomic<bool> given_up_{false};
  mutable std::mutex failed_mutex_;
  Status failed_;  // guarded by failed_mutex_; why given_up_
  Stats last_;  // of a closed store

  std::atomic<bool> counted_{false};
  std::atomic<std::uint64_t> records_{0}, batches_{0}, reads_{0}, writes_{0}, orders_{0};
  std::atomic<std::uint64_t> sequence_{0}, lease_{0};

  std::thread sweeper_;
  std::atomic<bool> stop_{false};
  std::mutex swept_mutex_;
  std::condition_variable swept_changed_;
  bool swept_ = true;  // guarded by swept_mutex_
};

/// As the command line, Python and errors name it.
[[nodiscard]] char const* name(Index index);

}  // namespace perdure
