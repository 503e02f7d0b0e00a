// Stands in for a crashed medium: decides, word by word as recovery reads them, which writes of one
// window arrived. Invariant: whatever was decided can be completed to a set of writes that holds,
// with each write, all that must be there before it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "explore/sim_arena.hpp"
#include "explore/window.hpp"

namespace perdure::explore {

inline constexpr std::uint64_t kPoison = 0xdddddddddddddddd;

class CrashedMedium {
 public:
  explicit CrashedMedium(Arena& a) : arena_(&a), chain_of_(a.words(), kNone), seen_(a.words(), 0) {}

  /// For crashes within `window`, over the state before it, which is there again before each.
  void prepare(Window const& window);
  /// Until it is read, a word of the window is poison: who reads it without saying so sees that.
  /// Words take the choices' values in the order in which they are read, later ones the oldest
  /// possible.
  void crash(std::vector<std::uint8_t> const& choices);
  /// Instead: these writes of the window arrived, each with all that must be there before it, and
  /// no other.
  void crash_with(EventSet const& arrived) {
    crash({});
    arrived_ = arrived;
  }
  void end() { crashed_ = false; }
  /// Which of its values each word that was read took, and of how many, in the order of reading.
  struct Choice {
    std::uint32_t word;
    std::uint8_t taken, options;
  };
  [[nodiscard]] std::vector<Choice> const& choices() const { return trail_; }
  /// Of all words read since crash() before recovery wrote them.
  [[nodiscard]] std::uint64_t read_hash() const { return read_hash_; }
  /// What the crash left, as writes over the state before the window. Words that nobody read have
  /// the values that the choices imply, or their old ones.
  [[nodiscard]] Image image() const;

  // What recovery does, told by the tracker.
  void will_read_word(std::uint32_t word);
  /// It overwrites the word unread: what the crash left there is gone.
  void overwritten(std::uint32_t word);

 private:
  /// The window's writes to one word.
  struct Chain {
    std::uint32_t word;
    std::uint64_t base;  // what it was before them
    std::vector<std::uint16_t> writes;
    bool unread = false;  // not decided yet
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  void resolve(Chain const& chain);
  void take(Chain const& chain, std::size_t arrived);
  void bounds(Chain const& chain, std::size_t& least, std::size_t& most) const;

  Arena* arena_;
  // Of the window:
  Window const* window_ = nullptr;
  std::vector<Chain> chains_;
  std::vector<std::uint32_t> chain_of_;  // by word: which of them, or kNone
  std::vector<EventSet> after_;  // of each event those that it must be there before
  // Of the crash:
  bool crashed_ = false;
  EventSet in_, out_;
  std::vector<std::uint8_t> wanted_;
  std::optional<EventSet> arrived_;  // instead of wanted_
  std::vector<Choice> trail_;
  std::vector<std::uint32_t> seen_;  // epoch in which a word was first read or written
  std::uint32_t epoch_ = 0;
  std::uint64_t read_hash_ = 0;
};

}  // namespace perdure::explore
