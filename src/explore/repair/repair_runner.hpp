// Repairs as a system under test of the explorer: an opening with OpenOptions::repair of a pool
// that is damaged, crashed wherever that makes a difference, inside the openings that follow, too.
// Invariants: what the next repair comes to is what this one would have come to; what was changed,
// lines of the pool tell; an opening without repair answers the same, or is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explore/crashes.hpp"
#include "explore/repair/damaged_session.hpp"

namespace perdure::explore {

class RepairRunner final : public Crasher {
 public:
  RepairRunner(Options const& options, Totals& totals) : Crasher(options, totals, 8) {}
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  /// Of the repair that a crash falls into, which is the number of an oracle.
  enum class Stage : std::uint8_t {
    unsaid,  // before its first lines wait to be acknowledged
    said,  // more lines may follow
    over,  // the pool is open
  };
  /// What a pool answers, and the lines that wait in it.
  struct Answers {
    Contents contents{};
    std::vector<std::string> lines;
    std::uint64_t damaged = 0;  // records whose checksum fails
    bool operator==(Answers const&) const = default;
  };
  /// Of a repair that nothing cut off.
  struct Repaired {
    Answers answers;
    std::uint64_t dropped = 0;
    bool refused = false;  // beyond repair
    bool opens_plainly = false;  // without repair, too
    /// Whether it answers for nothing but what it had.
    [[nodiscard]] bool lossy() const;
  };

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<std::string> judge(std::size_t which, bool record_recovery,
                                   std::vector<Window>& recovery, std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  [[nodiscard]] bool worth_crashing(std::vector<Window> const&) const override {
    return tracker_.crashed.read_hash() % 8 == 0;
  }

  bool tries_damage(std::uint64_t random);
  std::optional<std::string> whole_run();
  void tell_stages(std::vector<Window>& windows) const;
  std::optional<std::string> ask(Store& store, Answers& answers);
  [[nodiscard]] std::optional<std::string> check_truth() const;
  [[nodiscard]] std::optional<std::string> check_lines(std::vector<std::string> const& lines,
                                                       Stage stage) const;
  std::optional<std::string> check_contents(Store& store, Answers& found);
  std::optional<std::string> settle(Store& store, Answers const& now);

  std::optional<Scenario> scenario_;
  WrittenSession session_;
  std::vector<Flip> damage_;
  Repaired repaired_;
};

}  // namespace perdure::explore
