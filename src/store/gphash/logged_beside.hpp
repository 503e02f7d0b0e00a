// A batch that goes into the log while it is executed: its columns are there before anybody knows
// which of its operations take effect, and so they are written meanwhile, by a thread of their own.
// Last comes which did; without that the record does not count.
//
// Invariants: the caller's arrays are read until end() or the destructor has returned; a batch that
// does not come to end() ends the log, for its place is taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "batch/call.hpp"
#include "exec/aside.hpp"
#include "wal/batch_record.hpp"
#include "wal/redo_log.hpp"

namespace perdure {

class LoggedBeside {
 public:
  explicit LoggedBeside(exec::Aside& aside) : aside_(aside) {}
  ~LoggedBeside();
  LoggedBeside(LoggedBeside const&) = delete;
  LoggedBeside& operator=(LoggedBeside const&) = delete;

  /// Whether its columns are in the host's memory.
  [[nodiscard]] static bool can_read(Call const& call);
  /// Begins it where that is worth its while: a batch of more than one group. One that the log has
  /// no room for is not begun.
  Status begin(wal::RedoLog& log, Call const& call);
  [[nodiscard]] bool begun() const { return open_ != nullptr; }
  /// `status` of each operation; empty: none took effect.
  Status end(std::span<std::uint8_t const> status);

 private:
  exec::Aside& aside_;
  wal::RedoLog* log_ = nullptr;
  Call call_;
  std::optional<wal::EncodedBatch> encoded_;
  std::unique_ptr<wal::RedoLog::Open> open_;  // refers to what is encoded
  Status written_;  // of the columns; the thread's until it is done
};

}  // namespace perdure
