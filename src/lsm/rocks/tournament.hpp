// Which of several players comes first, again and again while one of them changes at a time: a tree
// of matches, of which only those on the way of the one that changed are played again.
// Invariant: each node has the loser of its match, and the winner of all is kept beside them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace perdure::lsm {

class Tournament {
 public:
  /// before(a, b): a comes before b; of two, exactly one does.
  template <class Before>
  void begin(std::uint32_t players, Before const& before) {
    players_ = players;
    winner_ = 0;
    losers_.resize(players);
    winners_.resize(std::size_t{2} * players);
    for (std::uint32_t i = 0; i < players; ++i) winners_[players + i] = i;
    for (std::uint32_t node = players - 1; players > 1 && node > 0; --node) {
      std::uint32_t a = winners_[2 * node];
      std::uint32_t b = winners_[2 * node + 1];
      if (before(b, a)) std::swap(a, b);
      winners_[node] = winner_ = a;
      losers_[node] = b;
    }
  }

  [[nodiscard]] std::uint32_t winner() const { return winner_; }

  /// The winner has changed.
  template <class Before>
  void play_again(Before const& before) {
    std::uint32_t mine = winner_;
    for (std::uint32_t node = (mine + players_) / 2; node > 0; node /= 2) {
      std::uint32_t const theirs = losers_[node];
      bool const lost = before(theirs, mine);
      losers_[node] = lost ? mine : theirs;
      mine = lost ? theirs : mine;
    }
    winner_ = mine;
  }

 private:
  std::uint32_t players_ = 0;
  std::uint32_t winner_ = 0;
  std::vector<std::uint32_t> losers_, winners_;
};

}  // namespace perdure::lsm
