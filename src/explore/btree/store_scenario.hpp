// A scenario of a B+-tree's store, from one number: a few keys, and what a few threads do to them
// in batches. Invariant: fillers are there all the while; operations are on the other keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perdure/batch.h"

namespace perdure::explore {

struct StoreOp {
  OpKind kind = OpKind::get;  // get, put, update, erase
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  std::uint32_t bytes = sizeof value;  // of it, the rest zeros
  Rmw rmw = Rmw::replace;  // of an update; a batch has one that computes, at most
};
using StoreBatch = std::vector<StoreOp>;

/// A segment of a log that is filled before the run: bytes left until nobody appends to it, and
/// whether what is in it stays; else it is outdated by then.
struct Filled {
  std::uint64_t left = 0;
  bool stay = false;
  bool collected = false;  // as far as it is due
};

struct StoreScenario {
  std::vector<std::uint64_t> fillers;  // key = value
  std::vector<std::uint64_t> keys;  // what operations are on
  std::vector<std::uint64_t> there;  // of those, there from the beginning, key = value
  std::vector<std::uint64_t> erased;  // there once: slots of leaves hold what they were
  bool strings = false;  // keys are, of several lengths
  std::uint64_t holds = 0;  // of a log: a key whose item the first thread has for a while; 0: none
  bool loads = false;  // the first batch is loaded in bulk, before all others
  bool grows = false;  // the first record needs a superblock, which holds what looks like records
  /// Of a log, before the run: which keys were there once, which segments are filled, and whether
  /// it is closed.
  struct Log {
    std::vector<std::uint64_t> erased;
    std::vector<Filled> filled;
    // The first segment holds nothing more that died; and who fills another leaves the one before
    // it room.
    bool cancelled = false;
    bool writer_collects = false;  // the first thread, when it has written; its keys fill segments
    bool closed = false;
    std::uint32_t collectors = 1;  // threads of the run beside those with batches
    bool collectors_last = false;  // of those that begin
    std::uint64_t most_queued = 4;
    std::uint64_t superblocks = 8;
  };
  Log log;
  std::vector<std::vector<StoreBatch>> batches;  // of each thread
  [[nodiscard]] std::string describe() const;
};

/// What kind of store it is for.
struct StoreKind {
  bool log = false;  // of values
  bool leaves = false;  // are durable
  bool transactions = false;  // each thread's n-th batch is part of the n-th transaction
};
[[nodiscard]] StoreScenario make_store_scenario(std::uint64_t seed, StoreKind kind,
                                                std::uint32_t most_batches);

}  // namespace perdure::explore
