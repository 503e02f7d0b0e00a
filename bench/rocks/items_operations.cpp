// The operations, one by one, over pairs of 8 and 8 bytes: PUT, GET, UPDATE, RANGE, DELETE.
#include <atomic>
#include <cstring>

#include "arrays.hpp"
#include "failure.hpp"
#include "items.hpp"
#include "perdure/rocks.h"

namespace perdure::bench::rocks {
namespace {

constexpr std::size_t kRange = 100;  // pairs of a range query

/// All keys in their order, so that a range can be checked to be whole.
class SortedKeys {
 public:
  SortedKeys(Pairs const& pairs, std::uint64_t records) : words_(records) {
    on_all_cores(records, [&](std::size_t i) { words_[i] = word_of(pairs, i); });
    std::sort(words_.begin(), words_.end());
  }
  [[nodiscard]] std::size_t size() const { return words_.size(); }
  void key(std::size_t i, char* to) const {
    std::uint64_t const word = __builtin_bswap64(words_[i]);
    std::memcpy(to, &word, sizeof word);
  }

 private:
  /// Numbers compare as the bytes do.
  static std::uint64_t word_of(Pairs const& pairs, std::uint64_t number) {
    std::uint64_t word = 0;
    pairs.key(number, reinterpret_cast<char*>(&word));
    return __builtin_bswap64(word);
  }
  std::vector<std::uint64_t> words_;
};

/// Reads ranges of pairs from keys on that there are, 1,000 a call.
class RangeClient : public Client {
 public:
  RangeClient(rocksdb::DB& db, Pairs const& pairs, SortedKeys const& keys, std::uint64_t ranges,
              std::uint64_t seed)
      : db_(db), pairs_(pairs), keys_(keys), left_(ranges), random_(seed) {}

  bool prepare() override {
    starts_.resize(std::min<std::uint64_t>(left_, 1000));
    for (std::size_t& each : starts_) each = below(random_, keys_.size());
    left_ -= starts_.size();
    operations_ += starts_.size();
    make_room();
    return !starts_.empty();
  }

 protected:
  virtual void make_room() = 0;

  [[nodiscard]] std::size_t pairs_of_range(std::size_t i) const {
    return std::min(kRange, keys_.size() - starts_[i]);
  }
  void check_pair(char const* key, char const* value, std::size_t position) const {
    char expected[8];
    keys_.key(position, expected);
    if (std::memcmp(key, expected, sizeof expected) != 0) throw Failure("a range leaves out a key");
    if (pairs_.version(expected, {value, 8}) != 0) throw Failure("a range has a wrong value");
  }

  rocksdb::DB& db_;
  Pairs pairs_;
  SortedKeys const& keys_;
  std::uint64_t left_;
  Random random_;
  std::vector<std::size_t> starts_;
};

/// One iterator serves a call.
class IteratorClient : public RangeClient {
 public:
  using RangeClient::RangeClient;

  void call() override {
    std::unique_ptr<rocksdb::Iterator> const iterator(db_.NewIterator({}));
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      char from[8];
      keys_.key(starts_[i], from);
      char* to = read_.data() + i * kRange * kPair;
      iterator->Seek({from, sizeof from});
      for (; counts_[i] < kRange && iterator->Valid(); ++counts_[i], to += kPair) {
        copy(iterator->key(), to);
        copy(iterator->value(), to + 8);
        iterator->Next();
      }
    }
    require(iterator->status(), "range");
  }

  void check() override {
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      if (counts_[i] != pairs_of_range(i)) throw Failure("a range has too few pairs");
      for (std::size_t k = 0; k < counts_[i]; ++k) {
        char const* const pair = read_.data() + (i * kRange + k) * kPair;
        check_pair(pair, pair + 8, starts_[i] + k);
      }
      checked_ += counts_[i];
    }
  }

 private:
  static constexpr std::size_t kPair = 16;

  void make_room() override {
    read_.resize(starts_.size() * kRange * kPair);
    counts_.assign(starts_.size(), 0);
  }
  static void copy(rocksdb::Slice const& from, char* to) {
    if (from.size() != 8) throw Failure("a key or value of a range has not 8 bytes");
    std::memcpy(to, from.data(), 8);
  }

  std::vector<char> read_;
  std::vector<std::size_t> counts_;
};

/// A call is one on arrays.
class ArrayRangeClient : public RangeClient {
 public:
  using RangeClient::RangeClient;

  void call() override {
    Column const begins{begins_.data(), nullptr, 8, starts_.size()};
    require(perdure::rocks::range(db_, db_.DefaultColumnFamily(), begins, {}, kRange, read_),
            "range arrays");
  }

