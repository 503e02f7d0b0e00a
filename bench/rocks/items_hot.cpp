// Reads of hot keys in the LSM tree: a database that was opened anew, so that no memtable has
// anything, live or flushed, is read by Zipf. What is read often comes to RocksDB's block cache, or
// to Perdure's and from there to the GPU (docs/rocks.md).
#include "arrays.hpp"
#include "items.hpp"

namespace perdure::bench::rocks {
namespace {

std::unique_ptr<Fresh> opened_anew(Context& c, System system, Pairs const& pairs) {
  std::string const directory = c.next_directory();
  {
    Database const loading(c.o, system, directory, {});
    put_records(c.o, loading.db(), pairs, 0, c.o.records, loading_batch(c.o, system));
    loading.compact();
  }
  return std::make_unique<Fresh>(c.o, system, directory, Setting{});
}

/// As many gets as there are records, or as many as the options' seconds allow.
Measured get_hot(Context& c, rocksdb::DB& db, Pairs const& pairs, Zipf const& zipf,
                 Turn const& turn, std::uint64_t seed) {
  std::uint64_t const each = c.o.records / c.o.threads;
  Scramble const scramble(c.o.records);
  auto const clients = make_clients(c.o.threads, [&](std::uint32_t i) -> std::unique_ptr<Client> {
    auto next = [&zipf, scramble, random = Random(mix(c.o.seed + seed) + i)]() mutable {
      return scramble(zipf(random));
    };
    if (turn.arrays)
      return std::make_unique<ArrayClient>(db, pairs, ArrayClient::What::get, each, turn.batch,
                                           next);
    return std::make_unique<GetClient>(db, pairs, each, turn.batch,
                                       [next]() mutable -> Expected { return {next(), 0}; });
  });
  return run_clients(clients, c.o.seconds);
}

}  // namespace

/// A turn's first gets find the caches as the turn before left them; what is measured comes after
/// them.
void measure_get_hot(Context& c) {
  Pairs const pairs = pairs_of(c.o);
  Zipf const zipf(c.o.records, 0.99);
  BothFresh databases;
  Figure const figure{
      .item = "get-hot", .what = "GET by Zipf 0.99, all in the LSM tree", .with_arrays = true};
  std::uint64_t seed = 0;
  c.compare(figure, [&](Turn const& turn) {
    auto& database = databases[static_cast<std::size_t>(turn.system)];
    if (!database) database = opened_anew(c, turn.system, pairs);
    get_hot(c, database->db(), pairs, zipf, turn, ++seed);
    return get_hot(c, database->db(), pairs, zipf, turn, ++seed).mops();
  });
}

}  // namespace perdure::bench::rocks
