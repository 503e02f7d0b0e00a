// Watches a simulated run (fault/observer.hpp): records the words it writes (of 8 bytes, or 4:
// arena.hpp), in *windows* between host ordering points, with what must be there before each; and
// stands in for a crashed medium by deciding, word by word as recovery reads them, which writes of
// one window arrived.
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

#include <bitset>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "explore/sim_arena.hpp"
#include "fault/observer.hpp"

namespace perdure::explore {

enum class Model : std::uint8_t { fence, commit, flush };

inline constexpr std::uint64_t kPoison = 0xdddddddddddddddd;
inline constexpr std::size_t kMostEvents = 1024;  // of one window
using EventSet = std::bitset<kMostEvents>;

struct Event {
  std::uint32_t word;
  std::uint32_t thread;  // 0 = host code
  std::uint64_t value;
  EventSet before;  // closed: with each of them all that must be there before that one
};

struct Window {
  std::vector<Event> events;
  std::uint64_t file_bytes = 0;  // of the pool when it ended
  std::size_t oracle = 0;  // index of what a crash in it may leave; kept by the caller
  bool too_large = false;  // more writes than kMostEvents: not to be explored
};

class Tracker final : public fault::Observer {
 public:
  Tracker(Arena& a, Model model) : arena_(&a), model_(model), seen_(a.words(), 0) {}

  // Recording.
  void record(bool on);
  void follow_volatile(bool on) { follow_ = on; }
  void follow_all(bool on) { follow_ = follow_durable_ = on; }
  void follow_lines(bool on) { lines_ = on; }
  /// Closes the window that is open, if it holds a write or `even_empty`.
  void cut(bool even_empty);
  void set_oracle(std::size_t oracle) { oracle_ = oracle; }
  std::vector<Window> take_windows() { return std::exchange(windows_, {}); }

  // Standing in for a crash within `window`, over the state before it.
  void prepare(Window const& window);
  /// Until it is read, a word of the window is poison: who reads it without saying so sees that.
  /// Words take the choices' values in the order in which they are read, later ones the oldest
  /// possible.
  void crash(std::vector<std::uint8_t> const& choices);
  /// Instead: the window's first so many writes arrived, and no other.
  void crash_after(std::size_t writes) {
    crash({});
    arrived_ = writes;
  }
  void end_crash() { crashed_ = false; }
  /// Which of its values each word that was read took, and of how many, in the order of reading.
  struct Choice {
    std::uint32_t word;
    std::uint8_t taken, options;
  };
  [[nodiscard]] std::vector<Choice> const& choices() const { return trail_; }
  /// Of all words read since crash() before recovery wrote them.
  [[nodiscard]] std::uint64_t read_hash() const { return read_hash_; }
  using Image = std::vector<std::pair<std::uint32_t, std::uint64_t>>;
  /// What the crash left, as writes over the state before the window. Words that nobody read have
  /// the values that the choices imply, or their old ones.
  [[nodiscard]] Image image() const;

  void will_read(void const* at, std::size_t bytes) override;
  void wrote(void const* at, std::size_t bytes) override;
  void flush(void const* at, std::size_t bytes) override;
  void fence() override;
  void order() override;

 private:
  struct Thread {
    EventSet fenced;  // before anything it writes now
    EventSet since;  // written or read from others since its last fence; of model flush, flushed
  };
  void add_event(std::uint32_t word, std::uint64_t value);
  void heed(std::uint32_t word);
  void told(void const* at, std::size_t bytes);
  void tells(void const* at, std::size_t bytes);
  void resolve(std::uint32_t word, std::vector<std::uint16_t> const& chain);
  void take(std::vector<std::uint16_t> const& chain, std::size_t arrived);
  void bounds(std::vector<std::uint16_t> const& chain, std::size_t& least, std::size_t& most) const;

  Arena* arena_;
  Model model_;

  bool recording_ = false;
  Window open_;
  std::vector<Window> windows_;
  std::size_t oracle_ = 0;
  std::unordered_map<std::uint32_t, std::uint16_t> last_write_;  // of each word, in the open window
  std::unordered_map<std::uint32_t, Thread> threads_;
  std::unordered_map<std::uint32_t, std::uint16_t> last_in_line_;
  EventSet durable_;  // model flush: what anyone has flushed and fenced
  bool follow_ = false, follow_durable_ = false, lines_ = false;
  std::unordered_map<std::uintptr_t, EventSet> told_;  // by word: what its writer had fenced

  bool crashed_ = false;
  Window const* window_ = nullptr;
  std::unordered_map<std::uint32_t, std::vector<std::uint16_t>> chains_;  // events of each word
  std::unordered_map<std::uint32_t, std::uint64_t> base_;  // what it was before them
  std::unordered_map<std::uint32_t, std::vector<std::uint16_t>> unread_;  // those not decided yet
  std::vector<EventSet> after_;
  EventSet in_, out_;
  std::vector<std::uint8_t> wanted_;
  std::optional<std::size_t> arrived_;  // of the window's writes, the first so many
  std::vector<Choice> trail_;
  std::vector<std::uint32_t> seen_;  // epoch in which a word was first read or written
  std::uint32_t epoch_ = 0;
  std::uint64_t read_hash_ = 0;
};

[[nodiscard]] inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u + b * 0x94d049bb133111ebu;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace perdure::explore
