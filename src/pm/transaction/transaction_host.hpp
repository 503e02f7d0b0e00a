// How a thread of a transaction touches a pool: what it stores to goes into the undo log first
// (undo_lines.hpp). Invariants: a word is logged, flushed and fenced before its first store;
// nothing else needs an order before the commit, so fences of algorithms are nothing here, and
// persist() is a flush. Locks are no part of what is undone: `generation` makes those of earlier
// openings void.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hooks.hpp"
#include "pm/host.hpp"
#include "pm/stored.hpp"
#include "pm/transaction/undo_lines.hpp"

namespace perdure::pm {

/// Whoever touches a pool's locks: `generation` of this opening, in bits 32..63.
template <class Base>
class OpeningHost : public Base {
 public:
  template <class... Args>
  explicit OpeningHost(std::uint64_t generation, Args const&... args)
      : Base(args...), generation_(generation) {}
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

 private:
  std::uint64_t generation_;
};

template <class Base>
class TransactionHost : public Base {
 public:
  template <class... Args>
  explicit TransactionHost(UndoLines& log, Args const&... args)
      : Base(args...), log_(&log), writer_(log) {}

  void store(std::uint64_t* at, std::uint64_t value) {
    bool const late = mutated("undo_line_logged_late");
    if (late) Base::store(at, value);
    if (log_->pool().has(at) && writer_.note(base(), at)) Base::fence();
    if (!late) Base::store(at, value);
  }
  /// All of it is logged behind one fence, so that the stores themselves need none.
  void will_store(std::span<Stored const> parts) {
    for (Stored const& part : parts)
      if (log_->pool().has(part.at)) writer_.add(base(), part.at, part.bytes);
    end_logging();
  }
  /// Of a word that is nothing after a crash.
  void store_lock(std::uint64_t* at, std::uint64_t value) { Base::store(at, value); }
  void fence() {}
  void persist(void const* at, std::size_t bytes) { Base::flush(at, bytes); }

  /// For whoever changes lines as a whole, each of them once: words of a line, a bit each, which
  /// may be stored to after end_logging().
  void log(std::uint64_t line, unsigned words) { writer_.add_words(base(), {line, words}); }
  void log(void const* at, std::size_t bytes) { writer_.add(base(), at, bytes); }
  void end_logging() {
    if (writer_.finish(base()) && !mutated("undo_announced_not_ordered")) Base::fence();
  }

 private:
  Base& base() { return *this; }

  UndoLines* log_;
  UndoWriter writer_;
};

}  // namespace perdure::pm
