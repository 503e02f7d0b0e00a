// Mixed and long loads: sustained PUT, YCSB, sizes of pairs, sizes of memtables.
#include <atomic>
#include <chrono>
#include <memory>

#include "arrays.hpp"
#include "failure.hpp"
#include "items.hpp"

namespace perdure::bench::rocks {
namespace {

using Clock = std::chrono::steady_clock;

/// Puts random records again and again until the time is over. The batches are made before.
class SustainedClient : public Client {
 public:
  SustainedClient(Options const& o, rocksdb::DB& db, Pairs const& pairs, std::uint64_t batch,
                  std::uint64_t seed)
      : o_(o), db_(db), pairs_(pairs), batch_(batch), random_(seed) {}

  bool prepare() override {
    if (!ready_.empty()) return false;
    std::uint64_t const calls = std::max<std::uint64_t>(4, (std::uint64_t{1} << 19) / batch_);
    ready_.resize(calls);
    for (rocksdb::WriteBatch& each : ready_)
      for (std::uint64_t k = 0; k < batch_; ++k)
        add_put(each, pairs_, below(random_, o_.records), 0);
    return true;
  }

  void call() override {
    auto const begin = Clock::now();
    auto const end = begin + std::chrono::duration<double>(o_.seconds);
    auto now = begin;
    answers_.push_back(begin);
    for (std::size_t i = 0; now < end; ++i) {
      require(db_.Write({}, &ready_[i % ready_.size()]), "write");
      auto const after = Clock::now();
      latencies_.add(static_cast<std::uint64_t>((after - now).count()));
      answers_.push_back(after);
      now = after;
      operations_ += batch_;
    }
  }

  void check() override {}

  /// When calls returned.
  [[nodiscard]] std::vector<Clock::time_point> const& answers() const { return answers_; }

 private:
  Options const& o_;
  rocksdb::DB& db_;
  Pairs pairs_;
  std::uint64_t batch_;
  Random random_;
  std::vector<rocksdb::WriteBatch> ready_;
  std::vector<Clock::time_point> answers_;
};

struct Sustained {
  double mops = 0;
  double with_settling = 0;
  double longest_ms = 0;
  double longest_pause_ms = 0;
};

/// The longest time in which no client had an answer.
double longest_pause_ms(Clients const& clients) {
  std::vector<Clock::time_point> all;
  for (auto const& client : clients) {
    auto const& answers = static_cast<SustainedClient const&>(*client).answers();
    all.insert(all.end(), answers.begin(), answers.end());
  }
  std::sort(all.begin(), all.end());
  Clock::duration longest{};
  for (std::size_t i = 1; i < all.size(); ++i) longest = std::max(longest, all[i] - all[i - 1]);
  return std::chrono::duration<double, std::milli>(longest).count();
}

Sustained sustain(Context& c, Turn const& turn, Pairs const& pairs) {
  auto const database = c.fresh(turn.system);
  auto const clients = make_clients(c.o.threads, [&](std::uint32_t i) {
    return std::make_unique<SustainedClient>(c.o, database->db(), pairs, turn.batch, c.o.seed + i);
  });
  Measured const measured = run_clients(clients, 1e9);
  auto const begin = Clock::now();
  database->database().settle();
  double const settling = std::chrono::duration<double>(Clock::now() - begin).count();
  return {measured.mops(),
          static_cast<double>(measured.operations) / (measured.seconds + settling) * 1e-6,
          measured.latencies.largest() * 1e-3, longest_pause_ms(clients)};
}

/// Records of clients of YCSB, one database's: the i-th of client c of n has the number i * n + c.
using YcsbRecords = std::vector<std::uint64_t>;  // how many, of each client

struct YcsbDatabases {
  BothFresh databases;
  std::array<YcsbRecords, 2> own;
};

/// What a client of YCSB does next. Workload d reads the latest of the client's own records, so
/// that what it reads is there; the others read any record, at any version that is whole.
class YcsbRequests {
 public:
  YcsbRequests(Workload workload, Pairs const& pairs, Zipf const& zipf, std::uint64_t records,
               YcsbRecords& own, std::uint32_t client, std::uint64_t seed)
      : workload_(workload),
        pairs_(pairs),
        zipf_(zipf),
        scramble_(records),
        records_(records),
        client_(client),
        clients_(own.size()),
        own_(own[client]),
        random_(seed) {}

