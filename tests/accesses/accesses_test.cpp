// What a batch costs in PM accesses, exactly, against the committed table golden.txt; and what is
// promised of layout `word`, table or no table. A change that adds a read, a write or an ordering
// point shows up as a diff of lines. If the change is meant, put the `+` lines in the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kBatch = 2000;  // several chunks of work, so that two workers share it
constexpr Shape kDefault{2, 2, 8};

struct Row {
  std::string name;  // layout, shape, sizes, operation
  std::uint64_t operations = 0;
  AccessCounts counts;
};

std::string to_text(Row const& r) {
  std::ostringstream line;
  line << r.name << ' ' << r.operations << ' ' << r.counts.pm_reads << ' ' << r.counts.pm_writes
       << ' ' << r.counts.orders;
  return line.str();
}

std::map<std::string, Row> golden_table() {
  std::map<std::string, Row> table;
  std::ifstream file(PERDURE_GOLDEN_TABLE);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string layout, shape, sizes, operation;
    Row r;
    fields >> layout >> shape >> sizes >> operation >> r.operations >> r.counts.pm_reads >>
        r.counts.pm_writes >> r.counts.orders;
    r.name = layout + ' ' + shape + ' ' + sizes + ' ' + operation;
    EXPECT_TRUE(fields && table.emplace(r.name, r).second) << "golden.txt: " << line;
  }
  EXPECT_FALSE(table.empty()) << "no table at " << PERDURE_GOLDEN_TABLE;
  return table;
}

bool same(AccessCounts const& a, AccessCounts const& b) {
  return a.pm_reads == b.pm_reads && a.pm_writes == b.pm_writes && a.orders == b.orders;
}

/// Two workers of layout `in_place` may reach for one empty slot at once; the loser has paid for a
/// compare-and-swap and looks at the candidates again. Nothing else may differ.
bool same_but_for_lost_races(Row const& golden, Row const& found, Shape const& shape) {
  std::uint64_t const lost = found.counts.pm_writes - golden.counts.pm_writes;
  std::uint64_t const more_reads = found.counts.pm_reads - golden.counts.pm_reads;
  return golden.counts.orders == found.counts.orders && lost <= golden.operations / 10 &&
         more_reads == lost * shape.levels * shape.hashes;
}

void compare(std::vector<Row> const& rows, Config const& config) {
  auto const table = golden_table();
  std::string diff;
  for (Row const& found : rows) {
    auto const golden = table.find(found.name);
    if (golden != table.end() && golden->second.operations == found.operations) {
      if (same(golden->second.counts, found.counts)) continue;
      bool const races = config.layout == Layout::in_place && config.threads > 1;
      if (races && same_but_for_lost_races(golden->second, found, config.shape)) continue;
    }
    diff += golden == table.end() ? "" : "- " + to_text(golden->second) + '\n';
    diff += "+ " + to_text(found) + '\n';
  }
  if (diff.empty()) return;
  ADD_FAILURE() << config.name << " differs from golden.txt (- golden, + found):\n"
                << "  layout shape sizes operation operations reads writes orders\n"
                << diff;
}

Config config_of(Layout layout, Shape shape, bool variable, std::uint32_t threads) {
  std::ostringstream name;
  name << (layout == Layout::word ? "word_" : "in_place_") << shape.levels << 'L' << shape.hashes
       << 'H' << shape.slots << "S_" << (variable ? "variable" : "key8") << "_x" << threads;
  std::uint32_t const key_bytes = variable ? 0 : 8;
  std::uint32_t const value_bytes = variable ? 0 : 128;
  return {name.str(), Device::cpu, layout, shape, key_bytes, value_bytes, true, threads};
}

std::string row_name(Config const& c, std::string const& operation) {
  std::ostringstream name;
  name << (c.layout == Layout::word ? "word " : "in_place ") << c.shape.levels << "L-"
       << c.shape.hashes << "H-" << c.shape.slots << "S "
       << (c.key_bytes == 0 ? "variable " : "key8 ") << operation;
  return name.str();
}

/// Runs batches on a store of its own and takes down what each cost.
class Meter {
 public:
  Meter(Config const& config, std::uint64_t expected_records, bool grow) : config_(config) {
    OpenOptions open = config.open();
    open.grow = grow;
    auto store = Store::create("memfd:accesses", config.create(expected_records), open);
    if (!store) throw std::runtime_error(store.status().message());
    driver_ = std::make_unique<Driver>(config, std::move(*store));
  }

