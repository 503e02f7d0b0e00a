// gpDB: transactions over a relational table in durable memory. A row is a key and six columns of 4
// bytes each; rows lie in tablets, a tablet's columns one after the other (the layout of Virginian,
// which the paper's gpDB is made of). Table 1: 50M rows inserted; 2.5M rows of a table updated;
// tablets of 8 MiB.
//
// Insert: new rows go behind the last one, and are durable before the row counter names them. The
// counter is one 8-byte word, so a transaction is there with one store or not at all: it overwrites
// nothing, and there is nothing to log (the paper logs the table's size, which then must be put
// back; the word says the same). Rows behind the counter are no rows.
//
// Update: one column of the rows of some tablets that have a value in another. Which rows, a kernel
// finds out (Select); another logs a row's old value and number, durably, and then writes the new
// value (Update). transact.hpp says how a transaction ends, and how one that did not is undone.
#pragma once

#include <algorithm>

#include "transact.hpp"

namespace perdure::bench::gpm {

inline constexpr std::uint32_t kDbColumns = 7;  // the key first

/// Where cells lie; of any memory that holds a table.
struct DbTable {
  std::uint32_t* words;
  std::uint32_t tablet_words;
  std::uint32_t tablet_rows;

  PERDURE_FN std::uint32_t* at(std::uint64_t row, std::uint32_t column) const {
    std::uint64_t const tablet = row / tablet_rows;
    return words + tablet * tablet_words + std::uint64_t{column} * tablet_rows + row % tablet_rows;
  }
};

/// What a row is inserted with.
PERDURE_FN std::uint32_t db_cell(std::uint64_t seed, std::uint64_t row, std::uint32_t column) {
  return column == 0 ? static_cast<std::uint32_t>(row + 1)
                     : static_cast<std::uint32_t>(random_at(seed + column, row));
}

struct DbInsert {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  DbTable table;  // durable
  DbTable near;
  std::uint64_t seed;
  std::uint64_t from, to;  // rows

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t row = from + thread.global(); row < to; row += thread.total()) {
      for (std::uint32_t column = 0; column < kDbColumns; ++column) {
        std::uint32_t const cell = db_cell(seed, row, column);
        thread.store(table.at(row, column), cell);
        if (near.words != table.words) *near.at(row, column) = cell;
      }
    }
    thread.persist();
  }
};

/// UPDATE table SET column 2 = ... WHERE column 1 % one_of = remainder, among rows [from, to).
struct DbQuery {
  static constexpr std::uint32_t kWhere = 1, kSet = 2;
  std::uint64_t seed;
  std::uint64_t number;  // of the transaction
  std::uint64_t from, to;
  std::uint32_t one_of;
  std::uint32_t remainder;

  PERDURE_FN bool wants(std::uint32_t where) const { return where % one_of == remainder; }
  /// Does not depend on what the row held, so that doing it twice does no harm.
  PERDURE_FN std::uint32_t value(std::uint64_t row) const {
    return static_cast<std::uint32_t>(random_at(seed + 9, number << 32 | row));
  }
};

/// The query's rows, packed: a block writes its own side by side, in the place that it reserved.
struct DbSelect {
  static constexpr int kPhases = 4;
  static constexpr std::uint32_t kThreads = 256, kPart = 32,
                                 kParts = kThreads / kPart;  // of a block, at most
  struct Shared {
    std::uint8_t hit[kThreads];
    std::uint32_t of_part[kParts];
    std::uint32_t first[kParts];
  };
  using State = perdure::gpm::NoState;
  DbTable near;
  DbQuery query;
  std::uint32_t* rows;
  std::uint32_t room;
  std::uint32_t* found;  // counts on where there is no room

