// The store whose index is GPHash: who may run when, what a batch needs before it runs, growth.
//
// Locking: get batches share `store_lock_`, write batches have it exclusively
// (store/store_lock.hpp). What follows "guarded by store_lock_" below changes only under the
// exclusive lock. A transaction has that from begin to end, and calls of its owner are inside; so
// does a device session, whose owner is refused.
//
// Failures: what changes the pool is whole, or ends writing for good (fail(), whole_or_failed());
// with durability `power` nothing is read from then on that the log may lack.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/caught.hpp"
#include "exec/workers.hpp"
#include "index/gphash/table.hpp"
#include "perdure/store.h"
#include "pm/changes.hpp"
#include "pm/dense.hpp"
#include "pm/heap.hpp"
#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "store/checks.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/power.hpp"
#include "store/store_impl.hpp"
#include "store/store_lock.hpp"
#include "wal/undo_log.hpp"

namespace perdure {

class LoggedQueue;
class MergedBatches;
struct OpenTransaction;

class GphashStore final : public Store::Impl {
 public:
  GphashStore(std::string path, OpenOptions const& options, pm::Pool pool);
  GphashStore(GphashStore const&) = delete;
  GphashStore& operator=(GphashStore const&) = delete;
  ~GphashStore() override;

  static Result<std::unique_ptr<Impl>> create(std::string const& path, CreateOptions const& create,
                                              OpenOptions const& open);
  static Result<std::unique_ptr<Impl>> open(std::string const& path, OpenOptions const& options,
                                            pm::Pool pool);
  /// Of durability power: the pool at `path` is made anew first.
  static Result<std::unique_ptr<Impl>> open_logged(std::string const& path,
                                                   OpenOptions const& options);
  /// A pool with everything in it as another's snapshot had it.
  static Result<std::unique_ptr<Impl>> restore(std::string const& path,
                                               RestoreOptions const& restore,
                                               OpenOptions const& open, pm::Pool pool);