  void put(std::string const& operation, std::uint64_t from, std::uint64_t to,
           std::uint64_t version = 0) {
    measure(operation, to - from,
            [&] { driver_->run_put(keys(from, to), values(from, to, version)); });
  }
  void get(std::string const& operation, std::uint64_t from, std::uint64_t to, KeyStatus expected) {
    std::vector<Answer> answers;
    measure(operation, to - from, [&] { ASSERT_TRUE(driver_->get(keys(from, to), answers).ok()); });
    for (Answer const& a : answers) ASSERT_EQ(a.status, expected);
  }
  void erase(std::string const& operation, std::uint64_t from, std::uint64_t to) {
    measure(operation, to - from, [&] { driver_->run_erase(keys(from, to)); });
  }
  void mixed(std::string const& operation, std::vector<Op> const& ops) {
    measure(operation, ops.size(), [&] { driver_->run_mixed(ops, Rmw::add, Element::u8); });
  }
  /// An update of the n-th key by an operand of its stored value's length.
  [[nodiscard]] Op add_to(std::uint64_t n) const {
    return {OpKind::update, config_.key(n), driver_->model.held.at(config_.key(n))};
  }

  [[nodiscard]] Stats stats() { return driver_->store().stats(); }
  [[nodiscard]] Row const& last() const { return rows.back(); }
  std::vector<Row> rows;

 private:
  template <class F>
  void measure(std::string const& operation, std::uint64_t operations, F f) {
    driver_->store().reset_counts();
    f();
    rows.push_back({row_name(config_, operation), operations, stats().accesses});
  }

  [[nodiscard]] std::vector<Bytes> keys(std::uint64_t from, std::uint64_t to) const {
    std::vector<Bytes> out;
    for (std::uint64_t n = from; n < to; ++n) out.push_back(config_.key(n));
    return out;
  }
  [[nodiscard]] std::vector<Bytes> values(std::uint64_t from, std::uint64_t to,
                                          std::uint64_t version) const {
    std::vector<Bytes> out;
    for (std::uint64_t n = from; n < to; ++n) out.push_back(config_.value(n, version));
    return out;
  }

  Config config_;
  std::unique_ptr<Driver> driver_;
};

// ------------------------------------------------------------------------------------------------
// The table

class Accesses : public testing::TestWithParam<Config> {};

constexpr char const* kOperations[] = {"insert",     "search-hit",      "search-miss", "overwrite",
                                       "add-to-all", "add-to-ten-keys", "mixed",       "erase"};

/// Each of kOperations as one batch on a table that is at most two thirds full.
std::vector<Row> measure_operations(Config const& config) {
  Meter meter(config, 8000, false);
  std::uint64_t const old = meter.stats().slots * 2 / 5;
  meter.put("fill", 0, old);
  meter.rows.clear();
  meter.put("insert", old, old + kBatch);
  meter.get("search-hit", 0, kBatch, KeyStatus::ok);
  meter.get("search-miss", 1'000'000, 1'000'000 + kBatch, KeyStatus::not_found);
  meter.put("overwrite", 0, kBatch, 1);
  std::vector<Op> ops;
  for (std::uint64_t i = 0; i < kBatch; ++i) ops.push_back(meter.add_to(i));
  meter.mixed("add-to-all", ops);
  ops.clear();
  for (std::uint64_t i = 0; i < kBatch; ++i) ops.push_back(meter.add_to(i % 10));
  meter.mixed("add-to-ten-keys", ops);
  ops.clear();
  for (std::uint64_t i = 0; i < kBatch / 4; ++i) {
    ops.push_back({OpKind::put, config.key(2'000'000 + i), config.value(i)});
    ops.push_back({OpKind::put, config.key(i), config.value(i, 2)});
    ops.push_back({OpKind::erase, config.key(kBatch + i), {}});
    ops.push_back(meter.add_to(kBatch / 2 + i));
  }
  meter.mixed("mixed", ops);
  meter.erase("erase", 0, kBatch);
  EXPECT_EQ(meter.stats().displacements, 0u)
      << "the table is too full for counts that any order of keys gives";
  return meter.rows;
}

TEST_P(Accesses, AreThoseOfTheTable) { compare(measure_operations(GetParam()), GetParam()); }

