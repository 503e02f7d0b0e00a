// A reader beside the writer of a run (store/gphash/pool_look.hpp, log_look.hpp), which sees the
// pool's words as they were at one moment of the run, and each word of its records as it was at
// some moment from a second one to a third; of layout `log`, whether anything has come as of a
// fourth. Invariant: the moments follow from what the run wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "explore/scenario.hpp"
#include "explore/sim_arena.hpp"
#include "explore/window.hpp"

namespace perdure::explore {

class ReaderMoments {
 public:
  /// Whether key number k ever had this value, or none.
  using Held = std::function<bool(std::size_t k, std::optional<std::uint64_t> value)>;

  /// What is wrong with what readers answer, if anything is. `medium` is as it was before what
  /// `windows` wrote; `end` is what the pool holds after all of it.
  std::optional<std::string> check(Arena const& medium, std::vector<Window> const& windows,
                                   Scenario const& scenario, Held const& held, Contents const& end);

 private:
  void begin(Arena const& medium, std::vector<Window> const& windows);
  void move_to(std::size_t words_at, std::size_t records_from, std::size_t records_to);
  void move_words_to(std::size_t words_at);
  [[nodiscard]] std::optional<std::string> read(Scenario const& scenario, Held const& held,
                                                Contents const* exactly) const;
  [[nodiscard]] std::optional<std::string> read_log(Scenario const& scenario, Held const& held,
                                                    std::size_t settled_at,
                                                    Contents const* exactly);

  std::vector<std::byte> words_, records_;  // the pool, as the reader sees it
  std::vector<Event const*> events_;
  std::vector<std::uint64_t> before_;  // what each event's word was before the run
  std::uint64_t random_ = 0;
};

}  // namespace perdure::explore