  // Batches.
  Status read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) override;
  Result<VariableValues> read_variable(Call const& call, std::span<KeyStatus> statuses,
                                       CallOptions const& how) override;
  Status write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) override;
  Result<std::shared_ptr<Transaction::State>> begin(TransactionOptions const& options) override;
  static Status end(Transaction::State* transaction, bool commit);
  Status register_dense(std::vector<DenseBuffer> const& buffers) override;
  static Status write_step(Transaction::State* transaction, std::uint64_t step,
                           CUstream_st* stream);
  Result<std::optional<std::uint64_t>> restore_step(CUstream_st* stream) override;
  Result<std::shared_ptr<DeviceSession::State>> device_session(DeviceSessionOptions const& options,
                                                               bool anywhere) override;
  static Status end(DeviceSession::State* session);
  Result<CacheReport> load_cache() override;
  Result<ScanPage> scan(ScanCursor const& from, std::size_t limit,
                        std::atomic<bool> const* stop) override;
  Result<VerifyReport> verify(std::atomic<bool> const* stop) override;
  Status acknowledge_repair() override;
  [[nodiscard]] Stats stats() override;
  [[nodiscard]] Survival survives() override;
  void reset_counts() override;
  Status snapshot(std::string const& to, SnapshotOptions const& how) override;
  Status close() override;
  /// Of the heap, which takes back what it lent. No other thread uses the store.
  Result<std::uint64_t> records_in_use();
  void end_holder() noexcept override;

 private:
  static Status can_run(Device device);
  static Result<std::unique_ptr<GphashStore>> open_pool(std::string const& path,
                                                        OpenOptions const& options, pm::Pool pool);
  Status attach();
  Status start();
  Status recover();
  // Pools that were closed in order (repair.cpp).
  [[nodiscard]] std::vector<std::string> changed_words();
  void compare_slots(gphash::Survey const& found, std::vector<std::string>& wrong);
  /// Records and faults.
  [[nodiscard]] VerifyReport look_at_slots(std::atomic<bool> const* stop = nullptr);
  gphash::Survey repair(std::vector<std::string> const& wrong);
  [[nodiscard]] std::optional<pm::ClosingNote> closing_note();
  Status check_open(bool writing) const;
  void begin_opening();
  void now_open();
  void end_changes();
  /// Answers what f() does under the shared lock, once what it has seen is durable.
  template <class F>
  auto reading(void const* transaction, F f) -> decltype(f());
  Status read_in(Call const& call, std::span<KeyStatus> statuses);
  Result<VariableValues> read_variable_in(Call const& call, std::span<KeyStatus> statuses);
  Result<ScanPage> scan_in(ScanCursor const& from, std::size_t limit,
                           std::atomic<bool> const* stop);
  Status reserve(Call const& call, std::span<std::uint8_t const> status,
                 std::vector<std::uint64_t>& reserved, bool& any_fits);
  /// A batch on its way: its records, and the session that runs it.
  struct Running {
    std::vector<std::uint64_t> reserved;
    bool any_fits = false;
    bool lent = false;  // the engine has the records: `reserved` is empty
    std::unique_ptr<Session> session;
    exec::Counts done;
    bool full = false;  // the table is, and some operations wait
    std::uint64_t refused = 0;  // new keys that found no room in the last round
    Status not_grown;   // why it stayed so
  };
  /// On failure nothing has happened.
  Status prepare(Call const& call, std::span<KeyStatus> statuses, bool undoable, Running& batch);
  Status prepare_lent(Call const& call, std::span<KeyStatus> statuses, Running& batch);
  Status prepare_host(Call const& call, std::span<KeyStatus> statuses, Running& batch);
  /// Calls take() until it says that so many records are taken, lending it more where it says that
  /// there are too few.
  Status take_lent(std::uint64_t records, std::function<Result<bool>()> const& take);
  Status finish_records(Running& batch);
  [[nodiscard]] std::uint64_t fixed_stride() const;
  /// Whose the free records are: the engine's from its first plain write batch on, the heap's for
  /// all else.
  Status lend_records();
  Status take_records_back();
  Status run_rounds(Running& batch, std::uint64_t operations);
  /// What it used and unlinked, if that is not simply all and nothing.
  Result<std::optional<Outcome>> outcome(Running& batch);
  void release_unused(Running const& batch, std::optional<Outcome> const& outcome);
  void release_all(std::span<std::uint64_t const> records);
  // Growth. What answers no_space has left a sound table.
  Status check_worth_growing();
  Status make_level(std::function<Status()> const& make);
  Status begin_growth();
  Status abandon_growth(Status const& why);
  Status advance_growth(std::uint64_t operations);
  Status make_room(std::uint64_t waiting);
  [[nodiscard]] bool is_bulk(std::uint64_t waiting) const;
  [[nodiscard]] double load_with(std::uint64_t more) const;
  Status complete_growth();
  Status move_units(std::vector<std::uint32_t> units);
  Status note_moved(std::vector<std::uint32_t> const& units);
  Status widen(std::vector<std::uint32_t> const& stuck);
  Status next_sequence(std::uint64_t& sequence);
  Status pool_may_have_grown();
  Status open_restored(CreateOptions const& create);
  // Durability power.
  Status create_log(CreateOptions const& create);
  Status keep();
  Status replay_log(std::shared_ptr<wal::LogDir> power, wal::Loaded const& loaded);
  [[nodiscard]] Status lost_batches(wal::ReplayReport const& report) const;
  Status note_loss(wal::LogDir& power, wal::ReplayReport const& report);
  Result<wal::ReplayReport> read_and_run(wal::LogDir& power, wal::LogPosition from);
  Status run_logged(LoggedQueue& queue);
  Status run_merged(MergedBatches& merged);
  Status log_batch(Call const& call, std::span<std::uint8_t const> status);
  Status log_pieces(std::span<std::span<std::byte const> const> pieces);
  Status checkpoint();
  void checkpoint_in_time(ExclusiveLock& store_lock);
  Status write_alone(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how);
  Status write_piece(Call const& call, std::span<KeyStatus> statuses);
  // Transactions.
  Status write_atomic(Call const& call, std::span<KeyStatus> statuses);
  Status write_in(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses);
  Status attempt(OpenTransaction& tx, Call const& call, std::span<KeyStatus> statuses,
                 std::uint64_t& waiting);
  Status run_undoable_rounds(OpenTransaction const& tx, Running& batch);
  Status keep_attempt(OpenTransaction& tx, Call const& call, Running& batch,
                      std::span<std::uint8_t const> status);
  Status check_undoable() const;
  Status check_undo_room(OpenTransaction const& tx, std::uint64_t operations) const;
  /// The words that the undo log may name.
  [[nodiscard]] bool is_logged_word(Offset at) const;
  Status make_room_for(std::uint64_t operations);
  /// Grows the table until `more` records would leave it with this load at most, if it may grow.
  Status grow_for(std::uint64_t more, double most_load);
  void start_transaction(OpenTransaction& tx);
  Status undo(std::uint32_t from_step, std::uint64_t records_before);
  Status finish_transaction(OpenTransaction& tx, bool commit);
  // Steps.
  Status check_steps() const;
  Status check_step(OpenTransaction const& tx, std::uint64_t step) const;
  Result<std::vector<DenseBuffer>> as_registered(std::vector<DenseBuffer> const& buffers) const;
  Status make_dense_room(std::vector<DenseBuffer> const& buffers);
  [[nodiscard]] std::vector<Offset> dense_copies(bool counting) const;
  template <class F>
  std::vector<PoolCopy> copy_buffers(std::vector<Offset> const& places, F host);
  Status save_buffers(std::vector<Offset> const& to, CUstream_st* stream);
  Status load_buffers(std::vector<Offset> const& from, CUstream_st* stream);
  Status write_step_in(OpenTransaction& tx, std::uint64_t step, CUstream_st* stream);
  // Device sessions.
  Status check_device_session(bool anywhere) const;
  [[nodiscard]] Status held_by_this_thread() const;  // why it must wait for itself
  [[nodiscard]] Status not_the_transaction() const;  // that was named
  Status fail(Status const& status);  // after this the store refuses writes
  /// Runs what changes the pool. An exception in its midst ends writing, for what it left only
  /// recovery can tell.
  template <class F>
  Status whole_or_failed(F f) {
    changing_ = false;
    try {
      return f();
    } catch (abi::__forced_unwind const&) {  // the thread is being cancelled
      static_cast<void>(failed_by_exception());
      throw;
    } catch (...) {
      return failed_by_exception();
    }
  }
  Status failed_by_exception();
  Status end_in(Transaction::State& transaction, bool commit);
  Status close_in();
  /// What a session says of a batch of n operations that did not happen, with the way out.
  [[nodiscard]] Status of_batch(Status const& status, std::size_t n) const;

  Result<std::unique_ptr<Session>> take_session();
  void give_session(std::unique_ptr<Session> session);
  void add(exec::Counts const& counts);

  StoreLock store_lock_;
  pm::Pool pool_;  // guarded by store_lock_, as are the next three
  pm::Changes changes_;
  bool opening_ = false;  // and so changing
  pm::RecordHeap heap_;
  gphash::Table table_;
  exec::Workers workers_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t sequence_ = 0;
  std::uint64_t generation_ = 1;  // of where keys stand; scans end when it changes
  Status failed_;
  Status unheard_;  // a failure that no call has answered: close() does
  bool half_undoable_ = false;  // and a part of what should be all or nothing may be there
  bool changing_ = false;  // a batch has begun to change the pool, and is not whole yet
  bool unlogged_ = false;  // durability power: the pool has what the log lacks
  wal::UndoLog undo_;
  pm::DenseRoom dense_;
  pm::Repairs repairs_;
  std::optional<pm::ClosingNote> left_;  // by the orderly close before this opening
  std::uint64_t astray_ = 0;  // slots that led to no record when it was opened
  std::uint64_t repair_dropped_ = 0;
  std::vector<DenseBuffer> registered_;  // in the pool's order; empty until register_dense()
  std::vector<std::uint32_t>
      stuck_units_;  // of a growth: they found no room, and wait for more to be made
  std::optional<pm::RecordHeap::Loan> loan_;  // while the engine has the free records
  std::shared_ptr<Transaction::State> transaction_;  // begun and not ended
  std::shared_ptr<DeviceSession::State> device_session_;  // begun and not ended
  std::shared_ptr<wal::LogDir>
      power_;  // null unless durability is power; also null while replaying
  bool closed_ = false;

  std::mutex sessions_mutex_;
  std::vector<std::unique_ptr<Session>> sessions_;

  mutable std::mutex stats_mutex_;  // guards the rest
  std::uint64_t records_ = 0, growths_ = 0, displacements_ = 0, batches_ = 0;
  AccessCounts accesses_;
};

}  // namespace perdure
