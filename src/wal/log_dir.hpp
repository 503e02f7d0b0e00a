// The files of one durable store on an ordinary disk: its log, its two images, and the record that
// names one of them. Invariant: image and log together always give back every batch that was
// durable; the log is truncated only by a checkpoint that is durable itself.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "perdure/status.h"
#include "wal/checkpoint.hpp"
#include "wal/redo_log.hpp"
#include "wal/replay.hpp"

namespace perdure::wal {

#if defined(PERDURE_EXPLORE)
inline thread_local std::uint64_t explored_least_log = 1u << 20;  // so that a few batches fill one
inline std::uint64_t least_log() { return explored_least_log; }
#else
constexpr std::uint64_t least_log() { return 1u << 20; }
#endif

class LogDir {
 public:
  /// Makes the directory where it is missing, and the files, which have no names before keep().
  /// Refuses files that are there unless `make` has `overwrite`, and then what is no file of a log
  /// directory unless it has `force`. Nothing is durable before the first checkpoint().
  static Result<std::unique_ptr<LogDir>> create(std::string const& directory, PoolId const& pool_id,
                                                std::uint64_t log_bytes,
                                                pm::MakeOptions const& make);
  static Result<std::unique_ptr<LogDir>> open(std::string const& directory);
  /// Gives the files that create() made their names, in place of those of an older log. Where that
  /// fails, none of them is left.
  Status keep();
  /// Permission bits of the files.
  [[nodiscard]] std::uint32_t mode() const;

  // In this order after open(): load, replay, write_both_images where something is lost, start.
  Result<Loaded> load(MakeRoom const& make_room) { return checkpoints_->load(make_room); }
  Result<ReplayReport> replay(LogPosition from, Deliver const& deliver);
  /// The pool as it is now, at `end`, is all there is: both images hold it, and no file names a
  /// later place any more.
  Status write_both_images(std::span<std::byte const> pool, LogPosition end);
  Status start(LogPosition end);

  [[nodiscard]] RedoLog& log() { return *log_; }
  /// Writes the pool as it is now, all appended batches in it, and truncates the log. No batch is
  /// appended meanwhile.
  Status checkpoint(std::span<std::byte const> pool) { return checkpoint(pool, log_->position()); }
  /// Of a pool that holds what comes before `at`, and needs the rest of the log.
  Status checkpoint(std::span<std::byte const> pool, LogPosition at);

  // A checkpoint beside batches: begin_checkpoint(), then go_on_with_checkpoint() after each batch,
  // until it no longer runs. `source` brings the pool as it was when it began, chunk after chunk.
  // These are the writer's, but for wait_for_checkpoint().
  /// Of a pool of `bytes` bytes as it is now.
  Status begin_checkpoint(std::uint64_t bytes);
  /// What is due by now, for it is to be whole long before the log is full. Waits for nothing.
  /// After an error it is given up.
  Status go_on_with_checkpoint(ImageSource const& source, ForEach const& each);
  /// All the rest of it, waiting for the disk.
  Status finish_checkpoint(ImageSource const& source, ForEach const& each);
  void give_up_checkpoint();
  [[nodiscard]] bool checkpoint_runs() const { return runs_; }
  /// Bytes that `source` has brought.
  [[nodiscard]] std::uint64_t checkpoint_copied() const { return copied_; }
  /// For whoever has written a batch and holds no lock: where the disk does not keep up with what
  /// is due, until it has written half of what it was given.
  void wait_for_checkpoint();
  /// More than 5/8 of the log is used, and enough of it since the last checkpoint for one to be
  /// worth it.
  [[nodiscard]] bool wants_checkpoint() const;
  [[nodiscard]] std::uint64_t checkpoints_written() const { return written_; }
  [[nodiscard]] std::string const& directory() const { return directory_; }

 private:
  LogDir(std::string directory, std::unique_ptr<BlockFile> log_file, LogIdentity const& identity,
         Checkpoints::Files files);
  [[nodiscard]] std::uint64_t due_chunks() const;
  void note_checkpoint(bool good);

  std::string const directory_;
  std::unique_ptr<BlockFile> log_file_;  // until start() gives it to the log
  LogIdentity identity_;

  std::mutex running_;  // guards the checkpoint that runs: its buffers are also waited for
  std::unique_ptr<Checkpoints> checkpoints_;
  std::unique_ptr<RedoLog> log_;
  std::atomic<std::uint64_t> written_ = 0;  // asked for while the next is written
  // Of the checkpoint beside batches.
  std::atomic<bool> runs_ = false, behind_ = false;
  std::atomic<std::uint64_t> copied_ = 0;
  // Of files that were made, until keep(); they go before the files, who have the locks.
  std::vector<std::unique_ptr<NewName>> names_;
};

}  // namespace perdure::wal
