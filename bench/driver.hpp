// Puts requests to a store in batches, times the calls alone, and checks every answer.
//
// Invariant: the clock runs from a call of the store to its return. Making keys and values, moving
// them to a GPU, and checking what came back all lie outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataset.hpp"
#include "lot.hpp"
#include "pass.hpp"
#include "perdure/store.h"
#include "scans.hpp"
#include "ycsb.hpp"

namespace perdure::bench {

class Driver {
 public:
  /// Batches of at most `batch` requests, with the arrays in host memory or on the GPU. Scans come
  /// from so many clients at once (0: one a hardware thread), and their answers to host memory.
  Driver(Dataset const& dataset, std::size_t batch, MemorySpace space, std::uint32_t clients = 0);

  /// The next `ops` requests of the stream. With arrays on the GPU several batches' are made at
  /// once, and their answers checked once all of these have come. Of a batch with scans its inserts
  /// come first, as one call, then its scans.
  Pass run(Store& store, RequestStream& stream, std::uint64_t ops);

  /// These requests, as one batch; of at most `batch`.
  Pass run_batch(Store& store, std::vector<Request> const& requests);

  /// Gets records first .. first+count-1 and checks that each is there at the stream's version.
  Pass read_back(Store& store, RequestStream const& stream, std::uint64_t first,
                 std::uint64_t count);

 private:
  void call(Store& store, Pass& pass);
  void call_with_scans(Store& store, RequestStream const& stream, Pass& pass);

  std::size_t batch_;
  Scanner scanner_;
  std::size_t most_;  // requests of a lot
  Lot lot_;
  std::vector<Request> scans_;  // of a batch
};

}  // namespace perdure::bench
