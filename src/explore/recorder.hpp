// Records the words that a simulated run writes (of 8 bytes, or 4: sim_arena.hpp), in *windows*
// between host ordering points, with what must be there before each.
//
// A crash leaves everything before the window, and of the window a set of writes that holds, with
// each write, all that must be there before it. Models:
//   fence   before a write come: earlier writes to its word; what its warp wrote before its last
//           fence; what its warp had read from others' writes before its last fence; and all that
//           came before those. A write of the value that is there counts as a read of it.
//   commit  earlier writes to its word, nothing else.
//   flush   earlier writes to its word; and all that anyone had flushed, and then fenced, by then.
//           This is memory behind a processor's caches (ADR): what is not flushed may be there or
//           not, at any time.
// With follow_volatile(), before a write come also what another warp had fenced before it wrote a
// volatile word (a lock, a word of the mirror) that its warp has read: such memory is seen as it is
// now, and a fence is done when it returns. With follow_all() durable words tell the same: threads
// of the host load and store by acquire and release. With follow_lines() before a write come
// earlier writes to its cache line, as in memory behind a processor's caches. A run's crash points
// within one window need no telling apart: what can be left at any of them is such a set of the
// whole window's writes.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "explore/sim_arena.hpp"
#include "explore/window.hpp"

namespace perdure::explore {

enum class Model : std::uint8_t { fence, commit, flush };

class Recorder {
 public:
  Recorder(Arena const& a, Model model) : arena_(&a), model_(model) {}

  void record(bool on);
  void follow_volatile(bool on) { follow_ = on; }
  void follow_all(bool on) { follow_ = follow_durable_ = on; }
  void follow_lines(bool on) { lines_ = on; }
  /// Closes the window that is open, if it holds a write or `even_empty`.
  void cut(bool even_empty);
  void set_oracle(std::size_t oracle) { oracle_ = oracle; }
  std::vector<Window> take_windows() { return std::exchange(windows_, {}); }

  // What the run does, told by the tracker.
  /// A durable word changes.
  void wrote_word(std::uint32_t word, std::uint64_t value);
  /// Another thread's write to the word stays before whatever the running thread writes after its
  /// next fence.
  void heed(std::uint32_t word);
  /// What lies there is read, or written: durable or not.
  void told(void const* at, std::size_t bytes, bool durable);
  void tells(void const* at, std::size_t bytes, bool durable);
  void flush(void const* at, std::size_t bytes);
  void fence();

 private:
  struct Thread {
    EventSet fenced;  // before anything it writes now
    EventSet since;  // written or read from others since its last fence; of model flush, flushed
  };
  /// Whether words of this kind pass on what was fenced before they were written.
  [[nodiscard]] bool passes_on(bool durable) const {
    return recording_ && follow_ && model_ == Model::fence && (!durable || follow_durable_);
  }

  Arena const* arena_;
  Model model_;
  bool follow_ = false, follow_durable_ = false, lines_ = false;

  bool recording_ = false;
  Window open_;
  std::vector<Window> windows_;
  std::size_t oracle_ = 0;
  // Of the open window:
  std::unordered_map<std::uint32_t, std::uint16_t> last_write_;  // of each word
  std::unordered_map<std::uint32_t, Thread> threads_;
  std::unordered_map<std::uint32_t, std::uint16_t> last_in_line_;
  EventSet durable_;  // model flush: what anyone has flushed and fenced
  std::unordered_map<std::uintptr_t, EventSet> told_;  // by word: what its writer had fenced
};

}  // namespace perdure::explore
