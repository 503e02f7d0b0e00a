// Requests with the arrays that a store's calls take: made for all of them at once, handed over
// batch by batch, and all answers checked at once.
//
// Invariant: an answer counts as right only if its own batch wrote it: before each lot's calls all
// statuses are bad, and all answers zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataset.hpp"
#include "device_arrays.hpp"
#include "pass.hpp"
#include "perdure/store.h"
#include "ycsb.hpp"

namespace perdure::bench {

class Lot {
 public:
  /// Of at most so many requests, with the arrays in host memory or on the GPU.
  Lot(Dataset const& dataset, std::size_t most, MemorySpace space);

  /// What the next make() is for; no scans.
  [[nodiscard]] std::vector<Request>& requests() { return requests_; }
  /// Fills the arrays.
  void make();

  /// Some of the requests, as one call.
  struct Batch {
    Column keys, values;
    MutableColumn out;
    std::span<OpKind const> kinds;
    std::span<KeyStatus> statuses;
    bool all_gets = false, all_puts = false;

    [[nodiscard]] Status submit(Store& store) const;
  };
  [[nodiscard]] Batch batch(std::size_t first, std::size_t count);

  /// Once all have been submitted: adds how many there were, and how many answers were right.
  void check(Pass& pass);

 private:
  enum class Verdict : std::uint8_t { good, status, value };
  void fault(Pass& pass, std::size_t i, std::string const& what) const;

  Dataset dataset_;
  MemorySpace space_;
  std::vector<Request> requests_;
  std::vector<OpKind> kinds_;
  std::vector<KeyStatus> statuses_;
  std::vector<Verdict> verdicts_;  // of the answers
  std::vector<std::byte> keys_, values_, out_;
  std::unique_ptr<DeviceArray> device_keys_, device_values_, device_out_;
};

}  // namespace perdure::bench
