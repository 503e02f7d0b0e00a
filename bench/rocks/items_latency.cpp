// How long one operation takes: at the rate at which operations arrive, and alone.
//
// Invariant: operations arrive when they would have, whether the system keeps up or not (an open
// loop), and each one's latency runs from then on. A client hands over all that have arrived, so a
// system that lags gets larger batches.
#include <chrono>
#include <cmath>
#include <thread>

#include "failure.hpp"
#include "items.hpp"

namespace perdure::bench::rocks {
namespace {

using Clock = std::chrono::steady_clock;

struct Arrivals {
  double rate = 0;  // operations a second, of this client
  double seconds = 0;
  std::uint64_t most = 0;  // operations a call
  bool puts = false;
};

class ArrivalClient : public Client {
 public:
  ArrivalClient(rocksdb::DB& db, Pairs const& pairs, std::uint64_t records, Arrivals arrivals,
                std::uint64_t seed)
      : db_(db),
        pairs_(pairs),
        records_(records),
        arrivals_(arrivals),
        random_(seed),
        reads_(pairs, arrivals.most) {}

  bool prepare() override { return std::exchange(first_, false); }

  /// A system that does not keep up is given twice the time.
  void call() override {
    double const total = arrivals_.rate * arrivals_.seconds;
    auto const begin = Clock::now();
    double now = 0;
    advance();
    while (static_cast<double>(operations_) < total && now < 2 * arrivals_.seconds) {
      now = wait_for_arrival(begin);
      due_.clear();
      for (; next_ <= now && due_.size() < arrivals_.most; advance()) due_.push_back(next_);
      serve();
      now = since(begin);
      for (double const each : due_) latencies_.add(static_cast<std::uint64_t>((now - each) * 1e9));
      operations_ += due_.size();
    }
  }

  void check() override {}

 private:
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  /// To the next arrival: the time between two is exponentially distributed.
  void advance() { next_ -= std::log1p(-unit(random_)) / arrivals_.rate; }

  /// The last of a wait is spun, for a thread that sleeps wakes too late.
  double wait_for_arrival(Clock::time_point begin) const {
    constexpr double kSpun = 100e-6;
    double now = since(begin);
    if (next_ - now > kSpun)
      std::this_thread::sleep_for(std::chrono::duration<double>(next_ - now - kSpun));
    while (now < next_) now = since(begin);
    return now;
  }

  void serve() {
    writes_.Clear();
    reads_.clear();
    for (std::size_t i = 0; i < due_.size(); ++i) {
      std::uint64_t const number = below(random_, records_);
      if (arrivals_.puts) {
        add_put(writes_, pairs_, number, 0);
      } else {
        reads_.add(number, 0);
      }
    }
    if (arrivals_.puts) return require(db_.Write({}, &writes_), "write");
    if (due_.size() == 1) {
      reads_.call_one(db_);
    } else {
      reads_.call(db_);
    }
    checked_ += reads_.check();
  }

