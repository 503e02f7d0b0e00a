// What the items share.
#include "items.hpp"

#include "arrays.hpp"
#include "failure.hpp"

namespace perdure::bench::rocks {

Fresh::Fresh(Options const& options, System system, std::string directory, Setting const& setting)
    : directory_(std::move(directory)),
      database_(std::make_unique<Database>(options, system, directory_, setting)) {}

Fresh::~Fresh() {
  database_.reset();
  remove_database(directory_);
}

void wait_until_idle(BothFresh const& databases) {
  for (auto const& one : databases)
    if (one) one->database().wait_until_idle();
}

std::string Context::next_directory() { return directory_ + "/" + std::to_string(made_++); }

std::unique_ptr<Fresh> Context::fresh(System system, Setting const& setting) {
  return std::make_unique<Fresh>(o, system, next_directory(), setting);
}

Fresh& Context::loaded(System system) {
  auto& database = loaded_[static_cast<std::size_t>(system)];
  if (!database) {
    report.progress("loading " + name(system));
    database = fresh(system);
    put_records(o, database->db(), pairs_of(o), 0, o.records, loading_batch(o, system));
  }
  return *database;
}

Fresh& Context::in_memtables(System system) {
  auto& database = loaded_[static_cast<std::size_t>(system)];
  std::uint64_t memtables = 0;
  if (database && system == System::perdure &&
      database->db().GetIntProperty("perdure.memtables", &memtables) && memtables == 0)
    database.reset();
  return loaded(system);
}

void Context::keep_loaded(std::unique_ptr<Fresh> database) {
  auto& place = loaded_[static_cast<std::size_t>(database->system())];
  place = std::move(database);
}

void Context::drop_loaded(System system) { loaded_[static_cast<std::size_t>(system)].reset(); }

double Context::measured(Measure const& measure, Turn const& turn) {
  try {
    return measure(turn);
  } catch (std::exception const& error) {
    throw Failure(name(turn.system) + ": " + error.what());
  }
}

void Context::compare(Figure const& figure, Measure const& measure) {
  std::vector<Turn> turns{{System::rocksdb, o.rocksdb_batch}};
  for (std::uint64_t const batch : o.batches) turns.push_back({System::perdure, batch});
  if (figure.with_arrays) turns.push_back({System::perdure, o.largest_batch(), true});
  std::vector<std::string> labels;
  for (Turn const& turn : turns)
    labels.push_back((turn.arrays ? "arrays of " : "calls of ") + grouped(turn.batch));
  compare_turns(figure, std::move(turns), labels, measure);
}

void Context::compare_ways(Figure const& figure, std::vector<std::string> const& ways,
                           Measure const& measure) {
  std::vector<Turn> turns{{System::rocksdb, o.rocksdb_batch}};
  std::vector<std::string> labels{"calls of " + grouped(o.rocksdb_batch)};
  for (std::string const& way : ways) {
    turns.push_back({System::perdure, o.largest_batch(), true});
    turns.back().way = labels.size();
    labels.push_back(way);
  }
  compare_turns(figure, std::move(turns), labels, measure);
}

void Context::compare_turns(Figure const& figure, std::vector<Turn> turns,
                            std::vector<std::string> const& labels, Measure const& measure) {
  std::vector<std::vector<double>> results(turns.size());
  for (std::uint32_t repeat = 0; repeat < o.repeats; ++repeat) {
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (!measures(turns[i].system)) continue;
      turns[i].repeat = repeat;
      turns[i].last = repeat + 1 == o.repeats;
      report.progress(figure.item + " " + figure.what + ": " + name(turns[i].system) + ", " +
                      labels[i] + ", " + std::to_string(repeat + 1) + " of " +
                      std::to_string(o.repeats));
      results[i].push_back(measured(measure, turns[i]));
    }
  }
  for (std::size_t i = 1; i < turns.size(); ++i) {
    report.add({figure.item, figure.what + ", " + labels[i], figure.unit, figure.better, results[0],
                results[i], figure.at, turns[i].batch, turns[i].arrays});
  }
}