  template <int kPhase, class T>
  PERDURE_FN void run(T& thread, Shared& shared, State&) const {
    std::uint32_t const me = thread.thread(), part = me / kPart;
    std::uint64_t const row = query.from + thread.global();
    if constexpr (kPhase == 0) {
      shared.hit[me] = row < query.to && query.wants(*near.at(row, DbQuery::kWhere)) ? 1 : 0;
    } else if constexpr (kPhase == 1) {
      if (me % kPart == 0)
        shared.of_part[part] = hits(shared, me, least(me + kPart, thread.threads()));
    } else if constexpr (kPhase == 2) {
      if (me == 0) reserve(thread, shared);
    } else if (shared.hit[me] != 0) {
      std::uint32_t const place = shared.first[part] + hits(shared, part * kPart, me);
      if (place < room) rows[place] = static_cast<std::uint32_t>(row);
    }
  }
  PERDURE_FN static std::uint32_t least(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }
  PERDURE_FN static std::uint32_t hits(Shared const& shared, std::uint32_t from, std::uint32_t to) {
    std::uint32_t sum = 0;
    for (std::uint32_t i = from; i < to; ++i) sum += shared.hit[i];
    return sum;
  }
  template <class T>
  PERDURE_FN void reserve(T& thread, Shared& shared) const {
    std::uint32_t const parts = (thread.threads() + kPart - 1) / kPart;
    std::uint32_t sum = 0;
    for (std::uint32_t part = 0; part < parts; ++part) sum += shared.of_part[part];
    std::uint32_t next = sum == 0 ? 0 : thread.add(found, sum);
    for (std::uint32_t part = 0; part < parts; ++part) {
      shared.first[part] = next;
      next += shared.of_part[part];
    }
  }
};

struct DbEntry {
  std::uint32_t row;
  std::uint32_t old;
};

struct DbUpdate {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  DbTable table;  // durable
  DbTable near;
  DbQuery query;
  std::uint32_t const* rows;
  std::uint32_t room;
  std::uint32_t const* found;
  std::uint32_t* unlogged;
  WriteLog log;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    std::uint32_t const all = *found < room ? *found : room;
    for (std::uint64_t i = thread.global(); i < all; i += thread.total()) {
      std::uint32_t const row = rows[i], value = query.value(row);
      DbEntry const entry{row, *near.at(row, DbQuery::kSet)};
      if (!log.insert(thread, &entry, sizeof entry, i)) {
        thread.add(unlogged, 1);
        continue;
      }
      thread.store(table.at(row, DbQuery::kSet), value);
      if (near.words != table.words) *near.at(row, DbQuery::kSet) = value;
      thread.persist();
    }
  }
};

struct DbUndo {
  using Entry = DbEntry;
  DbTable table;
  DbTable near;

  template <class T>
  PERDURE_FN void put_back(T& thread, DbEntry const& entry) const {
    thread.store(table.at(entry.row, DbQuery::kSet), entry.old);
    *near.at(entry.row, DbQuery::kSet) = entry.old;
  }
};

struct DbDigest {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  DbTable table;
  std::uint64_t rows;
  std::uint64_t* sum;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    std::uint64_t mine = 0;
    for (std::uint64_t row = thread.global(); row < rows; row += thread.total())
      for (std::uint32_t column = 0; column < kDbColumns; ++column)
        mine += nth_hash((row * kDbColumns + column) << 32 ^ *table.at(row, column), 5);
    thread.add(sum, mine);
  }
};

struct DbProblem {
  std::uint64_t rows;  // inserted in all, or of the table that is updated
  std::uint32_t transactions;
  std::uint32_t tablet_bytes;
  std::uint32_t one_of;  // rows of the tablets that a transaction looks at, one is updated
  std::uint32_t parts;  // transactions take turns with so many parts of the table

  [[nodiscard]] std::uint32_t tablet_rows() const {
    return tablet_bytes / 4 / kDbColumns / 32 * 32;
  }  // whole lines
  [[nodiscard]] std::uint64_t tablets_of(std::uint64_t n) const {
    return (n + tablet_rows() - 1) / tablet_rows();
  }
  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t n) const {
    return tablets_of(n) * tablet_bytes;
  }
};

[[nodiscard]] inline DbProblem db_problem(AppOptions const& options, bool updates) {
  DbProblem problem = options.size == Size::tiny    ? DbProblem{1024, updates ? 8u : 6u, 4096, 8, 3}
                      : options.size == Size::small ? DbProblem{4000000, 5, 1u << 18, 20, 5}
                                                    : DbProblem{50000000, 5, 8u << 20, 20, 5};
  if (options.iterations != 0) problem.transactions = options.iterations;
  return problem;
}

