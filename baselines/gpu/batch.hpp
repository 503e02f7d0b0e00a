// A batch as the baselines' kernels see it, and the one body that runs it: an item is an operation.
//
// An operation that finds no room stays pending; the host makes room and launches again. Records
// that an operation leaves without a word leading to them go onto a list, to be used again after
// the batch.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "base/hash.hpp"
#include "base/offset.hpp"
#include "exec/counts.hpp"
#include "perdure/batch.h"
#include "pm/memory.hpp"

namespace perdure::baselines {

using exec::Counts;

/// What the baselines' bodies count, behind what every machine counts.
struct BatchCounts {
  enum Name : std::uint32_t {
    pending = Counts::kOfMachine,  // operations that found no room
    full,  // tables that said so
    inserted,
    erased,
    kEnd
  };
};
static_assert(BatchCounts::kEnd <= Counts::kNames);

enum class Verb : std::uint8_t { get, put, update, erase };
enum class Verdict : std::uint8_t { done, absent, full };

inline constexpr std::uint8_t kPending = 0xff;  // a status nobody has decided yet

struct BatchView {
  exec::ByteColumn keys;
  exec::ByteColumn values;
  std::byte* out = nullptr;
  std::uint8_t* status = nullptr;  // KeyStatus, or kPending
  std::uint64_t const* fresh = nullptr;  // a free record for each operation that may write one
  std::uint64_t* freed = nullptr;  // records no longer led to; the first word counts them
  std::uint64_t freed_room = 0;
  std::uint32_t value_bytes = 0;
};

template <class W>
PERDURE_FN void free_record(W& warp, BatchView const& batch, Offset record) {
  warp.elect([&] {
    std::uint64_t const n = W::fetch_add(batch.freed, 1);
    if (n < batch.freed_room)
      batch.freed[1 + n] = record.bytes;  // else it is lost until the next attach
    return n;
  });
}

/// `Ops` are a design's operations: key, prefetch, get, put, update, erase.
template <class Ops, Verb kVerb>
struct OpBody {
  static constexpr int kStages = 2;
  BatchView batch;
  typename Ops::View table;

  template <class W>
  struct State {
    typename Ops::Key key;
    bool live;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t i, State<W>& s, Counts& counts) const {
    if constexpr (kStage == 0) {
      s.live = batch.status[i] == kPending;
      if (!s.live) return;
      s.key = Ops::key(batch.keys.at(i), batch.keys.width);
      Ops::prefetch(warp, mem, table, s.key);
    } else if (s.live) {
      answer(warp, i, run(warp, mem, i, s.key, counts), counts);
    }
  }

 private:
  template <class W, class M>
  PERDURE_FN Verdict run(W& warp, M& mem, std::uint64_t i, typename Ops::Key const& key,
                         Counts& counts) const {
    if constexpr (kVerb == Verb::get) {
      std::byte const* const value = Ops::get(warp, mem, table, key);
      if (value == nullptr) return Verdict::absent;
      warp.copy(batch.out + i * batch.value_bytes, value, batch.value_bytes);
      return Verdict::done;
    } else if constexpr (kVerb == Verb::put) {
      return Ops::put(warp, mem, table, batch, i, key, counts);
    } else if constexpr (kVerb == Verb::update) {
      return Ops::update(warp, mem, table, batch, i, key, counts);
    } else {
      return Ops::erase(warp, mem, table, batch, i, key, counts);
    }
  }

  template <class W>
  PERDURE_FN void answer(W& warp, std::uint64_t i, Verdict verdict, Counts& counts) const {
    if (verdict == Verdict::full) {
      ++counts[BatchCounts::pending];
      return;
    }
    if (verdict == Verdict::absent && kVerb == Verb::update)
      free_record(warp, batch, Offset{batch.fresh[i]});
    warp.elect([&] {
      batch.status[i] = static_cast<std::uint8_t>(verdict == Verdict::done ? KeyStatus::ok
                                                                           : KeyStatus::not_found);
      return std::uint64_t{0};
    });
  }
};

}  // namespace perdure::baselines
