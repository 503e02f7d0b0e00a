// libGPM's checkpoints as a system under test of the explorer: groups of elements whose bytes
// change from one checkpoint to the next, over one file in the arena. Invariant: each oracle says,
// of every group, the checkpoint that counts and the one in flight; a restore brings one of the two
// back, whole and with its word.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exec/sim/grid_sim.hpp"
#include "explore/crashes.hpp"
#include "explore/gpm/gpm_scenario.hpp"
#include "gpm/gpm_checkpoint_on.hpp"

namespace perdure::explore {

class GpmCheckpointRunner final : public Crasher {
 public:
  GpmCheckpointRunner(Options const& options, Totals& totals) : Crasher(options, totals, 4) {}
  [[nodiscard]] std::string describe(std::uint64_t scenario_seed) const override;

 private:
  using Checkpoint = gpm::GpmCheckpointOn<exec::SimGrid>;
  using Elements = std::vector<std::vector<std::uint8_t>>;  // the bytes of each element of a group
  struct Taken {
    std::uint64_t word;
    Elements elements;
    friend bool operator==(Taken const&, Taken const&) = default;
  };
  /// Of each group: what counts, and what may count instead.
  struct Oracle {
    std::vector<std::optional<Taken>> old, fresh;
  };
  /// What a program has registered.
  class Memory {
   public:
    explicit Memory(GpmCheckpointScenario const& scenario);
    [[nodiscard]] std::uint8_t* at(std::size_t group, std::size_t element) const;
    [[nodiscard]] Elements read(std::size_t group) const;
    void change(std::size_t group, std::uint32_t which, std::uint64_t seed) const;
    Status add_to(Checkpoint& checkpoint) const;

   private:
    GpmCheckpointScenario const* scenario_;
    mutable std::vector<std::vector<std::vector<std::uint64_t>>> words_;
  };

  bool set_up(std::uint64_t scenario_seed) override;
  Forward run(exec::SimSchedule const& schedule) override;
  std::optional<std::string> judge(std::size_t which, bool record_recovery,
                                   std::vector<Window>& recovery, std::uint64_t& logical) override;
  [[nodiscard]] std::uint64_t hash_of_oracle(std::size_t oracle) const override;
  [[nodiscard]] bool worth_crashing(std::vector<Window> const&) const override {
    return tracker_.crashed.read_hash() % 8 == 0;
  }

  void expect(Oracle oracle);
  std::optional<std::string> run_steps(Checkpoint& checkpoint, Memory& memory);
  std::optional<std::string> take(Checkpoint& checkpoint, Memory const& memory, std::uint32_t group,
                                  std::uint64_t word);
  std::optional<std::string> restored(Checkpoint& checkpoint, Memory const& memory,
                                      std::size_t group, std::optional<Taken>& found);

  GpmCheckpointScenario scenario_{};
  exec::SimGrid grid_{3};
  std::vector<Oracle> oracles_;
  std::size_t of_run_ = 0;  // oracles of the run; those of one recovery follow
};

}  // namespace perdure::explore