  rocksdb::DB& db_;
  Pairs pairs_;
  std::uint64_t records_;
  Arrivals arrivals_;
  Random random_;
  bool first_ = true;
  double next_ = 0;  // seconds from the beginning
  std::vector<double> due_;
  rocksdb::WriteBatch writes_;
  Reads reads_;
};

struct Latency {
  double median_us = 0;
  double p99_us = 0;
  double mops = 0;
};

Latency latency_of(Options const& o, rocksdb::DB& db, std::uint64_t records, double rate,
                   std::uint64_t batch, std::uint32_t clients, bool puts) {
  Pairs const pairs = pairs_of(o);
  Arrivals const arrivals{rate / clients, o.seconds / 8, batch, puts};
  auto const all = make_clients(clients, [&](std::uint32_t i) {
    return std::make_unique<ArrivalClient>(db, pairs, records, arrivals, o.seed + i);
  });
  Measured const measured = run_clients(all, 1e9);
  return {measured.latencies.percentile(0.5), measured.latencies.percentile(0.99), measured.mops()};
}

/// Rows of the median, the 99th percentile and, where it says something, the rate that was kept.
void compare_latency(Context& c, Figure figure, std::uint64_t rocksdb_batch,
                     std::uint64_t perdure_batch, bool with_rate,
                     std::function<Latency(Turn const&)> const& measure) {
  std::array<std::vector<Latency>, 2> all;
  std::string const what = figure.what;
  figure.what += ": median";
  figure.unit = "us";
  figure.better = Better::less;
  c.compare_alike(figure, rocksdb_batch, perdure_batch, [&](Turn const& turn) {
    auto& of_system = all[static_cast<std::size_t>(turn.system)];
    of_system.push_back(measure(turn));
    return of_system.back().median_us;
  });
  auto const add = [&](std::string const& part, std::string const& unit, Better better,
                       double Latency::* member) {
    Row row{.item = figure.item, .what = what + part, .unit = unit, .better = better};
    row.at = figure.at;
    for (Latency const& each : all[0]) row.rocksdb.push_back(each.*member);
    for (Latency const& each : all[1]) row.perdure.push_back(each.*member);
    c.report.add(std::move(row));
  };
  add(": p99", "us", Better::less, &Latency::p99_us);
  if (with_rate) add(": served", "M ops/s", Better::more, &Latency::mops);
}

constexpr std::uint64_t kMostRecords = 1'000'000;

}  // namespace

void measure_rates(Context& c) {
  std::uint64_t const records = std::min(c.o.records, kMostRecords);
  std::uint32_t const clients = std::max(1u, c.o.threads / 2);
  BothFresh databases;
  for (bool const puts : {true, false}) {
    for (std::uint64_t const rate : c.o.rates) {
      Figure const figure{.item = "rates",
                          .what = (puts ? "PUT at " : "GET at ") + grouped(rate) + "/s",
                          .at = std::to_string(rate)};
      compare_latency(c, figure, c.o.rocksdb_batch, c.o.largest_batch(), true,
                      [&](Turn const& turn) {
                        auto& database = databases[static_cast<std::size_t>(turn.system)];
                        if (!database) {
                          database = c.fresh(turn.system);
                          put_records(c.o, database->db(), pairs_of(c.o), 0, records,
                                      loading_batch(c.o, turn.system));
                        }
                        return latency_of(c.o, database->db(), records, static_cast<double>(rate),
                                          turn.batch, clients, puts);
                      });
    }
  }
}

/// Both systems' RocksDB has taken single Puts before, though Perdure's load went another way.
void warm_by_single_puts(Options const& o, rocksdb::DB& db, std::uint64_t records) {
  constexpr std::uint64_t kPuts = 100'000;
  put_records(o, db, pairs_of(o), 0, std::min(records, kPuts), 1);
}

void measure_single(Context& c) {
  constexpr double kRate = 5000;
  std::uint64_t const records = std::min(c.o.records, kMostRecords);
  for (bool const flushed : {true, false}) {
    BothFresh databases;
    for (bool const puts : {true, false}) {
      Figure const figure{"single",
                          std::string(puts ? "Put" : "Get") +
                              (flushed ? ", all flushed before" : ", after a large batch")};
      compare_latency(c, figure, 1, 1, false, [&](Turn const& turn) {
        auto& database = databases[static_cast<std::size_t>(turn.system)];
        if (!database) {
          database = c.fresh(turn.system);
          put_records(c.o, database->db(), pairs_of(c.o), 0, records,
                      loading_batch(c.o, turn.system));
          database->database().settle();
          warm_by_single_puts(c.o, database->db(), records);
          database->database().settle();
          if (!flushed)
            put_records(c.o, database->db(), pairs_of(c.o), 0, records,
                        loading_batch(c.o, turn.system));
        }
        return latency_of(c.o, database->db(), records, kRate, 1, 1, puts);
      });
    }
  }
}

}  // namespace perdure::bench::rocks
