// Two databases that are given the same operations, one after the other, and have to answer alike.
// An operation is its number and the run's seed, so any subset of a run's operations is a run too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rocks/fuzz/side.hpp"

namespace perdure::test {

struct Disagreement {
  std::uint64_t operation = 0;
  std::string what;  // the operation's name, and where the answers part
};

class Duel {
 public:
  Duel(std::uint64_t seed, Opener left, Opener right);
  ~Duel();
  Duel(Duel const&) = delete;
  Duel& operator=(Duel const&) = delete;

  /// Nothing: both opened.
  std::optional<Disagreement> begin();
  std::optional<Disagreement> take(std::uint64_t operation);
  /// Compares all there is, closes both, and compares what each finds in the other's directory.
  std::optional<Disagreement> end(std::uint64_t operation);

  [[nodiscard]] Side const& left() const { return left_; }

 private:
  void act(std::uint64_t operation, Side& side, Transcript& said) const;
  /// What differs, or nothing.
  std::string reopen(Draws draws);
  std::string close_and_cross(bool explicitly);

  std::uint64_t seed_;
  Keys keys_;
  Side left_;
  Side right_;
};

/// Which action operation number n of a seed is.
char const* operation_name(std::uint64_t seed, std::uint64_t operation);

/// The first `count` operations but those of these names.
std::vector<std::uint64_t> operations_without(std::uint64_t seed, std::uint64_t count,
                                              std::vector<std::string> const& names);

/// Runs these operations, and compares all there is after the last.
std::optional<Disagreement> run(std::uint64_t seed, std::vector<std::uint64_t> const& operations,
                                Opener const& left, Opener const& right);
/// Fewer operations that still disagree: halves, quarters and so on are left out while that is so,
/// for so many runs at most.
std::vector<std::uint64_t> shrink(std::uint64_t seed, std::vector<std::uint64_t> operations,
                                  Opener const& left, Opener const& right, int runs);

}  // namespace perdure::test
