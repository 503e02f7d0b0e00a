// The headers by which superblocks say on the medium that they are the record heap's, and how long
// their records are. Invariant: whoever says so whole, and is taken for free by the pool, is the
// heap's; whoever says so in part is nobody's, until it is mended.
#pragma once

#include <cstdint>
#include <vector>

#include "base/offset.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool.hpp"
#include "pm/record_shape.hpp"

namespace perdure::pm {

class HeapHeaders {
 public:
  explicit HeapHeaders(Pool& pool) : pool_(&pool), shape_(pool.header()) {}

  /// f(index, stride) for each superblock that the pool takes for free and that says it is of this
  /// heap.
  template <class F>
  void for_each_found(F f) const {
    for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
      SuperblockHeader const header = read(at(i));
      if (is_ours(header) && pool_->is_free(at(i))) f(i, header.record_bytes);
    }
  }
  /// Whether a record of `stride` bytes may begin there, by the header of its superblock.
  [[nodiscard]] bool has_record(Offset record, std::uint64_t stride) const;
  /// How many bytes a record that begins there has, by that header; 0: none does.
  [[nodiscard]] std::uint64_t room(Offset record) const;
  void write(Offset superblock, std::uint64_t stride) const;

  /// Headers that one or two flipped bits keep from being those of superblocks of this heap.
  /// Changes nothing; mend() does, before the heap finds its superblocks.
  struct Mend {
    Offset at;
    SuperblockHeader header;
  };
  [[nodiscard]] std::vector<Mend> damaged() const;
  void mend(std::vector<Mend> const& headers) const;
  /// Of a pool of index btree: superblocks that have a header, and neither one of this heap nor one
  /// of blocks, so that it is damaged.
  [[nodiscard]] std::vector<Offset> broken() const;
  /// Keeps superblocks whose header is damaged, though not all of it, from everybody.
  void keep_damaged() const;

 private:
  [[nodiscard]] Offset at(std::uint64_t index) const {
    return Offset{index * pool_->superblock_bytes()};
  }
  [[nodiscard]] SuperblockHeader read(Offset superblock) const;
  [[nodiscard]] bool is_ours(SuperblockHeader const& header) const;
  [[nodiscard]] bool mended(SuperblockHeader& header) const;

  Pool* pool_;
  RecordShape shape_;
};

}  // namespace perdure::pm
