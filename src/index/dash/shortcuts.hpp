// Shortcuts of Dash-LH: from the first bits of a hash straight to the segment that has it. Segments
// are numbered by those bits read backwards, and how many bits count depends on how many segments
// there are; a search that works that out each time leaves the processor room for fewer of the
// searches after it. Volatile. Invariants:
//
//  * A shortcut is 0, or leads to the segment that its hashes had when it was stored; whoever names
//    more segments takes back those of a new one before it names it (linear_directory.hpp).
//  * Shortcuts of each number of bits have a place of their own, which is empty when they begin to
//    be used. The number only grows. So what is stored for fewer bits is never looked at again, but
//    by who looked before; and that one can tell by the number.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/zero_words.hpp"

namespace perdure::dash {

class Shortcuts {
 public:
  /// Of `bits` bits now, and never more than `most`.
  template <class Host>
  void begin(Host& host, std::uint32_t bits, std::uint32_t most) {
    PERDURE_ASSERT(bits > 0 && bits <= most && most < 63);
    entries_ = ZeroWords(std::uint64_t{2} << most);
    host.store(&shift_, shift_of(bits));
  }

  struct Seen {
    std::uint64_t shift = 0;  // of the number of bits
    std::uint64_t const* address = nullptr;  // what is there may be 0
  };
  template <class Host>
  [[nodiscard]] PERDURE_HOT Seen look_up(Host& host, std::uint64_t hash) const {
    std::uint64_t const shift = host.load(&shift_);
    return {shift, &entries_[place(hash, shift)]};
  }
  /// Whether what was seen still leads to `address`.
  template <class Host>
  [[nodiscard]] PERDURE_HOT bool leads_to(Host& host, Seen const& seen,
                                          std::uint64_t address) const {
    return host.load(&shift_) == seen.shift && host.load(seen.address) == address;
  }

  // --- For the directory, whose lock says when.
  // -----------------------------------------------------------------------------------------------

  /// The shortcut of this hash leads to `address` from now on; 0: to nothing.
  template <class Host>
  void store(Host& host, std::uint64_t hash, std::uint64_t address) {
    host.store(&entries_[place(hash, host.load(&shift_))], address);
  }
  template <class Host>
  void use_bits(Host& host, std::uint32_t bits) {
    if (host.load(&shift_) != shift_of(bits)) host.store(&shift_, shift_of(bits));
  }

 private:
  [[nodiscard]] static std::uint64_t shift_of(std::uint32_t bits) { return 63 - bits; }
  /// The first bits of a hash after a 1: so those of each number of bits follow one another.
  [[nodiscard]] PERDURE_HOT static std::uint64_t place(std::uint64_t hash, std::uint64_t shift) {
    return (hash >> 1 | std::uint64_t{1} << 63) >> shift;
  }

  std::uint64_t shift_ = 0;
  // One run for all that there can ever be: pages that nobody uses cost nothing.
  ZeroWords entries_;
};

}  // namespace perdure::dash
