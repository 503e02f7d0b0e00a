// A table of the face: its copies, who changes and reads which, and how the second copy follows the
// first. Listing 11 changes both under the bucket's lock; over a link the host cannot, so here the
// lock covers the host's copy, and what a piece of a batch changed goes to the device's before the
// batch is acknowledged, each row with what it holds when the whole piece is done. So the order of
// operations on one key is decided once. Invariant: whenever no put is under way, both copies are
// equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "exec/split.hpp"
#include "hetero.hpp"
#include "host_sides.hpp"
#include "layout.hpp"
#include "region.hpp"

namespace perdure::hetero {

class SharedTable final : public Table {
 public:
  static Result<std::unique_ptr<SharedTable>> create(std::shared_ptr<Sides> sides,
                                                     TableOptions const& options);

  Status put(Keys keys, Keys values) override;
  Status get(Keys keys, std::span<std::uint64_t> values, Way way) override;
  Result<std::unique_ptr<Caller>> caller() override;
  Status clear() override;
  [[nodiscard]] TableStats stats() const override;
  [[nodiscard]] SplitStats split(std::uint64_t batch) const override;
  Result<bool> copies_equal() override;

  [[nodiscard]] Where where() const { return where_; }
  /// Of the host's copy, for host threads.
  [[nodiscard]] View const& host_view() const { return host_; }
  /// Of a copy, for the device.
  [[nodiscard]] View device_view(Copy copy) const;
  [[nodiscard]] HostSides& sides() { return *sides_; }
  [[nodiscard]] Queue& queue() { return *queue_; }
  /// What is wrong with a batch, if anything.
  static Status check(Keys keys, std::size_t values);
  [[nodiscard]] Status full() const;

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 17;  // operations

  explicit SharedTable(std::shared_ptr<Sides> sides, Where where)
      : kept_(std::move(sides)), sides_(&HostSides::of(*kept_)), where_(where) {}

  Status make_host_copy();
  Status make_device_copy();
  Status make_trail();
  Status refuse_absent(Keys values);
  Status put_on_host(Keys keys, Keys values);
  Status put_on_device(Keys keys, Keys values);
  Status follow(std::size_t n, bool inserted);
  Status follow_buckets(std::size_t n);
  Status upload_all();
  Status gather(std::uint32_t const* ids, std::size_t n, bool of_buckets);
  Status get_split(Keys keys, std::span<std::uint64_t> values, exec::Split::Choice const& choice,
                   exec::Split::Times& times);

  std::shared_ptr<Sides> kept_;
  HostSides* sides_;
  Where where_;
  std::uint64_t keys_ = 0;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<Queue> queue_;
  View host_;  // as host threads see the host's copy
  View device_;  // as the device sees its own
  Region table_, locks_, trail_, rows_;
  std::byte* device_locks_ = nullptr;
  std::uint64_t records_ = 0;
  exec::Split split_;
};

}  // namespace perdure::hetero
