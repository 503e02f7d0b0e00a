// Keys that memtables leave to RocksDB (the buffer of keys not found of H-Rocks, section 6.2). They
// are asked for in their order, so that neighbours find blocks of files in the cache, and each
// once, however often it comes.
#pragma once

#include <rocksdb/db.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/counts.hpp"
#include "exec/workers.hpp"
#include "lsm/rocks/read_rooms.hpp"
#include "lsm/rocks/reader.hpp"
#include "perdure/batch.h"

namespace perdure::lsm {

class KeysBelow {
 public:
  KeysBelow(Reader& reader, exec::Workers& workers, Sight const& sight,
            rocksdb::ColumnFamilyHandle* family, Column const& keys, ReadRooms::Below& rooms)
      : reader_(reader),
        workers_(workers),
        sight_(sight),
        family_(family),
        keys_(keys),
        rooms_(rooms) {}

  /// Hears what RocksDB has; one thread's.
  class Teller {
   public:
    virtual ~Teller() = default;
    /// The question will be told of soon, or one for the same key.
    virtual void prepare(std::size_t) {}
    virtual void tell(std::size_t question, rocksdb::Status const& status,
                      rocksdb::Slice const& value) = 0;
  };
  using NewTeller = std::function<std::unique_ptr<Teller>()>;
  /// Question i is for key numbers[i] of the column; without numbers, for key i. Any thread makes a
  /// teller.
  void ask(std::size_t questions, std::span<std::size_t const> numbers, NewTeller const& teller);

 private:
  struct Batch;  // what a chunk asks at a time
  [[nodiscard]] std::size_t a_chunk(std::size_t questions) const;
  [[nodiscard]] rocksdb::Slice key(std::size_t question) const;
  [[nodiscard]] std::size_t common_prefix(std::size_t questions) const;
  void sort(std::span<exec::Sorted> order);
  [[nodiscard]] std::vector<std::size_t> borders_of(std::span<exec::Sorted const> order) const;
  void sort_same(std::span<exec::Sorted> order) const;
  void ask_chunk(std::span<exec::Sorted> order, Teller& teller);

  Reader& reader_;
  exec::Workers& workers_;
  Sight const& sight_;
  rocksdb::ColumnFamilyHandle* family_;
  Column const& keys_;
  ReadRooms::Below& rooms_;
  std::span<std::size_t const> numbers_;
  bool by_bytes_ = true;  // the family's order is that of bytes
  bool word_is_key_ = false;  // keys with one word are one key
};

}  // namespace perdure::lsm
