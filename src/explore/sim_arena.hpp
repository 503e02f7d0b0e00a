// The explorer's medium: one pool in plain memory, whose every change can be taken back. Invariant:
// `shadow` equals the pool but for writes that nobody reported, and undoing to a mark restores
// both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace perdure::explore {

/// What errors call a pool that lies in an arena.
inline constexpr char const* kArenaPath = "arena";

class Arena {
 public:
  static constexpr std::uint64_t kCapacity = 24u << 20;

  /// Words are what a crash leaves whole: of 8 bytes or of 4.
  explicit Arena(std::uint32_t word_bytes = 8);
  ~Arena();
  Arena(Arena const&) = delete;
  Arena& operator=(Arena const&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t words() const { return kCapacity >> shift_; }
  [[nodiscard]] bool holds(void const* at) const {
    auto const* const p = static_cast<std::byte const*>(at);
    return p >= data_ && p < data_ + kCapacity;
  }
  [[nodiscard]] std::uint32_t word_of(void const* at) const {
    return static_cast<std::uint32_t>((static_cast<std::byte const*>(at) - data_) >> shift_);
  }
  [[nodiscard]] std::uint32_t line_of(std::uint32_t word) const { return word >> (6 - shift_); }
  [[nodiscard]] std::uint64_t now(std::uint32_t word) const { return value_at(data_, word); }
  [[nodiscard]] std::uint64_t before(std::uint32_t word) const { return value_at(shadow_, word); }

  /// The pool's word has changed: keeps what it was.
  void keep(std::uint32_t word) {
    undo_.push_back({word, before(word)});
    set_at(shadow_, word, now(word));
  }
  void set(std::uint32_t word, std::uint64_t value) {
    std::uint64_t const was = now(word);
    set_at(data_, word, value);
    if (now(word) != was) keep(word);
  }
  [[nodiscard]] std::size_t mark() const { return undo_.size(); }
  void undo_to(std::size_t mark) {
    for (; undo_.size() > mark; undo_.pop_back()) {
      set_at(data_, undo_.back().word, undo_.back().value);
      set_at(shadow_, undo_.back().word, undo_.back().value);
    }
  }
  /// Every word changed since the mark, with its value now.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint64_t>> snapshot_since(
      std::size_t mark) const {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> words;
    for (std::size_t i = mark; i < undo_.size(); ++i)
      words.emplace_back(undo_[i].word, now(undo_[i].word));
    return words;
  }
  /// Whether every write was reported, up to the pool's size.
  [[nodiscard]] bool shadow_agrees() const;

  std::uint64_t file_bytes = 0;  // of the pool's file, which growth moves

 private:
  struct Undo {
    std::uint32_t word;
    std::uint64_t value;
  };
  [[nodiscard]] std::uint64_t value_at(std::byte const* bytes, std::uint32_t word) const {
    if (shift_ == 3) return reinterpret_cast<std::uint64_t const*>(bytes)[word];
    return reinterpret_cast<std::uint32_t const*>(bytes)[word];
  }
  void set_at(std::byte* bytes, std::uint32_t word, std::uint64_t value) const {
    if (shift_ == 3)
      reinterpret_cast<std::uint64_t*>(bytes)[word] = value;
    else
      reinterpret_cast<std::uint32_t*>(bytes)[word] = static_cast<std::uint32_t>(value);
  }

  std::uint32_t shift_;
  std::byte* data_;
  std::byte* shadow_;
  std::vector<Undo> undo_;
};

/// The arena that this thread's pools lie in (explore/sim_mapping.cpp).
inline thread_local Arena* arena = nullptr;

}  // namespace perdure::explore