template <class Grid>
[[nodiscard]] std::uint64_t db_digest(Grid& grid, DbTable const& table, std::uint64_t rows) {
  Array<Grid, std::uint64_t> sum(grid, 1);
  sum.fill(0);
  auto const shape = perdure::gpm::grid_of(std::min<std::uint64_t>(rows, 1u << 18), 256);
  require(grid.launch(shape, DbDigest{table, rows, sum.data()}), "digest");
  return sum.get()[0];
}

/// Whether column 2 is as in `column`, and all others are as they were inserted.
template <class Grid>
[[nodiscard]] bool db_agrees(Grid& grid, DbTable const& table, std::uint64_t bytes,
                             std::uint64_t seed, std::vector<std::uint32_t> const& column) {
  Array<Grid, std::uint32_t> copy(grid, bytes / 4);
  require(grid.copy(copy.data(), table.words, copy.size()), "table");
  std::vector<std::uint32_t> holds = copy.get();
  DbTable const here{holds.data(), table.tablet_words, table.tablet_rows};
  for (std::uint64_t row = 0; row < column.size(); ++row)
    for (std::uint32_t c = 0; c < kDbColumns; ++c)
      if (*here.at(row, c) != (c == DbQuery::kSet ? column[row] : db_cell(seed, row, c)))
        return false;
  return true;
}

[[nodiscard]] inline std::vector<std::uint32_t> db_column(std::uint64_t seed, std::uint64_t rows) {
  std::vector<std::uint32_t> column(rows);
  for (std::uint64_t row = 0; row < rows; ++row) column[row] = db_cell(seed, row, DbQuery::kSet);
  return column;
}

// ------------------------------------------------------------------------------------------------
// Insert. The file: the row counter; a word that says what table it is, durable before any row;
// from byte kTableHeader on the tablets.

template <class Grid>
class DbInserts {
 public:
  DbInserts(Grid& grid, AppOptions const& options)
      : grid_(grid),
        options_(options),
        problem_(db_problem(options, false)),
        each_((problem_.rows + problem_.transactions - 1) / problem_.transactions) {
    open();
    begin();
  }

  AppReport run() {
    std::uint64_t const from = counted() / each_;
    BatchWork work{[](std::uint64_t) {}, [&](std::uint64_t n) { insert(n); },
                   [&](std::uint64_t n) { commit(n); }, [](std::uint64_t) {},
                   [&] { static_cast<void>(counted()); }};  // rows behind the counter are none
    AppReport report = run_batches(grid_, from, problem_.transactions, work);
    std::uint64_t const rows = counted();
    report.operations = report.steps * each_;
    report.durable_bytes = memory_->made_durable() - begun_;
    report.digest = db_digest(grid_, table(), rows);
    report.right = rows == std::max<std::uint64_t>(from, problem_.transactions) * each_;
    if (options_.check || options_.size != Size::paper) report.right = report.right && agrees(rows);
    return report;
  }

 private:
  /// Where the file is written rather than mapped, one that is too short was not made in full, and
  /// holds nothing yet.
  void open() {
    std::string const file = file_of(options_, "table");
    std::uint64_t const bytes =
        kTableHeader + problem_.bytes_of(each_ * (problem_.transactions + 1));
    using Memory = perdure::gpm::Memory<Grid>;
    if (options_.resume) {
      auto there = Memory::open(grid_, file, bytes, {options_.path, false, options_.flush_threads});
      if (there.ok()) {
        memory_.emplace(std::move(there.value()));
        return;
      }
      Code const code = there.status().code();
      if (code != Code::not_found && (code != Code::corrupt || options_.path != Path::cap_fs))
        require(there.status(), "table");
    }
    memory_.emplace(require(
        Memory::open(grid_, file, bytes, {options_.path, true, options_.flush_threads}), "table"));
  }

