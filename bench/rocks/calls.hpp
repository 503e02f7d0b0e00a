// Clients that call a database in one way each, with requests that somebody else chooses.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/write_batch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "clients.hpp"
#include "pairs.hpp"

namespace perdure::bench::rocks {

/// A version that a value may have: none for what is to be absent.
inline constexpr std::uint64_t kAnyVersion = ~std::uint64_t{0};
inline constexpr std::uint64_t kAbsent = kAnyVersion - 1;

/// The keys of one MultiGet and its answers.
class Reads {
 public:
  Reads(Pairs const& pairs, std::size_t capacity);
  void clear() { versions_.clear(); }
  /// A record that has to be there at that version.
  void add(std::uint64_t number, std::uint64_t version);
  void call(rocksdb::DB& db, rocksdb::ReadOptions const& options = {});
  /// What a transaction sees.
  void call(rocksdb::Transaction& transaction, rocksdb::ColumnFamilyHandle* family);
  /// The first key alone, by Get.
  void call_one(rocksdb::DB& db);
  /// How many were right; throws Failure where one was not.
  std::uint64_t check();
  [[nodiscard]] std::size_t count() const { return versions_.size(); }

 private:
  Pairs pairs_;
  std::vector<char> keys_;
  std::vector<rocksdb::Slice> slices_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
  std::vector<std::uint64_t> versions_;
};

/// Operations that a client has ready before the clock runs: as many calls as that takes, at least.
constexpr std::uint64_t kRoundOperations = std::uint64_t{1} << 16;
/// Calls of a round.
[[nodiscard]] std::uint64_t calls_of_round(std::uint64_t batch);

/// Writes `operations` in batches.
class WriteClient : public Client {
 public:
  /// Adds the next `count` operations to a batch.
  using Fill = std::function<void(rocksdb::WriteBatch& batch, std::uint64_t count)>;
  WriteClient(rocksdb::DB& db, std::uint64_t operations, std::uint64_t batch, Fill fill);
  bool prepare() override;
  void call() override;
  void check() override {}

 private:
  rocksdb::DB& db_;
  std::uint64_t left_;
  std::uint64_t batch_;
  Fill fill_;
  std::vector<rocksdb::WriteBatch> ready_;
};

/// The record that a get is to read, and its version.
struct Expected {
  std::uint64_t number = 0;
  std::uint64_t version = 0;
};

/// Reads `operations` by MultiGet.
class GetClient : public Client {
 public:
  using Next = std::function<Expected()>;
  GetClient(rocksdb::DB& db, Pairs const& pairs, std::uint64_t operations, std::uint64_t batch,
            Next next);
  bool prepare() override;
  void call() override;
  void check() override;

 private:
  rocksdb::DB& db_;
  Pairs pairs_;
  std::uint64_t left_;
  std::uint64_t batch_;
  Next next_;
  std::vector<Reads> reads_;
  std::size_t ready_ = 0;
};

/// Writes and reads, of which each call takes the next `batch`: first it writes, then it reads.
class MixedClient : public Client {
 public:
  /// Adds one operation to either.
  using Next = std::function<void(rocksdb::WriteBatch& batch, Reads& reads)>;
  MixedClient(rocksdb::DB& db, Pairs const& pairs, std::uint64_t operations, std::uint64_t batch,
              Next next);
  bool prepare() override;
  void call() override;
  void check() override;

 private:
  rocksdb::DB& db_;
  Pairs pairs_;
  std::uint64_t left_;
  std::uint64_t batch_;
  Next next_;
  struct Ready {
    rocksdb::WriteBatch writes;
    Reads reads;
  };
  std::vector<Ready> calls_;
  std::size_t ready_ = 0;
};

/// Adds a put of the record's version to a batch.
void add_put(rocksdb::WriteBatch& batch, Pairs const& pairs, std::uint64_t number,
             std::uint64_t version);

}  // namespace perdure::bench::rocks
