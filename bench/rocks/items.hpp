// What perdure-bench-rocks measures: each item a function that adds its rows to the report.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calls.hpp"
#include "database.hpp"
#include "options.hpp"
#include "report.hpp"
#include "ycsb.hpp"

namespace perdure::bench::rocks {

/// A database with a directory of its own, which goes with it.
class Fresh {
 public:
  Fresh(Options const& options, System system, std::string directory, Setting const& setting);
  ~Fresh();
  Fresh(Fresh const&) = delete;
  Fresh& operator=(Fresh const&) = delete;

  [[nodiscard]] System system() const { return database_->system(); }
  [[nodiscard]] rocksdb::DB& db() const { return database_->db(); }
  [[nodiscard]] Database& database() const { return *database_; }

 private:
  std::string directory_;
  std::unique_ptr<Database> database_;
};

/// One of each system.
using BothFresh = std::array<std::unique_ptr<Fresh>, 2>;
/// Waits until no flush and no compaction goes on: what one system left to do must not take the
/// cores of the other.
void wait_until_idle(BothFresh const& databases);

/// One measurement of a comparison.
struct Turn {
  System system = System::rocksdb;
  std::uint64_t batch = 0;  // operations a call
  bool arrays = false;  // of Perdure: calls on arrays
  std::uint32_t repeat = 0;
  bool last = false;  // repetition
  std::size_t way = 0;  // of those that are compared
};

/// What rows of a comparison say.
struct Figure {
  std::string item;
  std::string what;
  std::string unit = "M ops/s";
  Better better = Better::more;
  bool with_arrays = false;  // Perdure's calls on arrays too
  std::string at = {};  // see Row
};

class Context {
 public:
  Context(Options const& options, Report& rows, std::string directory)
      : o(options), report(rows), directory_(std::move(directory)) {}

  Options const& o;
  Report& report;

  [[nodiscard]] std::unique_ptr<Fresh> fresh(System system, Setting const& setting = {});
  /// A path for a database below the work directory.
  [[nodiscard]] std::string next_directory();
  /// The database with all records of which several items read; made where it is missing.
  Fresh& loaded(System system);
  /// The same, and its memtables have the records: Perdure gives them up when nobody calls for a
  /// while.
  Fresh& in_memtables(System system);
  void keep_loaded(std::unique_ptr<Fresh> database);
  void drop_loaded(System system);

  using Measure = std::function<double(Turn const&)>;
  /// RocksDB and Perdure in turn, Perdure with each of its batches; a row each of these.
  void compare(Figure const& figure, Measure const& measure);
  /// The same with one size of batches for each system, as one row.
  void compare_alike(Figure const& figure, std::uint64_t rocksdb_batch, std::uint64_t perdure_batch,
                     Measure const& measure);
  /// RocksDB and Perdure in several ways, by their names, all on arrays of the largest batch; a row
  /// each of these. A turn's way is 0 for RocksDB, and then 1, 2, ...
  void compare_ways(Figure const& figure, std::vector<std::string> const& ways,
                    Measure const& measure);

 private:
  [[nodiscard]] bool measures(System system) const {
    if (o.system.empty() || o.system == "itself") return true;
    return o.system == (system == System::rocksdb ? "rocksdb" : "perdure");
  }
  /// The first turn is RocksDB's; `labels` has one a turn.
  void compare_turns(Figure const& figure, std::vector<Turn> turns,
                     std::vector<std::string> const& labels, Measure const& measure);
  /// What goes wrong says which system it is.
  static double measured(Measure const& measure, Turn const& turn);

  std::string directory_;
  unsigned made_ = 0;
  BothFresh loaded_;
};

/// The pairs of 8 and 8 bytes, or as named.
[[nodiscard]] Pairs pairs_of(Options const& options, std::uint32_t key_bytes = 8,
                             std::uint32_t value_bytes = 8);

/// All clients of a measurement, by number.
template <class Make>
[[nodiscard]] Clients make_clients(std::uint32_t count, Make const& make) {
  Clients clients;
  for (std::uint32_t i = 0; i < count; ++i) clients.push_back(make(i));
  return clients;
}

/// Puts records [first, first + count) at version 0, by the options' threads.
Measured put_records(Options const& o, rocksdb::DB& db, Pairs const& pairs, std::uint64_t first,
                     std::uint64_t count, std::uint64_t batch, bool arrays = false);
/// Gets records below `records` at random, each at version 0.
Measured get_records(Options const& o, rocksdb::DB& db, Pairs const& pairs, std::uint64_t records,
                     std::uint64_t gets, std::uint64_t batch, std::uint32_t clients,
                     bool arrays = false);
/// Reads every record once, each of which has to be at the version that `version_of` names.
void verify_records(Options const& o, rocksdb::DB& db, Pairs const& pairs, std::uint64_t records,
                    std::function<std::uint64_t(std::uint64_t)> const& version_of);

/// The batch with which a system is loaded where the loading is not what is measured.
[[nodiscard]] std::uint64_t loading_batch(Options const& o, System system);

void measure_put(Context& c);
void measure_sustained(Context& c);
void measure_get(Context& c);
void measure_get_half(Context& c);
void measure_get_hot(Context& c);
void measure_update(Context& c);
void measure_range(Context& c);
void measure_delete(Context& c);
void measure_transactions(Context& c);
void measure_ycsb(Context& c);
void measure_sizes(Context& c);
void measure_memtables(Context& c);
void measure_values(Context& c);
void measure_device(Context& c);
void measure_rates(Context& c);
void measure_single(Context& c);
void measure_reopen(Context& c);

/// For the process to be killed: fills the database that the options name, and waits.
[[noreturn]] void fill_and_wait(Options const& o);

}  // namespace perdure::bench::rocks
