// Gets that the host's threads share with the store's device (OpenOptions::gets_by): a second
// engine, on CPU warps over the same pool, and who answers a batch, by measured times (exec/split).
// The device answers first, and until another way has proved faster.
// It reads slot words and records on PM, which is all that gets need: the mirror, claims and leases
// are the device's. Invariants: gets alone use it, under the shared store lock, so nothing changes
// meanwhile; each first learns what has changed since the last one (follow()). Where it cannot be,
// the device answers alone, and stats() says why.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "exec/aside.hpp"
#include "exec/split.hpp"
#include "store/gphash/core.hpp"

namespace perdure {

class SharedGets {
 public:
  explicit SharedGets(Core& core);

  /// Whether host threads may have a part in this batch of gets: its arrays lie in host memory, and
  /// no stream of a device is to be waited for.
  [[nodiscard]] bool takes(Call const& call) const;
  Status get(Call const& call, std::span<std::uint8_t const> first, std::span<KeyStatus> statuses);

  [[nodiscard]] SharingStats stats() const;
  /// What the host's part has counted since the last report.
  exec::Counts take_counts();
  /// Batches of which the device had no part.
  [[nodiscard]] std::uint64_t batches_of_host() const { return batches_of_host_; }
  /// The store is being closed.
  void clear();

 private:
  using Choice = exec::Split::Choice;
  using Times = exec::Split::Times;

  // batches of a size until the device has its buffers, and its threads on the host are awake;
  // then it finds how to gather (Split::Times::learning)
  static constexpr std::uint32_t kSettling = 4;

  Status follow();
  Status follow_now() PERDURE_REQUIRES(mutex_);
  Status answered(Choice const& choice, Call const& call, std::span<std::uint8_t const> first,
                  std::span<KeyStatus> statuses, Times& times);
  Status answered_by_both(std::size_t device_n, Call const& call,
                          std::span<std::uint8_t const> first, std::span<KeyStatus> statuses,
                          Times& times);
  Choice choose(std::size_t n);
  void note(Choice const& choice, std::size_t n, Times const& times);
  std::unique_ptr<exec::Aside> take_aside();
  void give_aside(std::unique_ptr<exec::Aside> aside);

  Core& core_;
  GetsBy by_;  // never `automatic`
  std::string why_not_;  // where it is `device`, and that was not asked for
  std::unique_ptr<Engine> host_;  // changes under mutex_, while no get runs
  Sessions sessions_;  // of host_
  std::atomic<bool> off_{false};  // there is no such engine, whatever was asked for
  // of the core and of the pool, as host_ knows them; change under mutex_
  std::atomic<std::uint64_t> generation_{0}, pool_bytes_{0};
  std::atomic<std::uint64_t> host_keys_{0}, device_keys_{0}, batches_of_host_{0};
  mutable Mutex mutex_;  // guards the rest
  std::string failed_ PERDURE_GUARDED_BY(mutex_);
  exec::Split split_ PERDURE_GUARDED_BY(mutex_){kSettling, exec::SplitWay::device};
  std::vector<std::unique_ptr<exec::Aside>> asides_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure
