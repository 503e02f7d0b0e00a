// The dense room: names and sizes of buffers, two copies of each, and one word that says which copy
// counts and of which step it is. docs/format.md draws it.
//
// Invariants: names and sizes are written once, and ordered before the root names the room; a copy
// that counts is never written; the word changes by one store, after the other copy has been
// ordered.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/offset.hpp"
#include "perdure/status.h"
#include "pm/pool.hpp"
#include "pm/pool_format.hpp"

namespace perdure::pm {

inline constexpr std::size_t kMostDenseName = sizeof(DenseEntry::name) - 1;
inline constexpr std::uint64_t kMostStep = (std::uint64_t{1} << 63) - 2;

/// Of the root's entry: the room, and how many superblocks it takes.
inline constexpr std::string_view kDenseRoom = "dense";

class DenseRoom {
 public:
  struct Buffer {
    std::string name;
    std::uint64_t bytes = 0;
    std::uint64_t at = 0;  // within a copy
  };

  explicit DenseRoom(Pool& pool) : pool_(&pool) {}

  /// Takes over the room that the root names, if it names one. One whose header is damaged keeps
  /// its place: see fault().
  Status attach();
  [[nodiscard]] bool exists() const { return superblocks_ != 0; }
  /// What is wrong with its header; empty where nothing is.
  [[nodiscard]] std::string const& fault() const { return fault_; }
  /// Makes the room, once, for buffers of which name and bytes are set. There is no step then.
  Status make(std::vector<Buffer> buffers);
  [[nodiscard]] std::vector<Buffer> const& buffers() const { return buffers_; }
  [[nodiscard]] std::uint64_t bytes() const { return superblocks_ * pool_->superblock_bytes(); }

  /// The step whose copy counts, if there has been one.
  [[nodiscard]] std::optional<std::uint64_t> step() const;
  /// Where a buffer's copy that counts lies, and the other one.
  [[nodiscard]] Offset counting(Buffer const& buffer) const {
    return copy(word() >> 63) + buffer.at;
  }
  [[nodiscard]] Offset other(Buffer const& buffer) const;
  /// The word, for the undo log.
  [[nodiscard]] Offset word_at() const { return base_ + kDenseWord; }
  /// What the word says; 0 where there is no room.
  [[nodiscard]] std::uint64_t word_now() const { return exists() ? word() : 0; }
  /// Repair: the word, as it was.
  void set_word(std::uint64_t word);
  [[nodiscard]] bool is_word(Offset at) const { return exists() && at == word_at(); }
  /// The other copy counts from here on, of step `step`.
  void publish(std::uint64_t step);

 private:
  /// Their places within a copy; returns how long a copy is.
  static std::uint64_t lay_out(std::vector<Buffer>& buffers);
  void read_header();
  [[nodiscard]] std::uint64_t word() const;
  [[nodiscard]] std::uint64_t first_copy() const {
    return kDenseEntries + buffers_.size() * sizeof(DenseEntry);
  }
  [[nodiscard]] Offset copy(std::uint64_t which) const {
    return base_ + first_copy() + which * copy_bytes_;
  }

  Pool* pool_;
  Offset base_;  // as the root has it, and so the next
  std::uint64_t superblocks_ = 0;
  std::vector<Buffer> buffers_;
  std::uint64_t copy_bytes_ = 0;
  std::string fault_;
};

}  // namespace perdure::pm
