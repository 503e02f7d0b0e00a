// A G-WAL's files (lsm/gwal/gwal_files.hpp) on the explorer's medium: slots of one size, and for
// each of them a word that holds the number under which its file is known, 0 where it has no name.
// Invariant: a slot that is used again by the same log holds what it held; one that an earlier log
// left without a name is cleared first, as a directory that is opened removes such files.
#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "explore/sim_arena.hpp"
#include "lsm/gwal/gwal_files.hpp"
#include "lsm/gwal/gwal_format.hpp"

namespace perdure::explore {

inline constexpr std::uint64_t kGwalSlots = 10;
inline constexpr std::uint64_t kGwalSlotBytes = lsm::kGwalRecords + 512;
/// Of the arena, the first page: names, and what the scenario keeps beside them.
inline constexpr std::uint64_t kGwalArenaBytes = 4096 + kGwalSlots * kGwalSlotBytes;

class SimGwalFiles final : public lsm::GwalFiles {
 public:
  /// `room`: kGwalArenaBytes bytes of the medium.
  explicit SimGwalFiles(std::byte* room) : room_(room), in_use_(std::make_shared<Slots>()) {}

  [[nodiscard]] std::string name() const override { return "arena"; }
  [[nodiscard]] std::uint64_t boot() const override { return 1; }
  Result<std::vector<std::uint64_t>> numbers() override;
  Result<std::shared_ptr<lsm::GwalFile>> open(std::uint64_t number) override;
  Result<std::shared_ptr<lsm::GwalFile>> make(std::uint64_t number, std::uint64_t bytes) override;

 private:
  using Slots = std::set<std::uint64_t>;
  class File;

  std::byte* room_;
  std::shared_ptr<Slots> in_use_;  // by an object
  Slots used_;  // since this was made
};

}  // namespace perdure::explore