std::vector<Config> configs() {
  std::vector<Config> all;
  for (Layout const layout : {Layout::word, Layout::in_place}) {
    for (Shape const shape : {kDefault, Shape{1, 2, 16}, Shape{2, 2, 4}, Shape{4, 2, 4}}) {
      for (std::uint32_t const threads : {1u, 2u})
        all.push_back(config_of(layout, shape, false, threads));
    }
    for (std::uint32_t const threads : {1u, 2u})
      all.push_back(config_of(layout, kDefault, true, threads));
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Store, Accesses, testing::ValuesIn(configs()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

/// Which slots fill up, and so what has to move, depends on the order of keys: one thread.
std::vector<Config> configs_in_order() {
  return {config_of(Layout::word, kDefault, false, 1),
          config_of(Layout::word, {1, 2, 16}, false, 1),
          config_of(Layout::in_place, kDefault, false, 1),
          config_of(Layout::in_place, {1, 2, 16}, false, 1)};
}

TEST(AccessesInOrder, ABatchThatGrowsTheTableCopiesTheRetiringLevelOnce) {
  for (Config const& config : configs_in_order()) {
    Meter meter(config, 8000, true);
    std::uint64_t const slots = meter.stats().slots;
    for (std::uint64_t at = 0; meter.stats().growths == 0; at += kBatch) {
      ASSERT_LE(at, slots) << "the table never grew";
      meter.put("growing-insert", at, at + kBatch);
    }
    EXPECT_EQ(meter.stats().growths, 1u);
    compare({meter.last()}, config);
  }
}

TEST(AccessesInOrder, AnInsertThatDisplacesWritesOneWordMore) {
  for (Config const& config : configs_in_order()) {
    if (config.layout == Layout::in_place) continue;  // nothing is ever displaced there
    Meter meter(config, 8000, false);
    std::uint64_t const slots = meter.stats().slots;
    // in small batches: words of this very batch do not move
    std::uint64_t const full = slots * 92 / 100;
    for (std::uint64_t at = 0; at < full; at += 100)
      meter.put("fill", at, std::min(full, at + 100));
    std::uint64_t const before = meter.stats().displacements;
    std::uint64_t const n = slots / 100;
    meter.put("crowded-insert", full, full + n);
    std::uint64_t const displaced = meter.stats().displacements - before;
    EXPECT_GT(displaced, 0u) << "the table is too empty for this test";
    EXPECT_EQ(meter.last().counts.pm_writes, 2 * n + displaced);
    EXPECT_EQ(meter.last().counts.orders % 2, 0u) << "two ordering points a round";
    compare({meter.last()}, config);
  }
}

TEST(Golden, EveryLineIsMeasured) {
  std::set<std::string> measured;
  for (Config const& config : configs()) {
    for (char const* const operation : kOperations) measured.insert(row_name(config, operation));
  }
  for (Config const& config : configs_in_order()) {
    measured.insert(row_name(config, "growing-insert"));
    if (config.layout == Layout::word) measured.insert(row_name(config, "crowded-insert"));
  }
  std::set<std::string> written;
  for (auto const& [name, row] : golden_table()) written.insert(name);
  EXPECT_EQ(measured, written);
}

// ------------------------------------------------------------------------------------------------
// What is promised of layout `word`, whatever the table says

TEST(WordPromises, BatchesStayWithinTheirBounds) {
  for (Config const& config : configs()) {
    if (config.layout != Layout::word) continue;
    std::uint64_t const candidates = std::uint64_t{config.shape.levels} * config.shape.hashes;
    std::map<std::string, AccessCounts> of;
    for (Row const& row : measure_operations(config))
      of[row.name.substr(row.name.rfind(' ') + 1)] = row.counts;
    SCOPED_TRACE(config.name);
    // values of varying length: located, then copied
    std::uint64_t const second = config.value_bytes == 0 ? 1 : 0;
    EXPECT_LE(of["search-hit"].pm_reads, kBatch * (candidates + 1 + second));
    EXPECT_EQ(of["search-hit"].pm_writes, 0u);
    EXPECT_LE(of["insert"].pm_writes, kBatch * 2);
    EXPECT_LE(of["overwrite"].pm_writes, kBatch * 2);
    EXPECT_LE(of["add-to-all"].pm_writes, kBatch * 2);
    EXPECT_LE(of["add-to-ten-keys"].pm_reads, 10 * (candidates + 1))
        << "a batch pays once for each key";
    EXPECT_LE(of["add-to-ten-keys"].pm_writes, 10u * 2);
    EXPECT_EQ(of["erase"].pm_writes, kBatch);
    for (char const* const operation :
         {"insert", "overwrite", "add-to-all", "add-to-ten-keys", "mixed", "erase"})
      EXPECT_EQ(of[operation].orders, 2u) << operation;
    for (char const* const operation : {"search-hit", "search-miss"})
      EXPECT_EQ(of[operation].orders, 0u) << operation;
  }
}

struct Full {
  Shape shape;
  std::uint64_t slots;  // with a top level of 2^16 buckets
};

/// As large as `perdure-bench accesses` measures: in a small pool, its header alone is some bytes a
/// record. The last kSingles records are inserted one by one.
class AtNineTenths : public testing::TestWithParam<Full> {
 protected:
  static constexpr std::uint64_t kSingles = 500;

  void fill_all_but_singles() {
    OpenOptions open = config_.open();
    open.grow = false;
    auto store = Store::create("memfd:accesses", config_.create(records_), open);
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_.emplace(config_, std::move(*store));
    ASSERT_EQ(driver_->store().stats().slots, GetParam().slots);
    for (std::uint64_t at = 0; at < records_ - kSingles;) {
      std::uint64_t const end = std::min(records_ - kSingles, at + 50'000);
      std::vector<Bytes> keys, values;
      for (; at < end; ++at) {
        keys.push_back(config_.key(at));
        values.push_back(config_.value(at));
      }
      Status const s = driver_->put(keys, values, statuses_);
      ASSERT_TRUE(s.ok()) << s.message();
    }
  }

  template <class Operation>
  AccessCounts cost(Operation operation) {
    driver_->store().reset_counts();
    Status const s = operation();
    EXPECT_TRUE(s.ok()) << s.message();
    return driver_->store().stats().accesses;
  }

  void insert_singles_within_bounds() {
    for (std::uint64_t n = records_ - kSingles; n < records_; ++n) {
      std::uint64_t const displacements = driver_->store().stats().displacements;
      auto const insert =
          cost([&] { return driver_->put({config_.key(n)}, {config_.value(n)}, statuses_); });
      ASSERT_LE(insert.pm_writes, 2 + driver_->store().stats().displacements - displacements)
          << "insert of key " << n;
      ASSERT_EQ(insert.orders, 2u) << "insert of key " << n;
    }
  }

  void expect_space_within_bounds() {
    Stats const full = driver_->store().stats();
    ASSERT_EQ(full.records, records_);
    EXPECT_GE(full.load_factor, 0.8999);
    auto const a_record = [&](std::uint64_t bytes) {
      return static_cast<double>(bytes) / static_cast<double>(records_);
    };
    EXPECT_LE(a_record(full.space.used_bytes), 160.0);
    EXPECT_LE(a_record(full.space.pool_bytes), 160.0) << "the file, made for exactly these records";
    EXPECT_GE(a_record(full.space.used_bytes), 8 + 8 + 128)
        << "less than the records themselves take: not a true count";
    RecordProperty("used_bytes_a_record", std::to_string(a_record(full.space.used_bytes)));
    RecordProperty("pool_bytes_a_record", std::to_string(a_record(full.space.pool_bytes)));
  }

  void search_update_and_erase_within_bounds(std::uint64_t n) {
    std::uint64_t const candidates = std::uint64_t{shape_.levels} * shape_.hashes;
    std::vector<Answer> answers;
    auto const hit = cost([&] { return driver_->get({config_.key(n)}, answers); });
    ASSERT_EQ(answers[0].status, KeyStatus::ok);
    ASSERT_LE(hit.pm_reads, candidates + 1) << "search of key " << n;
    ASSERT_EQ(hit.pm_writes + hit.orders, 0u) << "search of key " << n;
    auto const update =
        cost([&] { return driver_->put({config_.key(n)}, {config_.value(n, 1)}, statuses_); });
    ASSERT_LE(update.pm_writes, 2u) << "update of key " << n;
    ASSERT_EQ(update.orders, 2u) << "update of key " << n;
    auto const erase = cost([&] { return driver_->erase({config_.key(n)}, statuses_); });
    ASSERT_EQ(erase.pm_writes, 1u) << "erase of key " << n;
    ASSERT_EQ(erase.orders, 2u) << "erase of key " << n;
  }

  Shape const shape_ = GetParam().shape;
  std::uint64_t const records_ = GetParam().slots * 9 / 10;
  Config const config_ = config_of(Layout::word, shape_, false, 1);
  std::optional<Driver> driver_;
  std::vector<KeyStatus> statuses_;
};

TEST_P(AtNineTenths, ARecordTakesAtMost160BytesOfThePoolAndEachOperationKeepsItsBounds) {
  ASSERT_NO_FATAL_FAILURE(fill_all_but_singles());
  ASSERT_NO_FATAL_FAILURE(insert_singles_within_bounds());
  ASSERT_NO_FATAL_FAILURE(expect_space_within_bounds());
  for (std::uint64_t i = 0; i < kSingles; ++i)
    ASSERT_NO_FATAL_FAILURE(search_update_and_erase_within_bounds(i * (records_ / kSingles)));
}
INSTANTIATE_TEST_SUITE_P(WordPromises, AtNineTenths,
                         testing::Values(Full{kDefault, 12u << 16}, Full{{1, 2, 16}, 16u << 16}),
                         [](testing::TestParamInfo<Full> const& full) {
                           return full.param.shape.levels == 2 ? "2L2H8S" : "1L2H16S";
                         });

}  // namespace
}  // namespace perdure::test
