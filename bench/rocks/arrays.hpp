// Perdure's calls on arrays (perdure/rocks.h), where no WriteBatch is made and no slice: clients
// that put and get as those of calls.hpp do.
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

/// Records by `next`, each at version 0.
class ArrayClient : public Client {
 public:
  using Next = std::function<std::uint64_t()>;
  enum class What : std::uint8_t { put, get };
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

}  // namespace perdure::bench::rocks
