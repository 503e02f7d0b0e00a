#include "explore/gwal/sim_gwal_files.hpp"

#include <algorithm>

#include "pm/host_verbs.hpp"

namespace perdure::explore {
namespace {

std::uint64_t* name_word(std::byte* room, std::uint64_t slot) {
  return reinterpret_cast<std::uint64_t*>(room + 64) + slot;
}
std::byte* slot_at(std::byte* room, std::uint64_t slot) {
  return room + 4096 + slot * kGwalSlotBytes;
}

}  // namespace

class SimGwalFiles::File final : public lsm::GwalFile {
 public:
  File(std::byte* room, std::uint64_t slot, std::uint64_t number, std::shared_ptr<Slots> in_use)
      : room_(room), slot_(slot), number_(number), in_use_(std::move(in_use)) {
    in_use_->insert(slot_);
  }
  ~File() override { in_use_->erase(slot_); }

  [[nodiscard]] std::span<std::byte> bytes() const override {
    return {slot_at(room_, slot_), kGwalSlotBytes};
  }
  [[nodiscard]] std::string name() const override { return std::to_string(number_); }
  Status keep() override { return name_it(number_); }
  Status remove(bool) override { return name_it(0); }
  Status sync(void const* at, std::size_t bytes) const override {
    pm::writes_back(at, bytes);
    pm::order();
    return {};
  }

 private:
  Status name_it(std::uint64_t name) {
    pm::store_word(name_word(room_, slot_), name);
    pm::order();
    return {};
  }

  std::byte* room_;
  std::uint64_t slot_;
  std::uint64_t number_;
  std::shared_ptr<Slots> in_use_;
};

Result<std::vector<std::uint64_t>> SimGwalFiles::numbers() {
  std::vector<std::uint64_t> found;
  for (std::uint64_t slot = 0; slot < kGwalSlots; ++slot) {
    auto const* const at = reinterpret_cast<std::byte const*>(name_word(room_, slot));
    if (std::uint64_t const number = pm::load_word(at); number != 0) found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::shared_ptr<lsm::GwalFile>> SimGwalFiles::open(std::uint64_t number) {
  for (std::uint64_t slot = 0; slot < kGwalSlots; ++slot) {
    if (*name_word(room_, slot) != number) continue;
    used_.insert(slot);
    return std::shared_ptr<lsm::GwalFile>(std::make_shared<File>(room_, slot, number, in_use_));
  }
  return Status{Code::not_found, "there is no segment " + std::to_string(number)};
}

Result<std::shared_ptr<lsm::GwalFile>> SimGwalFiles::make(std::uint64_t number,
                                                          std::uint64_t bytes) {
  if (bytes > kGwalSlotBytes) return Status{Code::no_space, "a slot is smaller"};
  for (std::uint64_t slot = 0; slot < kGwalSlots; ++slot) {
    if (*name_word(room_, slot) != 0 || in_use_->contains(slot)) continue;
    if (used_.insert(slot).second) {
      pm::zero_bytes(slot_at(room_, slot), kGwalSlotBytes);
      pm::order();
    }
    return std::shared_ptr<lsm::GwalFile>(std::make_shared<File>(room_, slot, number, in_use_));
  }
  return Status{Code::no_space, "all slots are in use"};
}

}  // namespace perdure::explore