  void check() override {
    std::size_t pair = 0;
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      for (std::size_t k = 0; k < pairs_of_range(i); ++k, ++pair)
        check_pair(at(read_.keys, pair), at(read_.values, pair), starts_[i] + k);
      if (pair != static_cast<std::size_t>(read_.offsets[i + 1]))
        throw Failure("a range has too few pairs");
    }
    checked_ += pair;
  }

 private:
  void make_room() override {
    begins_.resize(starts_.size() * 8);
    for (std::size_t i = 0; i < starts_.size(); ++i)
      keys_.key(starts_[i], reinterpret_cast<char*>(begins_.data() + i * 8));
  }
  static char const* at(VariableValues const& values, std::size_t i) {
    if (i + 1 >= values.offsets.size() || values.offsets[i + 1] - values.offsets[i] != 8)
      throw Failure("a key or value of a range has not 8 bytes, or is missing");
    return reinterpret_cast<char const*>(values.data.data() + values.offsets[i]);
  }

  std::vector<std::byte> begins_;
  perdure::rocks::Ranges read_;
};

/// Increments of random counters, and how often each was incremented.
class Increments {
 public:
  explicit Increments(std::uint64_t records) : counts_(records) {}

  Measured run(Options const& o, rocksdb::DB& db, Pairs const& pairs, Turn const& turn) {
    std::uint64_t const each = counts_.size() / o.threads;
    auto const clients = make_clients(o.threads, [&](std::uint32_t i) -> std::unique_ptr<Client> {
      if (turn.arrays) {
        return std::make_unique<ArrayClient>(
            db, pairs, ArrayClient::What::increment, each, turn.batch,
            [this, random = Random(o.seed + i)]() mutable { return count_one(random); });
      }
      return std::make_unique<WriteClient>(
          db, each, turn.batch,
          [this, &pairs, random = Random(o.seed + i)](rocksdb::WriteBatch& writes,
                                                      std::uint64_t n) mutable {
            for (std::uint64_t k = 0; k < n; ++k) add(writes, pairs, count_one(random));
          });
    });
    return run_clients(clients, 1e9);
  }

  /// Every counter by itself, in the order of their keys.
  void verify(rocksdb::DB& db, Pairs const& pairs) const {
    std::vector<std::pair<std::string, std::uint32_t>> expected;
    for (std::uint64_t number = 0; number < counts_.size(); ++number) {
      if (counts_[number] == 0) continue;
      std::string key(8, 0);
      pairs.key(number, key.data());
      expected.emplace_back(std::move(key), counts_[number]);
    }
    std::sort(expected.begin(), expected.end());
    std::unique_ptr<rocksdb::Iterator> const iterator(db.NewIterator({}));
    iterator->SeekToFirst();
    for (auto const& [key, count] : expected) {
      if (!iterator->Valid() || iterator->key() != key) throw Failure("a counter is missing");
      std::uint64_t counted = 0;
      if (iterator->value().size() == sizeof counted)
        std::memcpy(&counted, iterator->value().data(), sizeof counted);
      if (counted != count) throw Failure("a counter lost or gained increments");
      iterator->Next();
    }
    require(iterator->status(), "read the counters");
    if (iterator->Valid()) throw Failure("there is a counter that nobody incremented");
  }

 private:
  void add(rocksdb::WriteBatch& writes, Pairs const& pairs, std::uint64_t number) {
    std::uint64_t const one = 1;
    char key[8];
    pairs.key(number, key);
    require(writes.Merge({key, sizeof key}, {reinterpret_cast<char const*>(&one), sizeof one}),
            "add to a WriteBatch");
  }
  std::uint64_t count_one(Random& random) {
    std::uint64_t const number = below(random, counts_.size());
    ++counts_[number];
    return number;
  }

  std::vector<std::atomic<std::uint32_t>> counts_;
};

std::unique_ptr<Client> range_client(bool arrays, rocksdb::DB& db, Pairs const& pairs,
                                     SortedKeys const& keys, std::uint64_t ranges,
                                     std::uint64_t seed) {
  if (arrays) return std::make_unique<ArrayRangeClient>(db, pairs, keys, ranges, seed);
  return std::make_unique<IteratorClient>(db, pairs, keys, ranges, seed);
}

}  // namespace

/// A call a client warms a database up, at most half of the records: its buffers are there then,
/// and a GPU's kernels are loaded.
void measure_put(Context& c) {
  Pairs const pairs = pairs_of(c.o);
  Figure const figure{.item = "put", .what = "PUT of new pairs", .with_arrays = true};
  c.compare(figure, [&](Turn const& turn) {
    auto database = c.fresh(turn.system);
    std::uint64_t const before = std::min(c.o.records / 2, turn.batch * c.o.threads);
    put_records(c.o, database->db(), pairs, 0, before, turn.batch, turn.arrays);
    double const mops = put_records(c.o, database->db(), pairs, before, c.o.records - before,
                                    turn.batch, turn.arrays)
                            .mops();
    if (turn.last) c.keep_loaded(std::move(database));
    return mops;
  });
}