  /// A table without that word holds nothing yet.
  void begin() {
    std::uint64_t const mine = digest_of(std::vector<std::uint64_t>{
                                   problem_.rows, each_, problem_.tablet_bytes, options_.seed}) |
                               1;
    std::uint64_t const found = header()[1];
    if (found == mine && counted() % each_ == 0) return;
    if (found != 0 || counted() != 0)
      throw Failure("the table " + file_of(options_, "table") +
                    " is of another size or seed; resume it as it was run");
    require(grid_.launch({1, 1}, StoreWord<std::uint64_t>{counter() + 1, mine}, memory_->persist()),
            "table");
    require(memory_->commit(0, kTableHeader), "table");
    begun_ = memory_->made_durable();
  }

  [[nodiscard]] DbTable table() const {
    return {reinterpret_cast<std::uint32_t*>(memory_->data() + kTableHeader),
            problem_.tablet_bytes / 4, problem_.tablet_rows()};
  }
  [[nodiscard]] std::uint64_t* counter() const {
    return reinterpret_cast<std::uint64_t*>(memory_->data());
  }
  [[nodiscard]] std::vector<std::uint64_t> header() {
    return host_copy(grid_, *memory_, counter(), 2);
  }
  [[nodiscard]] std::uint64_t counted() { return header()[0]; }

  bool agrees(std::uint64_t rows) {
    return db_agrees(grid_, table(), problem_.bytes_of(rows), options_.seed,
                     db_column(options_.seed, rows));
  }
  void insert(std::uint64_t n) {
    auto const shape = perdure::gpm::grid_of(each_, block_threads(options_.size));
    DbInsert const kernel{table(), table(), options_.seed, n * each_, (n + 1) * each_};
    require(grid_.launch(shape, kernel, memory_->persist()), "inserting");
  }
  void commit(std::uint64_t n) {
    std::uint64_t const rows = (n + 1) * each_;
    std::uint64_t const first = n * each_ / problem_.tablet_rows() * problem_.tablet_bytes;
    require(memory_->commit(kTableHeader + first, problem_.bytes_of(rows) - first), "commit");
    require(grid_.launch({1, 1}, StoreWord<std::uint64_t>{counter(), rows}, memory_->persist()),
            "commit");
    require(memory_->commit(0, kTableHeader), "commit");
  }

  Grid& grid_;
  AppOptions options_;
  DbProblem problem_;
  std::uint64_t each_;  // rows of a transaction
  std::optional<perdure::gpm::Memory<Grid>> memory_;
  std::uint64_t begun_ = 0;  // bytes made durable before the first transaction
};

// ------------------------------------------------------------------------------------------------
// Update

template <class Grid>
class DbUpdates {
 public:
  DbUpdates(Grid& grid, AppOptions const& options)
      : grid_(grid),
        problem_(db_problem(options, true)),
        threads_(block_threads(options.size)),
        seed_(options.seed),
        checks_(options.check || options.size != Size::paper),
        store_(grid, options, {problem_.bytes_of(problem_.rows), most(), sizeof(DbEntry)}),
        rows_(grid, most()),
        counts_(grid, 2) {}

  AppReport run() {
    recover_or_fill();
    std::uint64_t const from = store_.committed();
    bool right = true;
    if (checks_) {
      column_ = db_column(seed_, problem_.rows);
      for (std::uint64_t n = 0; n < from; ++n) model(n);
      right = !store_.logs() || agrees();  // what is there now is what transactions [0, from) leave
    }
    BatchWork work{[](std::uint64_t) {},
                   [&](std::uint64_t n) { update(n); },
                   [&](std::uint64_t n) { commit(n); },
                   [&](std::uint64_t n) {
                     if (checks_) model(n);
                   },
                   {}};
    if (store_.logs()) work.undo = [&] { store_.undo(DbUndo{table(), near()}); };
    AppReport report = run_batches(grid_, from, problem_.transactions, work);
    report.operations = updated_;
    report.durable_bytes = store_.made_durable();
    report.digest = db_digest(grid_, table(), problem_.rows);
    report.right =
        right && report.digest == db_digest(grid_, near(), problem_.rows) && (!checks_ || agrees());
    store_.add_to(report);
    return report;
  }

