// What a store's life on a disk consists of: writes, batches and the steps of a script, drawn from
// a seed, and what they make of the contents. Invariant: each write has a value of its own, which
// says of which batch it is, so that whatever is found can be traced to it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "perdure/store.h"

namespace perdure::wal::test {

/// Keys, and which write each value is of: each write has a number of its own.
using Contents = std::map<std::uint64_t, std::uint64_t>;

struct Write {
  OpKind kind = OpKind::put;
  std::uint64_t key = 0;
  std::uint64_t value = 0;
};
using Writes = std::vector<Write>;

struct Step {
  enum class What : std::uint8_t {
    batch,
    atomic,
    transaction,
    aborted,
    snapshot,
    reopen,
    restore,
    recreate
  };
  What what = What::batch;
  std::vector<Writes> batches = {};
};

struct Script {
  std::uint32_t value_bytes = 8;
  std::vector<Step> steps;
};

inline Writes some_writes(std::mt19937_64& random, std::uint64_t batch, std::size_t most,
                          std::uint64_t keys) {
  Writes writes(1 + random() % most);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    OpKind const kind = std::array{OpKind::put, OpKind::put, OpKind::put, OpKind::erase,
                                   OpKind::update}[random() % 5];
    writes[i] = {kind, random() % keys, batch * 1000 + i};
  }
  return writes;
}

/// A step that writes: the `batch`-th of its script.
inline Step writing(Step::What what, std::mt19937_64& random, std::uint64_t batch) {
  Step step{what, {some_writes(random, batch, 6, 6)}};
  if (what == Step::What::transaction || what == Step::What::aborted)
    step.batches.push_back(some_writes(random, batch, 3, 6));
  return step;
}

/// A bit of everything but checkpoints before the store is closed.
inline Script short_script(std::uint64_t seed) {
  using What = Step::What;
  std::mt19937_64 random(seed);
  Script s;
  s.value_bytes = 1024;  // batches of several sectors, and of several blocks
  std::uint64_t batch = 0;
  for (What const what : {What::batch, What::atomic, What::transaction, What::aborted,
                          What::snapshot, What::batch, What::reopen, What::batch, What::snapshot}) {
    bool const writes = what != What::snapshot && what != What::reopen;
    s.steps.push_back(writes ? writing(what, random, ++batch) : Step{what});
  }
  return s;
}

/// Batches that fill the log, so that checkpoints make room in it; one is larger than all of it.
inline Script long_script(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Script s;
  s.value_bytes = 2048;
  std::uint64_t const large = 3 + random() % 6;
  for (std::uint64_t batch = 1; batch <= 12; ++batch) {
    Writes writes;
    for (std::uint64_t i = 0; i < (batch == large ? 560u : 70u); ++i)
      writes.push_back({i % 9 == 8 ? OpKind::erase : OpKind::put,
                        random() % (batch == large ? 600 : 90), batch * 1000 + i});
    s.steps.push_back({Step::What::batch, {writes}});
    if (batch == 6) s.steps.push_back({Step::What::reopen});
  }
  return s;
}

/// Batches that bring checkpoints all the time, which are copied beside them: of a log some make up
/// a seventh, and some so much that they are logged while they are executed.
inline Script checkpoints_script(std::uint64_t seed, std::uint64_t batches = 24) {
  std::mt19937_64 random(seed);
  Script s;
  s.value_bytes = 2048;
  for (std::uint64_t batch = 1; batch <= batches; ++batch) {
    Writes writes;
    std::uint64_t const n = random() % 3 == 0 ? 160 : 70;
    for (std::uint64_t i = 0; i < n; ++i) {
      OpKind const kind = std::array{OpKind::put, OpKind::put, OpKind::put, OpKind::erase,
                                     OpKind::update}[random() % 5];
      writes.push_back({kind, random() % 200, batch * 1000 + i});
    }
    s.steps.push_back({Step::What::batch, {writes}});
  }
  return s;
}

/// Pools that are made from snapshots, and in place of others.
inline Script renewing_script(std::uint64_t seed) {
  using What = Step::What;
  std::mt19937_64 random(seed);
  Script s;
  std::uint64_t batch = 0;
  for (What const what : {What::batch, What::snapshot, What::batch, What::restore, What::batch,
                          What::recreate, What::batch}) {
    bool const writes = what == What::batch;
    s.steps.push_back(writes ? writing(what, random, ++batch) : Step{what});
  }
  return s;
}

inline void take_effect(Writes const& batch, Contents& contents) {
  for (Write const& w : batch) {
    if (w.kind == OpKind::erase) contents.erase(w.key);
    if (w.kind == OpKind::put || (w.kind == OpKind::update && contents.contains(w.key)))
      contents[w.key] = w.value;
  }
}

}  // namespace perdure::wal::test
