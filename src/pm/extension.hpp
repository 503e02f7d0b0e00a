// What is prepared behind a mapping's end, by a thread of its own: bytes that are backed, mapped,
// locked and pinned before somebody needs them. Invariants: while it lives, nobody else makes the
// file longer or shorter, and nobody but the thread touches what is not taken yet; what was not
// taken when it ends is given back, so that the file ends where the mapping does. A lack of memory,
// of room on the medium or of the right to pin is no error here: the thread stops, and whoever
// needs more asks for it, and hears why, in the foreground. In a child that was forked, where the
// thread is not, it is put aside (base/process.hpp).
#pragma once

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/process.hpp"
#include "pm/file_memory.hpp"

namespace perdure::pm {

class Extension {
 public:
  using Range = std::pair<std::uint64_t, std::uint64_t>;

  /// Behind a mapping that ends at `end`. `granule`: page size of the medium. Throws
  /// std::system_error where there is no thread to be had.
  Extension(FileMemory file, std::uint64_t end, std::uint64_t granule);
  ~Extension();
  Extension(Extension const&) = delete;
  Extension& operator=(Extension const&) = delete;

  [[nodiscard]] bool is_here() const { return process_ == this_process(); }
  /// Has the bytes before `to` prepared, piece by piece, as long as medium and machine have several
  /// times as much left. Does not wait. False: a piece could not be had, and no more are tried.
  bool prepare(std::uint64_t to);
  /// Waits until the bytes before `least` are prepared, or it is known that they cannot be. All
  /// that is prepared is the mapping's from here on, up to what is returned, and the ranges of it
  /// that were pinned one by one are appended to `pinned`.
  std::uint64_t take(std::uint64_t least, std::vector<Range>& pinned);

  Extension* aside = nullptr;  // put_aside()

 private:
  void serve();
  bool prepare_piece(std::uint64_t from, std::uint64_t to, bool hurried);

  FileMemory const file_;
  std::uint64_t const piece_;
  std::uint64_t const process_ = this_process();
  Mutex mutex_;  // guards the rest
  Condition changed_;
  std::uint64_t taken_ PERDURE_GUARDED_BY(mutex_);  // the mapping's end
  std::uint64_t ready_ PERDURE_GUARDED_BY(mutex_);  // what lies before it is prepared
  std::uint64_t target_ PERDURE_GUARDED_BY(mutex_);
  std::uint64_t needed_ PERDURE_GUARDED_BY(mutex_) = 0;  // somebody waits for what lies before it
  bool refused_ PERDURE_GUARDED_BY(mutex_) = false;  // a piece could not be had
  bool stop_ PERDURE_GUARDED_BY(mutex_) = false;
  std::vector<Range> pinned_ PERDURE_GUARDED_BY(mutex_);  // of what is not taken yet
  std::thread thread_;  // begins once all else is there
};

}  // namespace perdure::pm