 private:
  [[nodiscard]] DbTable view(std::byte* at) const {
    return {reinterpret_cast<std::uint32_t*>(at), problem_.tablet_bytes / 4,
            problem_.tablet_rows()};
  }
  [[nodiscard]] DbTable table() const { return view(store_.table()); }
  [[nodiscard]] DbTable near() const { return view(store_.near()); }

  /// Tablets that transaction n looks at: [first, first of the next part).
  [[nodiscard]] std::uint64_t first_tablet(std::uint64_t part) const {
    return problem_.tablets_of(problem_.rows) * part / problem_.parts;
  }
  [[nodiscard]] DbQuery query(std::uint64_t n) const {
    std::uint64_t const part = n % problem_.parts, each = problem_.tablet_rows();
    return {seed_,
            n,
            first_tablet(part) * each,
            std::min(first_tablet(part + 1) * each, problem_.rows),
            problem_.one_of,
            static_cast<std::uint32_t>(random_at(seed_ + 8, n) % problem_.one_of)};
  }
  /// Rows that a transaction may find: twice as many as there should be.
  [[nodiscard]] std::uint64_t most() const {
    std::uint64_t const rows =
        (problem_.tablets_of(problem_.rows) / problem_.parts + 1) * problem_.tablet_rows();
    return std::max<std::uint64_t>(rows * 2 / problem_.one_of, 64);
  }

  void recover_or_fill() {
    if (store_.goes_on()) return store_.recover(DbUndo{table(), near()});
    DbInsert const kernel{table(), near(), seed_, 0, problem_.rows};
    require(grid_.launch(perdure::gpm::grid_of(problem_.rows, threads_), kernel, store_.persist()),
            "filling the table");
    store_.begin();
  }
  void update(std::uint64_t n) {
    counts_.fill(0);
    DbQuery const asked = query(n);
    auto const room = static_cast<std::uint32_t>(rows_.size());
    require(grid_.launch(perdure::gpm::grid_of(asked.to - asked.from, threads_),
                         DbSelect{near(), asked, rows_.data(), room, counts_.data()}),
            "selecting");
    DbUpdate const kernel{
        table(),     near(), asked, rows_.data(), room, counts_.data(), counts_.data() + 1,
        store_.log()};
    require(grid_.launch(perdure::gpm::grid_of(room, threads_), kernel, store_.persist()),
            "updating");
  }
  void commit(std::uint64_t n) {
    std::vector<std::uint32_t> const counts = counts_.get();
    if (counts[0] > rows_.size() || counts[1] != 0)
      throw Failure(
          "db: a transaction found more rows than its log has room for; it is undone when resumed");
    updated_ += counts[0];
    std::uint64_t const part = n % problem_.parts;
    std::uint64_t const first = first_tablet(part), end = first_tablet(part + 1);
    store_.commit(first * problem_.tablet_bytes, (end - first) * problem_.tablet_bytes);
  }

  void model(std::uint64_t n) {
    DbQuery const asked = query(n);
    for (std::uint64_t row = asked.from; row < asked.to; ++row)
      if (asked.wants(db_cell(seed_, row, DbQuery::kWhere))) column_[row] = asked.value(row);
  }
  bool agrees() { return db_agrees(grid_, table(), store_.bytes(), seed_, column_); }

  Grid& grid_;
  DbProblem problem_;
  std::uint32_t threads_;  // of a block
  std::uint64_t seed_;
  bool checks_;
  Transactions<Grid> store_;
  Array<Grid, std::uint32_t> rows_;  // that a transaction updates
  Array<Grid, std::uint32_t> counts_;  // [0]: of these; [1]: of them that found no room in the log
  std::uint64_t updated_ = 0;
  std::vector<std::uint32_t> column_;  // what a plain loop says
};

template <class Grid>
AppReport run_db_insert(Grid& grid, AppOptions const& options) {
  return DbInserts<Grid>(grid, options).run();
}
template <class Grid>
AppReport run_db_update(Grid& grid, AppOptions const& options) {
  return DbUpdates<Grid>(grid, options).run();
}

}  // namespace perdure::bench::gpm
