// Making a durable tree anew from the records that are in use, where it is damaged. Invariants: it
// is a transaction, as a batch is: a crash in its midst leaves all as it was found; of two records
// with one key the newer one stays; what leads to nothing afterwards is free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "exec/epochs.hpp"
#include "index/btree/tree.hpp"
#include "pm/heap.hpp"
#include "store/btree/btree_runs.hpp"
#include "store/btree/full/pool_nodes.hpp"

namespace perdure::full {

/// All that is in use of the heap, in its order.
inline std::vector<std::uint64_t> in_use(pm::RecordHeap const& heap) {
  std::vector<std::uint64_t> all;
  for (pm::RecordHeap::Superblock const& superblock : heap.superblocks())
    for (std::uint64_t i = 0; i < heap.shape().capacity(superblock.stride); ++i) {
      std::uint64_t const at = superblock.at + heap.shape().address(superblock.stride, i);
      if (heap.in_use(Offset{at})) all.push_back(at);
    }
  return all;
}

/// `fault_of(word)`: what is wrong with a record that is in use; null: nothing.
template <class Parts, class Host, class FaultOf>
class Repair {
 public:
  Repair(Parts& parts, Host& host, FaultOf fault_of)
      : parts_(parts), host_(host), fault_of_(fault_of) {}

  /// Puts all records that are whole into a tree that was just made. Not ok: undo it.
  Status run(std::vector<std::uint64_t> const& were_in_use, std::uint64_t& records) {
    exec::EpochGuard const guard(parts_.table.epochs());
    records = 0;
    for (std::uint64_t const at : were_in_use) {
      bool const whole = fault_of_(at) == nullptr;  // else a node, as a rule
      std::uint64_t gone = at;
      if (whole && !insert(at, gone, records)) return parts_.table.why_full();
      if (gone != 0) parts_.space.unlink({&gone, 1});
    }
    return {};
  }

 private:
  /// `gone`: the one of the two that does not stay; 0: there was one.
  bool insert(std::uint64_t at, std::uint64_t& gone, std::uint64_t& records) {
    auto const record = parts_.records.view(host_, at);
    btree::Key const key = parts_.make_key(record.key_bytes());
    std::optional<std::uint64_t> there;
    switch (parts_.table.write(host_, key, at, btree::Write::insert, there)) {
      case btree::Answer::done:
        ++records;
        gone = 0;
        return true;
      case btree::Answer::exists: break;
      default: return false;
    }
    auto const keep_newer = [&](std::uint64_t stored) {
      bool const newer =
          parts_.records.view(host_, stored).header.sequence < record.header.sequence;
      gone = newer ? stored : at;
      return newer ? at : stored;
    };
    std::uint64_t before = 0;
    return parts_.table.modify(host_, key, keep_newer, before) == btree::Answer::done;
  }

  Parts& parts_;
  Host& host_;
  FaultOf fault_of_;
};

}  // namespace perdure::full
