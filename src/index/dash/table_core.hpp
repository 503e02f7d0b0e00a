// What the parts of one of Dash's tables share: the pool and the table's words in it, how segments
// are worked on, and where segments come from. Invariants: whatever takes from the pool holds
// `memory`; `root` and `version` stay as they are once the table is made or opened.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "index/dash/damage.hpp"
#include "index/dash/layout.hpp"
#include "index/dash/touched.hpp"
#include "index/dash/whole_segment.hpp"
#include "pm/blocks.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

template <class Keys, class K>
struct TableCore {
  using Ops = WholeSegmentOps<Keys, K>;

  /// `memory` guards pool and blocks, which have `block_bytes`.
  TableCore(pm::Pool& of, Mutex& its_memory, Ops with, std::uint64_t block_bytes)
      : base(of.base()),
        ops(with),
        touched(of.addresses().size(), with.shape().bytes()),
        pool(&of),
        memory(&its_memory),
        blocks(of, its_memory, block_bytes) {}

  [[nodiscard]] Segment segment_at(std::uint64_t address) const {
    return Segment::at(base + address);
  }
  [[nodiscard]] std::uint64_t address_of(Segment s) const {
    return static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(s.header) - base);
  }
  template <class Host>
  [[nodiscard]] std::uint64_t end_at(Host& host, std::uint64_t address) const {
    SegmentHeader const* const header = segment_at(address).header;
    return end_of(host.load(&header->start), Extent{host.load(&header->extent)}.depth());
  }
  /// Its sum will be stored by the close.
  PERDURE_HOT void touch(Segment s) { touched.touch(address_of(s)); }

  void set_root(Offset index) {
    PERDURE_ASSERT(index.bytes > 0 && index.bytes + sizeof(IndexRoot) <= pool->bytes());
    root = reinterpret_cast<IndexRoot*>(base + index.bytes);
  }
  [[nodiscard]] Offset address_of_root() const {
    return Offset{static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(root) - base)};
  }
  /// Of an index that is new: the words that openings change, in one line.
  template <class Host>
  void store_root(Host& host, std::uint64_t first, std::uint64_t directory) {
    PERDURE_ASSERT(first != 0 && version != 0);
    host.store(&root->version, version);
    host.store(&root->first, first);
    host.store(&root->counted, 0);
    host.store(&root->directory, directory);
    host.persist(&root->directory, 32);
  }

  std::byte* base;  // the pool's
  Ops ops;
  Touched touched;
  std::uint64_t version = 0;  // of this opening
  IndexRoot* root = nullptr;
  pm::Pool* pool;
  Mutex* memory;
  pm::Blocks blocks;  // Extendible's segments, Linear's chained buckets
  std::atomic<std::uint64_t> splits{0};
  Damage damage;
};

}  // namespace perdure::dash
