// How gets of a batch fetch their values from PM (Gather). Nobody knows beforehand which way pays:
// it depends on the machine, the link, the pool's size, and on how many of the keys lie on PM. So
// of each size class one way stays until another wins a contest, by the rules of exec/ways.hpp;
// values are read in order first. Sessions may ask at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "perdure/store.h"

namespace perdure {

class GatherAutotuner {
 public:
  // below it a launch costs more than any way could save
  static constexpr std::uint64_t kFewest = 1u << 10;
  // entries that cross the link as fast as their number alone: the host knows them all, and there
  // is nothing to part
  static constexpr std::uint64_t kFewAside = 1u << 14;

  /// How a batch of n keys goes.
  struct Trial {
    Gather way = Gather::at_once;
    bool timed = false;  // tell noted() how long it took
    std::uint64_t n = 0;
    std::uint32_t stands_for = 1;  // batches, of which this one is timed
    std::uint32_t contest = 0, block = 0;  // exec::Ways::Choice
    std::uint64_t era = 0;  // what was begun before all was forgotten says nothing afterwards
  };
  /// What a trial put aside, and how long it took to fetch that.
  struct Aside {
    std::uint64_t below = 0, above = 0;  // the pivot
    double seconds = 0;
  };

  GatherAutotuner();
  ~GatherAutotuner();
  GatherAutotuner(GatherAutotuner const&) = delete;
  GatherAutotuner& operator=(GatherAutotuner const&) = delete;

  /// `exact`: it can be said where exactly a value lies, as the host must know to take part.
  Trial next(Gather asked, std::uint64_t n, bool exact);
  void noted(Trial const& trial, double seconds, Aside const& aside);

  /// Where to part what n keys put aside, as a share of the pool: the host fetches what lies below,
  /// the device the rest, which pays for each page that it touches, however little of it.
  double pivot(std::uint64_t n);
  /// So many lay below it and above. The next batch is parted so that both are done at one time.
  void parted(std::uint64_t n, Aside const& aside);

  /// Everything is tried again.
  void forget();
  /// Whether some way has not been tried with batches of so many keys.
  [[nodiscard]] bool is_learning(Gather asked, std::uint64_t n) const;
  [[nodiscard]] std::vector<GatherSize> report() const;

 private:
  class Sizes;
  std::unique_ptr<Sizes> sizes_;
};

}  // namespace perdure
