// Perdure's calls on arrays (perdure/rocks.h), where no WriteBatch is made and no slice: clients
// that do what those of calls.hpp do.
#pragma once

#include <rocksdb/db.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "calls.hpp"
#include "clients.hpp"
#include "pairs.hpp"
#include "perdure/batch.h"

namespace perdure::bench::rocks {

/// Calls on arrays that are filled before the clock runs, a round of them at a time.
template <class Arrays>
class ArrayRounds : public Client {
 public:
  ArrayRounds(rocksdb::DB& db, Pairs const& pairs, std::uint64_t operations, std::uint64_t batch)
      : db_(db), pairs_(pairs), left_(operations), batch_(batch) {}
  bool prepare() final {
    ready_ = std::min(calls_of_round(batch_), (left_ + batch_ - 1) / batch_);
    if (arrays_.size() < ready_) arrays_.resize(ready_);
    for (std::size_t i = 0; i < ready_; ++i) {
      std::uint64_t const count = std::min(batch_, left_);
      fill(arrays_[i], count);
      left_ -= count;
      operations_ += count;
    }
    return ready_ > 0;
  }
  void call() final {
    for (std::size_t i = 0; i < ready_; ++i) {
      auto const begin = std::chrono::steady_clock::now();
      call(arrays_[i]);
      auto const took = std::chrono::steady_clock::now() - begin;
      latencies_.add(static_cast<std::uint64_t>(took.count()));
    }
  }
  void check() final {
    for (std::size_t i = 0; i < ready_; ++i) checked_ += check(arrays_[i]);
  }

 protected:
  virtual void fill(Arrays& arrays, std::size_t count) = 0;
  virtual void call(Arrays& arrays) = 0;
  /// How many answers were right; throws Failure where one was not.
  virtual std::uint64_t check(Arrays const& arrays) const = 0;

  rocksdb::DB& db_;
  Pairs pairs_;

 private:
  std::uint64_t left_;
  std::uint64_t batch_;
  std::vector<Arrays> arrays_;
  std::size_t ready_ = 0;
};

struct PairArrays {
  std::size_t count = 0;
  std::vector<std::byte> keys;
  std::vector<std::byte> values;
  std::vector<KeyStatus> statuses;
};

enum class ArrayCall : std::uint8_t { put, get, increment };
/// The arrays of a call: records by `next`, each at version 0; or counters, of which one is added.
void fill(PairArrays& arrays, Pairs const& pairs, ArrayCall what, std::size_t count,
          std::function<std::uint64_t()> const& next);
/// Of a get. How many answers were right; throws Failure where one was not.
std::uint64_t check(PairArrays const& arrays, Pairs const& pairs);

/// Records by `next`, each at version 0; or counters by `next`, which it adds one to.
class ArrayClient : public ArrayRounds<PairArrays> {
 public:
  using Next = std::function<std::uint64_t()>;
  using What = ArrayCall;
  ArrayClient(rocksdb::DB& db, Pairs const& pairs, What what, std::uint64_t operations,
              std::uint64_t batch, Next next);

 private:
  void fill(PairArrays& arrays, std::size_t count) override;
  void call(PairArrays& arrays) override;
  std::uint64_t check(PairArrays const& arrays) const override;

  What what_;
  Next next_;
};

struct MixedArrays {
  std::vector<OpKind> kinds;
  std::vector<std::byte> keys;
  std::vector<std::byte> values;
  std::vector<std::byte> found;
  std::vector<KeyStatus> statuses;
};

/// Writes and reads, of which each call applies the next `batch` in their order, as one.
class ArrayMixedClient : public ArrayRounds<MixedArrays> {
 public:
  struct Operation {
    bool put = false;
    std::uint64_t number = 0;
    std::uint64_t version = 0;  // of a put
  };
  using Next = std::function<Operation()>;
  ArrayMixedClient(rocksdb::DB& db, Pairs const& pairs, std::uint64_t operations,
                   std::uint64_t batch, Next next);

 private:
  void fill(MixedArrays& arrays, std::size_t count) override;
  void call(MixedArrays& arrays) override;
  std::uint64_t check(MixedArrays const& arrays) const override;
  void check(MixedArrays const& arrays, std::size_t i) const;

  Next next_;
};

/// The operation in a call of slices: a put into a WriteBatch, or a read of any version.
inline void add_operation(ArrayMixedClient::Operation const& next, Pairs const& pairs,
                          rocksdb::WriteBatch& writes, Reads& reads) {
  if (next.put)
    add_put(writes, pairs, next.number, next.version);
  else
    reads.add(next.number, kAnyVersion);
}

}  // namespace perdure::bench::rocks
