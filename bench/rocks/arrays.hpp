// Perdure's calls on arrays (perdure/rocks.h), where no WriteBatch is made and no slice: clients
// that do what those of calls.hpp do.
#pragma once

#include <rocksdb/db.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "clients.hpp"
#include "pairs.hpp"
#include "perdure/batch.h"

namespace perdure::bench::rocks {

/// Records by `next`, each at version 0; or counters by `next`, which it adds one to.
class ArrayClient : public Client {
 public:
  using Next = std::function<std::uint64_t()>;
  enum class What : std::uint8_t { put, get, increment };
  ArrayClient(rocksdb::DB& db, Pairs const& pairs, What what, std::uint64_t operations,
              std::uint64_t batch, Next next);
  bool prepare() override;
  void call() override;
  void check() override;

 private:
  struct Arrays {
    std::size_t count = 0;
    std::vector<std::byte> keys;
    std::vector<std::byte> values;
    std::vector<KeyStatus> statuses;
  };
  void fill(Arrays& arrays, std::size_t count);
  void call(Arrays& arrays);

  rocksdb::DB& db_;
  Pairs pairs_;
  What what_;
  std::uint64_t left_;
  std::uint64_t batch_;
  Next next_;
  std::vector<Arrays> arrays_;
  std::size_t ready_ = 0;
};

/// Writes and reads, of which each call applies the next `batch` in their order, as one.
class ArrayMixedClient : public Client {
 public:
  struct Operation {
    bool put = false;
    std::uint64_t number = 0;
    std::uint64_t version = 0;  // of a put
  };
  using Next = std::function<Operation()>;
  ArrayMixedClient(rocksdb::DB& db, Pairs const& pairs, std::uint64_t operations,
                   std::uint64_t batch, Next next);
  bool prepare() override;
  void call() override;
  void check() override;

 private:
  struct Arrays {
    std::vector<OpKind> kinds;
    std::vector<std::byte> keys;
    std::vector<std::byte> values;
    std::vector<std::byte> found;
    std::vector<KeyStatus> statuses;
  };
  void fill(Arrays& arrays, std::size_t count);
  void call(Arrays& arrays);
  void check(Arrays const& arrays, std::size_t i) const;

  rocksdb::DB& db_;
  Pairs pairs_;
  std::uint64_t left_;
  std::uint64_t batch_;
  Next next_;
  std::vector<Arrays> arrays_;
  std::size_t ready_ = 0;
};

}  // namespace perdure::bench::rocks
