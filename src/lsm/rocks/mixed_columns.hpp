// A mixed batch taken apart, by all workers: its writes as columns of their own, its reads as keys,
// each with its place in the batch.
//
// Invariant: columns keep their shape: of fixed width where the batch's are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/entry.hpp"
#include "lsm/rocks/room.hpp"
#include "perdure/batch.h"
#include "wal/batch_record.hpp"

namespace perdure::lsm {

class MixedColumns {
 public:
  /// How many there are of a batch, before it is taken apart.
  void count(exec::Workers& workers, MixedBatch const& batch);
  [[nodiscard]] std::size_t reads() const { return all_.reads; }
  [[nodiscard]] std::size_t writes() const { return all_.writes; }
  [[nodiscard]] bool has_merges() const { return all_.merges > 0; }
  [[nodiscard]] bool has_values() const { return all_.writes > all_.erases; }
  /// Whether every kind is one that there is.
  [[nodiscard]] bool is_sane() const { return all_.unknown == 0; }

  /// After count(), of the same batch.
  void take_apart(exec::Workers& workers, MixedBatch const& batch);
  /// As long as nothing else is taken apart.
  [[nodiscard]] wal::BatchOps write_ops() const;
  [[nodiscard]] std::span<RequestId const> write_places() const { return write_places_.get(); }
  [[nodiscard]] Column read_keys() const { return read_keys_.column(); }
  [[nodiscard]] std::span<std::size_t const> read_places() const { return read_places_.get(); }
  /// Of each read, the last request before its own, where the batch's begin with `first`.
  [[nodiscard]] std::span<RequestId const> limits(exec::Workers& workers, RequestId first);

  [[nodiscard]] std::size_t bytes() const;

 private:
  /// Of the operations before a chunk's, or of all.
  struct Counts {
    std::size_t reads = 0, writes = 0, erases = 0, merges = 0, unknown = 0;
    std::size_t read_key_bytes = 0, write_key_bytes = 0, value_bytes = 0;
    void add(MixedBatch const& batch, std::size_t i);
    Counts& operator+=(Counts const& other);
  };
  /// Elements of a column, side by side.
  class Gathered {
   public:
    void begin(Column const& from, std::size_t elements, std::size_t bytes);
    /// Element i of the column becomes this element, whose bytes begin at `at`, which moves on.
    void put(Column const& from, std::size_t i, std::size_t element, std::size_t& at);
    void put_none(std::size_t element, std::size_t& at);
    [[nodiscard]] Column column() const;
    [[nodiscard]] std::size_t room() const { return bytes_.bytes() + offsets_.bytes(); }

   private:
    Room<std::byte> bytes_;
    Room<std::int64_t> offsets_;  // where elements end, behind a 0; none: they have one width
    std::size_t elements_ = 0;
    std::uint32_t width_ = 0;
  };
  void take_chunk(MixedBatch const& batch, std::size_t begin, std::size_t end, Counts at);

  Counts all_;
  std::vector<Counts> before_;  // of chunks
  Room<OpKind> kinds_;
  Room<RequestId> write_places_, limits_;
  Room<std::size_t> read_places_;
  Gathered read_keys_, write_keys_, values_;
};

}  // namespace perdure::lsm