void Context::compare_alike(Figure const& figure, std::uint64_t rocksdb_batch,
                            std::uint64_t perdure_batch, Measure const& measure) {
  Row row{figure.item, figure.what, figure.unit, figure.better, {}, {}, figure.at, perdure_batch};
  std::array<System, 2> turns{System::rocksdb, System::perdure};
  for (std::uint32_t repeat = 0; repeat < o.repeats; ++repeat, std::swap(turns[0], turns[1])) {
    bool const last = repeat + 1 == o.repeats;
    for (System const system : turns) {
      if (!measures(system)) continue;
      bool const theirs = system == System::rocksdb;
      std::uint64_t const batch = theirs ? rocksdb_batch : perdure_batch;
      report.progress(figure.item + " " + figure.what + ": " + name(system));
      (theirs ? row.rocksdb : row.perdure)
          .push_back(measured(measure, {system, batch, false, repeat, last}));
    }
  }
  report.add(std::move(row));
}

Pairs pairs_of(Options const& options, std::uint32_t key_bytes, std::uint32_t value_bytes) {
  return {options.seed, key_bytes, value_bytes};
}

std::uint64_t loading_batch(Options const& o, System system) {
  return system == System::rocksdb ? o.rocksdb_batch : o.largest_batch();
}

Measured put_records(Options const& o, rocksdb::DB& db, Pairs const& pairs, std::uint64_t first,
                     std::uint64_t count, std::uint64_t batch, bool arrays) {
  auto const clients = make_clients(o.threads, [&](std::uint32_t i) -> std::unique_ptr<Client> {
    std::uint64_t at = first + count * i / o.threads;
    std::uint64_t const end = first + count * (i + 1) / o.threads;
    if (arrays) {
      return std::make_unique<ArrayClient>(db, pairs, ArrayClient::What::put, end - at, batch,
                                           [at]() mutable { return at++; });
    }
    return std::make_unique<WriteClient>(
        db, end - at, batch, [&pairs, at](rocksdb::WriteBatch& writes, std::uint64_t n) mutable {
          for (std::uint64_t k = 0; k < n; ++k) add_put(writes, pairs, at++, 0);
        });
  });
  return run_clients(clients, 1e9);
}

Measured get_records(Options const& o, rocksdb::DB& db, Pairs const& pairs, std::uint64_t records,
                     std::uint64_t gets, std::uint64_t batch, std::uint32_t clients, bool arrays) {
  auto const all = make_clients(clients, [&](std::uint32_t i) -> std::unique_ptr<Client> {
    if (arrays) {
      return std::make_unique<ArrayClient>(
          db, pairs, ArrayClient::What::get, gets / clients, batch,
          [records, random = Random(o.seed + i)]() mutable { return below(random, records); });
    }
    return std::make_unique<GetClient>(
        db, pairs, gets / clients, batch,
        [records, random = Random(o.seed + i)]() mutable -> Expected {
          return {below(random, records), 0};
        });
  });
  return run_clients(all, o.seconds);
}

void verify_records(Options const& o, rocksdb::DB& db, Pairs const& pairs, std::uint64_t records,
                    std::function<std::uint64_t(std::uint64_t)> const& version_of) {
  auto const clients = make_clients(o.threads, [&](std::uint32_t i) {
    std::uint64_t at = records * i / o.threads;
    std::uint64_t const end = records * (i + 1) / o.threads;
    return std::make_unique<GetClient>(db, pairs, end - at, 10'000,
                                       [&version_of, at]() mutable -> Expected {
                                         std::uint64_t const number = at++;
                                         return {number, version_of(number)};
                                       });
  });
  run_clients(clients, 1e9);
}

}  // namespace perdure::bench::rocks
