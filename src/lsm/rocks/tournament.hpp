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
  /// Each player has a word, and the smaller one wins. Of two whose words are the same,
  /// tied(a, b) says whether a does; exactly one of them does.
  template <class Tied>
  void begin(std::vector<std::uint64_t> const& words, Tied const& tied) {
    players_ = static_cast<std::uint32_t>(words.size());
    winner_ = 0;
    losers_.resize(players_);
    winners_.resize(std::size_t{2} * players_);
    for (std::uint32_t i = 0; i < players_; ++i) winners_[players_ + i] = i;
    for (std::uint32_t node = players_ - 1; players_ > 1 && node > 0; --node) {
      std::uint32_t a = winners_[2 * node];
      std::uint32_t b = winners_[2 * node + 1];
      if (words[b] != words[a] ? words[b] < words[a] : tied(b, a)) std::swap(a, b);
      winners_[node] = winner_ = a;
      losers_[node] = b;
    }
  }

  [[nodiscard]] std::uint32_t winner() const { return winner_; }

  /// The winner's word has changed. Who wins is a coin's toss: without a branch that costs a few
  /// instructions, with one every second match would cost twenty.
  template <class Tied>
  void play_again(std::vector<std::uint64_t> const& words, Tied const& tied) {
    std::uint32_t mine = winner_;
    std::uint64_t word = words[mine];
    for (std::uint32_t node = (mine + players_) / 2; node > 0; node /= 2) {
      std::uint32_t const theirs = losers_[node];
      std::uint64_t const their_word = words[theirs];
      std::uint64_t lost = their_word < word;
      if (their_word == word) [[unlikely]]
        lost = tied(theirs, mine);
      std::uint32_t const change = (mine ^ theirs) & static_cast<std::uint32_t>(-lost);
      losers_[node] = theirs ^ change;
      mine ^= change;
      word ^= (word ^ their_word) & -lost;
    }
    winner_ = mine;
  }

 private:
  std::uint32_t players_ = 0;
  std::uint32_t winner_ = 0;
  std::vector<std::uint32_t> losers_, winners_;
};

}  // namespace perdure::lsm
