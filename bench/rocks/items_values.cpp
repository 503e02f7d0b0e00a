// Where memtables have values: behind addresses in the log's segment, or in the memtables
// themselves (H-Rocks, figure 11).
#include <array>
#include <memory>

#include "arrays.hpp"
#include "failure.hpp"
#include "items.hpp"

namespace perdure::bench::rocks {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;  // of requests
constexpr std::uint32_t kKeyBytes = 8;

struct Mix {
  char const* name;
  double writes;
};
constexpr Mix kMixes[] = {{"R50:W50", 0.5}, {"R90:W10", 0.1}};

/// Gets and puts of records at random.
class MixedRequests {
 public:
  MixedRequests(Mix const& mix, Pairs const& pairs, std::uint64_t records, std::uint64_t seed)
      : writes_(mix.writes), pairs_(pairs), records_(records), random_(seed) {}

  ArrayMixedClient::Operation operator()() {
    bool const put = unit(random_) < writes_;
    return {put, below(random_, records_), put ? ++version_ : 0};
  }
  void operator()(rocksdb::WriteBatch& writes, Reads& reads) {
    add_operation((*this)(), pairs_, writes, reads);
  }

 private:
  double writes_;
  Pairs pairs_;
  std::uint64_t records_;
  std::uint64_t version_ = 0;
  Random random_;
};

Measured run_mix(Options const& o, rocksdb::DB& db, Mix const& mix, Pairs const& pairs,
                 std::uint64_t records, Turn const& turn) {
  std::uint64_t const each = std::min(o.records, kMostBytes / pairs.pair_bytes()) / o.threads;
  auto const clients = make_clients(o.threads, [&](std::uint32_t i) -> std::unique_ptr<Client> {
    MixedRequests requests(mix, pairs, records, perdure::bench::mix(o.seed + turn.repeat) + i);
    if (turn.arrays)
      return std::make_unique<ArrayMixedClient>(db, pairs, each, turn.batch, requests);
    return std::make_unique<MixedClient>(db, pairs, each, turn.batch, requests);
  });
  return run_clients(clients, o.seconds);
}

void measure_mix(Context& c, Mix const& mix, std::uint32_t value_bytes) {
  Pairs const pairs = pairs_of(c.o, kKeyBytes, value_bytes);
  // half a memtable, so that reads are of memtables, as far as writes leave them there
  std::uint64_t const room = (c.o.memtable_mib << 20) / 2 / pairs.pair_bytes();
  std::uint64_t const records = std::min(c.o.records, room);
  std::array<std::uint32_t, 3> const inside{0, 0, value_bytes};  // of each way
  std::array<std::unique_ptr<Fresh>, 3> databases;
  std::string const label = std::to_string(value_bytes);
  Figure const figure{.item = "values",
                      .what = std::string(mix.name) + ", values of " + label + " bytes",
                      .at = label};
  c.compare_ways(figure, {"pointers", "values inside"}, [&](Turn const& turn) {
    auto& database = databases[turn.way];
    if (!database) {
      database = c.fresh(turn.system, {.memtable_value_bytes = inside[turn.way]});
      bool const arrays = turn.arrays;
      put_records(c.o, database->db(), pairs, 0, records, turn.batch, arrays);
    }
    for (auto const& one : databases)
      if (one) one->database().wait_until_idle();
    return run_mix(c.o, database->db(), mix, pairs, records, turn).mops();
  });
}

}  // namespace

void measure_values(Context& c) {
  for (Mix const& mix : kMixes)
    for (std::uint32_t const bytes : c.o.value_bytes) measure_mix(c, mix, bytes);
}

}  // namespace perdure::bench::rocks