void measure_get(Context& c) {
  Pairs const pairs = pairs_of(c.o);
  Figure const figure{.item = "get", .what = "GET of what was just put", .with_arrays = true};
  c.compare(figure, [&](Turn const& turn) {
    return get_records(c.o, c.loaded(turn.system).db(), pairs, c.o.records, c.o.records, turn.batch,
                       c.o.threads, turn.arrays)
        .mops();
  });
}

void measure_get_half(Context& c) {
  Pairs const pairs = pairs_of(c.o);
  BothFresh databases;
  Figure const figure{
      .item = "get-half", .what = "GET, half of it in the LSM tree", .with_arrays = true};
  c.compare(figure, [&](Turn const& turn) {
    auto& database = databases[static_cast<std::size_t>(turn.system)];
    if (!database) {
      std::uint64_t const batch = loading_batch(c.o, turn.system);
      std::uint64_t const half = c.o.records / 2;
      database = c.fresh(turn.system);
      put_records(c.o, database->db(), pairs, 0, half, batch);
      database->database().compact();
      put_records(c.o, database->db(), pairs, half, c.o.records - half, batch);
    }
    return get_records(c.o, database->db(), pairs, c.o.records, c.o.records, turn.batch,
                       c.o.threads, turn.arrays)
        .mops();
  });
}

void measure_update(Context& c) {
  Pairs const pairs = pairs_of(c.o);
  Figure const figure{.item = "update", .what = "increments by Merge", .with_arrays = true};
  c.compare(figure, [&](Turn const& turn) {
    auto const database = c.fresh(turn.system, {.counters = true});
    Increments increments(c.o.records);
    double const mops = increments.run(c.o, database->db(), pairs, turn).mops();
    if (turn.last) increments.verify(database->db(), pairs);
    return mops;
  });
}

void measure_range(Context& c) {
  Pairs const pairs = pairs_of(c.o);
  SortedKeys const keys(pairs, c.o.records);
  std::uint64_t const ranges = std::max<std::uint64_t>(c.o.records, c.o.threads);
  auto const measure = [&](std::string const& what, bool arrays) {
    c.compare_alike({"range", what, "M rng/s"}, 1, 1, [&](Turn const& turn) {
      Fresh const& database = c.in_memtables(turn.system);
      auto const clients = make_clients(c.o.threads, [&](std::uint32_t i) {
        return range_client(arrays && turn.system == System::perdure, database.db(), pairs, keys,
                            ranges / c.o.threads, c.o.seed + i);
      });
      return run_clients(clients, c.o.seconds).mops();
    });
  };
  measure("RANGE of 100 pairs, 1,000 an iterator", false);
  measure("RANGE of 100 pairs, arrays of 1,000", true);
}

void measure_delete(Context& c) {
  Pairs const pairs = pairs_of(c.o);
  std::array<bool, 2> has_less{};  // from the turn before
  c.compare({"delete", "DELETE of every second pair"}, [&](Turn const& turn) {
    bool& of_system = has_less[static_cast<std::size_t>(turn.system)];
    if (std::exchange(of_system, true)) c.drop_loaded(turn.system);
    Fresh const& database = c.loaded(turn.system);
    std::uint64_t const half = c.o.records / 2;
    auto const clients = make_clients(c.o.threads, [&](std::uint32_t i) {
      std::uint64_t at = half * i / c.o.threads;
      std::uint64_t const end = half * (i + 1) / c.o.threads;
      return std::make_unique<WriteClient>(
          database.db(), end - at, turn.batch,
          [&pairs, at](rocksdb::WriteBatch& writes, std::uint64_t n) mutable {
            char key[8];
            for (std::uint64_t k = 0; k < n; ++k) {
              pairs.key(2 * at++, key);
              require(writes.Delete({key, sizeof key}), "add to a WriteBatch");
            }
          });
    });
    double const mops = run_clients(clients, 1e9).mops();
    if (turn.last) {
      verify_records(c.o, database.db(), pairs, 2 * half, [](std::uint64_t number) {
        return number % 2 == 0 ? kAbsent : std::uint64_t{0};
      });
    }
    return mops;
  });
  for (System const system : {System::rocksdb, System::perdure}) c.drop_loaded(system);
}

}  // namespace perdure::bench::rocks
