// Hot keys with the host, all keys with the device. A batch goes by pieces: the host's threads look
// a piece up in the small table, and what they did not find goes to the device, which answers while
// they are at the next piece. Invariants: of a key in the small table, what that says counts; every
// value that was put there and not yet to the device's table is marked changed, and goes there
// before the key leaves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "hetero.hpp"
#include "shared_table.hpp"

namespace perdure::hetero {

class HotColdTables final : public HotCold {
 public:
  static Result<std::unique_ptr<HotColdTables>> create(std::shared_ptr<Sides> sides,
                                                       HotColdOptions const& options);

  Status put(Keys keys, Keys values) override;
  Status get(Keys keys, std::span<std::uint64_t> values) override;
  Status keep(Keys keys) override;
  Result<std::uint64_t> migrate() override;
  [[nodiscard]] std::uint64_t hot_keys() const override { return hot_->stats().records; }
  [[nodiscard]] std::uint64_t hot_gets() const override { return gets_ - cold_gets_; }
  [[nodiscard]] std::uint64_t gets() const override { return gets_; }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 16;  // keys
  static constexpr std::size_t kPart = 512;  // that a thread takes at a time
  static constexpr std::size_t kWatched = 16;  // of so many keys that gets ask for, one is counted
  static constexpr std::size_t kMostSamples = std::size_t{1} << 20;  // between two migrations

  /// What the device is to do: keys and values, and which operation of the piece each belongs to.
  struct Cold {
    std::unique_ptr<Words> keys, values;
    std::vector<std::uint32_t> at;
    std::atomic<std::size_t> n{0};
    std::size_t first = 0;  // of the piece
  };

  HotColdTables(std::shared_ptr<Sides> sides, HotColdOptions const& options)
      : kept_(std::move(sides)), sides_(&HostSides::of(*kept_)), options_(options) {}

  Status make();
  void look_up_hot(Keys keys, std::span<std::uint64_t> values, Cold& cold);
  void sample(Keys keys);
  Status finish(Cold& cold, std::span<std::uint64_t> values);
  void put_hot(Keys keys, Keys values, Cold& cold);
  Status write_back();
  Status read_cold(Keys keys, std::vector<std::uint64_t>& values);

  using Weighed = std::pair<std::uint64_t, std::uint64_t>;  // a key, how often it was asked for
  /// The keys to be hot, most often asked for first.
  std::vector<Weighed> hottest();

  std::shared_ptr<Sides> kept_;
  HostSides* sides_;
  HotColdOptions options_;
  std::unique_ptr<SharedTable> hot_, cold_;
  std::array<Cold, 2> pieces_;
  std::vector<std::uint8_t> changed_;  // by location in the small table
  std::vector<std::uint64_t> samples_;
  std::atomic<std::size_t> sampled_{0};
  std::vector<Weighed> weights_;  // of the hot keys
  std::uint64_t gets_ = 0, cold_gets_ = 0;
};

}  // namespace perdure::hetero
