// Transactions of half gets and half puts, of a thousand to millions of operations each: as a
// rocksdb::TransactionDB has them, and, for those who have no conflicts to fear, as a snapshot with
// one batch, or as one mixed batch on arrays.
#include <rocksdb/utilities/transaction_db.h>

#include <memory>

#include "arrays.hpp"
#include "failure.hpp"
#include "items.hpp"

namespace perdure::bench::rocks {
namespace {

/// A client reads any record and writes records of its own alone, so that nobody waits for a lock.
class TransactionClient : public Client {
 public:
  struct Place {
    std::uint64_t client = 0;
    std::uint64_t clients = 1;
  };
  TransactionClient(Fresh const& database, Pairs const& pairs, std::uint64_t records,
                    std::uint64_t transactions, std::uint64_t size, Place place, std::uint64_t seed)
      : db_(database.db()),
        pairs_(pairs),
        records_(records),
        left_(transactions),
        half_(size / 2),
        place_(place),
        random_(seed),
        reads_(pairs, half_) {}

  bool prepare() override {
    if (left_ == 0) return false;
    --left_;
    operations_ += 2 * half_;
    reads_.clear();
    for (std::uint64_t k = 0; k < half_; ++k) reads_.add(below(random_, records_), kAnyVersion);
    prepare_writes();
    return true;
  }

  void check() override { checked_ += reads_.check(); }

 protected:
  virtual void prepare_writes() = 0;

  std::uint64_t own_record() {
    return below(random_, records_ / place_.clients) * place_.clients + place_.client;
  }

  rocksdb::DB& db_;
  Pairs pairs_;
  std::uint64_t records_;
  std::uint64_t left_;
  std::uint64_t half_;
  Place place_;
  Random random_;
  Reads reads_;
};

class BatchClient : public TransactionClient {
 public:
  using TransactionClient::TransactionClient;

  void call() override {
    rocksdb::ReadOptions options;
    options.snapshot = db_.GetSnapshot();
    reads_.call(db_, options);
    db_.ReleaseSnapshot(options.snapshot);
    require(db_.Write({}, &writes_), "write");
  }

 private:
  void prepare_writes() override {
    writes_.Clear();
    for (std::uint64_t k = 0; k < half_; ++k) add_put(writes_, pairs_, own_record(), left_);
  }
  rocksdb::WriteBatch writes_;
};

class LockingClient : public TransactionClient {
 public:
  using TransactionClient::TransactionClient;

  void call() override {
    auto& db = static_cast<rocksdb::TransactionDB&>(db_);
    std::unique_ptr<rocksdb::Transaction> const transaction(db.BeginTransaction({}));
    reads_.call(*transaction, db.DefaultColumnFamily());
    std::uint32_t const key = pairs_.key_bytes();
    for (std::size_t at = 0; at < writes_.size(); at += pairs_.pair_bytes()) {
      require(transaction->Put({writes_.data() + at, key},
                               {writes_.data() + at + key, pairs_.value_bytes()}),
              "put in a transaction");
    }
    require(transaction->Commit(), "commit");
  }

 private:
  void prepare_writes() override {
    writes_.resize(half_ * pairs_.pair_bytes());
    for (std::size_t at = 0; at < writes_.size(); at += pairs_.pair_bytes()) {
      pairs_.key(own_record(), writes_.data() + at);
      pairs_.value(writes_.data() + at, left_, writes_.data() + at + pairs_.key_bytes());
    }
  }
  std::vector<char> writes_;
};

enum class Way : std::uint8_t { locking, batch, arrays };

/// What clients share.
struct Transactions {
  Fresh const& database;
  Pairs pairs;
  std::uint64_t records;
  std::uint64_t size;  // operations each
  std::uint64_t each;  // transactions a client
};

/// A get of any record, a put of one's own, and so on: one transaction a call.
std::unique_ptr<Client> array_client(Transactions const& of, TransactionClient::Place place,
                                     std::uint64_t seed) {
  auto const next = [records = of.records, place, random = Random(seed),
                     n = std::uint64_t{0}]() mutable -> ArrayMixedClient::Operation {
    if (++n % 2 == 1) return {false, below(random, records)};
    return {true, below(random, records / place.clients) * place.clients + place.client, n};
  };
  return std::make_unique<ArrayMixedClient>(of.database.db(), of.pairs, of.size * of.each, of.size,
                                            next);
}

std::unique_ptr<Client> client(Way way, Transactions const& of, TransactionClient::Place place,
                               std::uint64_t seed) {
  if (way == Way::arrays) return array_client(of, place, seed);
  if (way == Way::batch) {
    return std::make_unique<BatchClient>(of.database, of.pairs, of.records, of.each, of.size, place,
                                         seed);
  }
  return std::make_unique<LockingClient>(of.database, of.pairs, of.records, of.each, of.size, place,
                                         seed);
}

/// RocksDB has no mixed batches, so it has snapshot and batch for them.
void compare_transactions(Context& c, std::string const& what, Way way) {
  Pairs const pairs = pairs_of(c.o);
  BothFresh databases;
  for (std::uint64_t const size : c.o.transactions) {
    if (size > c.o.records) continue;
    auto const count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(c.o.threads, c.o.records / size));
    Figure const figure{.item = "transactions",
                        .what = what + ", " + grouped(size) + " operations each",
                        .at = std::to_string(size)};
    c.compare_alike(figure, size, size, [&](Turn const& turn) {
      auto& database = databases[static_cast<std::size_t>(turn.system)];
      if (!database) {
        database = c.fresh(turn.system, {.transactions = way == Way::locking});
        put_records(c.o, database->db(), pairs, 0, c.o.records, loading_batch(c.o, turn.system));
      }
      wait_until_idle(databases);
      bool const rocksdb = turn.system == System::rocksdb;
      Transactions const of{*database, pairs, c.o.records, size, c.o.records / size / count};
      auto const clients = make_clients(count, [&](std::uint32_t i) {
        return client(rocksdb && way == Way::arrays ? Way::batch : way, of, {i, count},
                      c.o.seed + i);
      });
      return run_clients(clients, c.o.seconds).mops();
    });
  }
}

}  // namespace

void measure_transactions(Context& c) {
  compare_transactions(c, "TransactionDB", Way::locking);
  compare_transactions(c, "snapshot and batch", Way::batch);
  compare_transactions(c, "one mixed batch", Way::arrays);
}

}  // namespace perdure::bench::rocks