  ArrayMixedClient::Operation operator()() {
    double const draw = unit(random_);
    if (workload_ == Workload::d) return latest(draw < 0.05);
    double const share = workload_ == Workload::a ? 0.5 : workload_ == Workload::b ? 0.05 : 0;
    if (draw < share) return {true, below(random_, records_), ++version_};
    return {false, scramble_(zipf_(random_))};
  }
  void operator()(rocksdb::WriteBatch& writes, Reads& reads) {
    add_operation((*this)(), pairs_, writes, reads);
  }

 private:
  ArrayMixedClient::Operation latest(bool insert) {
    if (insert) return {true, own_++ * clients_ + client_, 0};
    std::uint64_t const back = std::min(zipf_(random_), own_ - 1);
    return {false, (own_ - 1 - back) * clients_ + client_};
  }

  Workload workload_;
  Pairs pairs_;
  Zipf const& zipf_;
  Scramble scramble_;
  std::uint64_t records_;
  std::uint64_t client_;
  std::uint64_t clients_;
  std::uint64_t& own_;
  std::uint64_t version_ = 0;
  Random random_;
};

Measured run_workload(Context& c, Workload workload, Pairs const& pairs, Zipf const& zipf,
                      YcsbDatabases& under, Turn const& turn) {
  auto const system = static_cast<std::size_t>(turn.system);
  rocksdb::DB& db = under.databases[system]->db();
  YcsbRecords& own = under.own[system];
  std::uint64_t const each = c.o.records / c.o.threads;
  auto const clients = make_clients(c.o.threads, [&](std::uint32_t i) -> std::unique_ptr<Client> {
    YcsbRequests requests(workload, pairs, zipf, each * c.o.threads, own, i,
                          mix(c.o.seed + turn.repeat) + i);
    if (turn.arrays)
      return std::make_unique<ArrayMixedClient>(db, pairs, each, turn.batch, requests);
    return std::make_unique<MixedClient>(db, pairs, each, turn.batch, requests);
  });
  return run_clients(clients, c.o.seconds);
}

void measure_workload(Context& c, Workload workload, Pairs const& pairs, YcsbDatabases& under) {
  std::uint64_t const each = c.o.records / c.o.threads;
  std::uint64_t const records = each * c.o.threads;
  Zipf const zipf(workload == Workload::d ? each : records, 0.99);
  std::string const label(1, static_cast<char>(name(workload)[0] - 'a' + 'A'));
  Figure const figure{.item = "ycsb",
                      .what = "YCSB " + label + ", 16+100 bytes, Zipf 0.99",
                      .with_arrays = true,
                      .at = label};
  c.compare(figure, [&](Turn const& turn) {
    auto const system = static_cast<std::size_t>(turn.system);
    auto& database = under.databases[system];
    if (!database) {
      database = c.fresh(turn.system);
      under.own[system].assign(c.o.threads, each);
      put_records(c.o, database->db(), pairs, 0, records, loading_batch(c.o, turn.system));
      run_workload(c, workload, pairs, zipf, under, turn);  // caches as they are in the long run
    }
    wait_until_idle(under.databases);
    double const mops = run_workload(c, workload, pairs, zipf, under, turn).mops();
    if (turn.last) {
      verify_records(c.o, database->db(), pairs, records,
                     [](std::uint64_t) { return kAnyVersion; });
    }
    return mops;
  });
}

}  // namespace

void measure_sustained(Context& c) {
  Pairs const pairs = pairs_of(c.o, 16, 100);
  std::array<std::vector<Sustained>, 2> runs;
  std::uint64_t const batch = c.o.largest_batch();
  std::string const calls = grouped(c.o.rocksdb_batch) + " and " + grouped(batch);
  Figure figure{"sustained", "PUT of 16+100 bytes, calls of " + calls};
  c.compare_alike(figure, c.o.rocksdb_batch, batch, [&](Turn const& turn) {
    auto& of_system = runs[static_cast<std::size_t>(turn.system)];
    of_system.push_back(sustain(c, turn, pairs));
    return of_system.back().mops;
  });
  auto const add = [&](std::string const& what, std::string const& unit, Better better,
                       double Sustained::* member) {
    Row row{.item = "sustained", .what = what, .unit = unit, .better = better};
    for (Sustained const& each : runs[0]) row.rocksdb.push_back(each.*member);
    for (Sustained const& each : runs[1]) row.perdure.push_back(each.*member);
    c.report.add(std::move(row));
  };
  add("the same until all is compacted", "M ops/s", Better::more, &Sustained::with_settling);
  add("longest call", "ms", Better::less, &Sustained::longest_ms);
  add("longest time without an answer to anybody", "ms", Better::less,
      &Sustained::longest_pause_ms);
}

void measure_ycsb(Context& c) {
  Pairs const pairs = pairs_of(c.o, 16, 100);
  YcsbDatabases databases;
  for (std::string const& each : c.o.workloads)
    measure_workload(c, workload_named(each), pairs, databases);
}

void measure_sizes(Context& c) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;
  constexpr std::array<std::array<std::uint32_t, 2>, 5> kSizes{
      {{8, 8}, {16, 128}, {32, 256}, {64, 512}, {128, 1024}}};
  for (auto const& [key_bytes, value_bytes] : kSizes) {
    Pairs const pairs = pairs_of(c.o, key_bytes, value_bytes);
    std::uint64_t const records = std::min(c.o.records, kMostBytes / pairs.pair_bytes());
    std::string const label = std::to_string(key_bytes) + "+" + std::to_string(value_bytes);
    std::uint64_t const batch = c.o.largest_batch();
    BothFresh databases;
    c.compare_alike({.item = "sizes", .what = "PUT of " + label + " bytes", .at = label},
                    c.o.rocksdb_batch, batch, [&](Turn const& turn) {
                      auto& database = databases[static_cast<std::size_t>(turn.system)];
                      database.reset();
                      database = c.fresh(turn.system);
                      return put_records(c.o, database->db(), pairs, 0, records, turn.batch).mops();
                    });
    c.compare_alike({.item = "sizes", .what = "GET of " + label + " bytes", .at = label},
                    c.o.rocksdb_batch, batch, [&](Turn const& turn) {
                      auto& database = databases[static_cast<std::size_t>(turn.system)];
                      return get_records(c.o, database->db(), pairs, records, records, turn.batch,
                                         c.o.threads)
                          .mops();
                    });
  }
}

void measure_memtables(Context& c) {
  // A pair of 8 and 8 bytes takes about this much of a memtable of RocksDB.
  constexpr std::uint64_t kEntryBytes = 64;
  Pairs const pairs = pairs_of(c.o);
  for (std::uint64_t const mib : c.o.memtables) {
    std::uint64_t const records = (mib << 20) / kEntryBytes;
    Figure const figure{.item = "memtables",
                        .what = grouped(records) + " pairs, " + grouped(mib) + " MiB",
                        .unit = "us/get",
                        .better = Better::less,
                        .at = std::to_string(mib)};
    BothFresh databases;
    c.compare_alike(figure, c.o.rocksdb_batch, c.o.largest_batch(), [&](Turn const& turn) {
      auto& database = databases[static_cast<std::size_t>(turn.system)];
      if (!database) {
        database = c.fresh(turn.system, {.memtable_mib = 2 * mib});
        put_records(c.o, database->db(), pairs, 0, records, loading_batch(c.o, turn.system));
      }
      return 1 / get_records(c.o, database->db(), pairs, records, records, turn.batch, 1).mops();
    });
  }
}

}  // namespace perdure::bench::rocks
