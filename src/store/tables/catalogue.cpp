#include "store/tables/catalogue.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "base/hooks.hpp"
#include "base/utf8.hpp"
#include "store/tables/catalogue_format.hpp"

namespace perdure::tables {
namespace {

constexpr int kTries = 20;  // a reader beside its writer may miss what moves
constexpr std::chrono::milliseconds kBetweenTries(1);
constexpr std::uint64_t kEntriesAPage = 1024;
constexpr std::uint32_t kKeyBytes = sizeof(TableKey);

Status refused(CatalogueRecords const& pool, Code code, std::string const& why) {
  return {code, "pool " + pool.path() + ": " + why};
}

std::string in_quotes(std::string_view name) { return "'" + std::string(name) + "'"; }

Status entry_missing(CatalogueRecords const& pool, std::int64_t number) {
  return refused(pool, Code::corrupt,
                 "the entry of table " + std::to_string(number) + " is missing; restore the pool");
}

Status no_such_table(CatalogueRecords const& pool, std::string_view name,
                     std::vector<Table> const& tables) {
  std::string names;
  for (Table const& one : tables) names += (names.empty() ? "" : ", ") + in_quotes(one.name);
  return refused(pool, Code::not_found,
                 "it has no table " + in_quotes(name) + " (" +
                     (names.empty() ? "none yet" : names) +
                     "); give the bytes of its rows to make it");
}

/// What is read of ids that were there before: again where a reader missed some.
Result<std::vector<CatalogueRecords::Found>> read_all(CatalogueRecords& pool,
                                                      std::span<std::int64_t const> ids) {
  for (int tries = 1;; ++tries) {
    auto found = pool.read(ids);
    if (!found) return found;
    bool all = true;
    for (auto const& one : *found) all = all && one.status == KeyStatus::ok;
    if (all || tries == kTries) return found;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace

Result<Table> Catalogue::table(CatalogueRecords& pool, std::string_view name,
                               std::uint32_t row_bytes) {
  auto found = known(name);
  if (!found) {
    if (Status s = refresh(pool); !s.ok()) return s;
    found = known(name);
  }
  if (!found && row_bytes != 0) return make(pool, name, row_bytes);
  if (!found) {
    MutexLock const lock(mutex_);
    return no_such_table(pool, name, tables_);
  }
  if (row_bytes == 0 || row_bytes == found->row_bytes) return *found;
  return refused(pool, Code::invalid_argument,
                 "rows of table " + in_quotes(name) + " have " + std::to_string(found->row_bytes) +
                     " bytes, not " + std::to_string(row_bytes));
}

Result<std::vector<Table>> Catalogue::all(CatalogueRecords& pool) {
  if (Status s = refresh(pool); !s.ok()) return s;
  MutexLock const lock(mutex_);
  return tables_;
}

Status Catalogue::check(CatalogueRecords& pool, Table const& table) {
  auto const is_known = [&] {
    MutexLock const lock(mutex_);
    if (table.number == 0 || table.number > tables_.size()) return false;
    Table const& known = tables_[table.number - 1];
    return known.row_bytes == table.row_bytes && known.name == table.name;
  };
  if (is_known()) return {};
  if (Status s = refresh(pool); !s.ok()) return s;
  if (is_known()) return {};
  return refused(pool, Code::invalid_argument,
                 "table " + in_quotes(table.name) + " is of another pool; take it from this one");
}

std::optional<Table> Catalogue::known(std::string_view name) const {
  MutexLock const lock(mutex_);
  auto const at = numbers_.find(name);
  return at == numbers_.end() ? std::nullopt : std::optional(tables_[at->second - 1]);
}

std::uint64_t Catalogue::known_tables() const {
  MutexLock const lock(mutex_);
  return tables_.size();
}

/// Tables from number `first` on, some of which another thread may have kept meanwhile.
void Catalogue::keep(std::uint64_t first, std::vector<Table> found) {
  MutexLock const lock(mutex_);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (first + i != tables_.size() + 1) continue;
    // A name must never lead to a table that is not there, whatever lacks memory.
    if (tables_.size() == tables_.capacity()) tables_.reserve(2 * tables_.size() + 1);
    numbers_.emplace(found[i].name, first + i);
    tables_.push_back(std::move(found[i]));
  }
}

/// Page by page, so that a count that nobody can have written asks for no more memory than one.
Status Catalogue::refresh(CatalogueRecords& pool) {
  auto tables = count(pool);
  if (!tables) return tables.status();
  for (std::uint64_t first = known_tables() + 1; first <= *tables; first = known_tables() + 1) {
    std::vector<std::int64_t> ids(std::min(*tables - first + 1, kEntriesAPage));
    std::iota(ids.begin(), ids.end(), static_cast<std::int64_t>(first));
    auto entries = read_all(pool, ids);
    if (!entries) return entries.status();
    std::vector<Table> found;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      auto entry = entry_in((*entries)[i].content);
      if ((*entries)[i].status != KeyStatus::ok || !entry) return entry_missing(pool, ids[i]);
      found.push_back({std::move(entry->name), first + i, entry->row_bytes});
    }
    keep(first, std::move(found));
  }
  return {};
}

Result<std::uint64_t> Catalogue::count(CatalogueRecords& pool) const {
  if (pool.key_bytes() != kKeyBytes || pool.most_value_bytes() < kLeastValue)
    return refused(
        pool, Code::unsupported,
        "tables need keys of " + std::to_string(kKeyBytes) +
            " bytes, and values of the widest row's bytes, or of any length up to that, " +
            std::to_string(kLeastValue) + " at least; make such a pool");
  std::int64_t const at_count = 0;
  auto found = pool.read({&at_count, 1});
  if (!found) return found.status();
  CatalogueRecords::Found const& one = found->front();
  if (one.status == KeyStatus::not_found) return std::uint64_t{0};
  if (one.status != KeyStatus::ok)
    return refused(pool, Code::corrupt,
                   "the count of its tables fails its checksum; run verify, or restore the pool");
  auto const tables = count_in(one.content);
  if (tables) return *tables;
  return refused(pool, Code::unsupported,
                 "what stands at id 0 of table 0 is no catalogue of tables of version " +
                     std::to_string(kVersion) + "; a later perdure may read it");
}

/// What a name and a width have to be, and the pool for its first table.
Status Catalogue::check_new(CatalogueRecords& pool, std::string_view name,
                            std::uint32_t row_bytes) const {
  std::uint32_t const most = pool.most_value_bytes();
  auto const most_name = static_cast<std::uint32_t>(most - sizeof(EntryRecord));
  if (row_bytes > most)
    return refused(pool, Code::invalid_argument,
                   "rows of " + std::to_string(row_bytes) +
                       " bytes; those of this pool have 1 to " + std::to_string(most));
  if (name.empty() || name.size() > most_name)
    return refused(pool, Code::invalid_argument,
                   "a name of " + std::to_string(name.size()) +
                       " bytes; names of tables have 1 to " + std::to_string(most_name) + " here");
  if (!is_utf8(name))
    return refused(pool, Code::invalid_argument,
                   "a name of a table that is no UTF-8; other languages could not read it");
  if (known_tables() != 0) return {};
  auto records = pool.records();
  if (!records) return records.status();
  // The entry of a first table, which a kill kept from counting, may be there.
  std::int64_t const first = 1;
  auto left = pool.read({&first, 1});
  if (!left) return left.status();
  bool const begun = left->front().status == KeyStatus::ok && entry_in(left->front().content);
  if (*records == (begun ? 1u : 0u)) return {};
  return refused(pool, Code::invalid_argument,
                 "it holds keys of no table; make tables in a new pool");
}

Result<Table> Catalogue::make(CatalogueRecords& pool, std::string_view name,
                              std::uint32_t row_bytes) {
  if (Status s = pool.may_make(name); !s.ok()) return s;
  MutexLock const one_at_a_time(making_);
  if (Status s = refresh(pool); !s.ok()) return s;  // another thread may have made it
  if (known(name)) return table(pool, name, row_bytes);
  if (Status s = check_new(pool, name, row_bytes); !s.ok()) return s;
  std::uint64_t const number = known_tables() + 1;
  auto const write_entry = [&] {
    return pool.write(static_cast<std::int64_t>(number), entry_content(name, row_bytes));
  };
  auto const write_count = [&] { return pool.write(0, count_content(number)); };
  bool const swapped = mutated("catalogue_counts_before_entry");
  if (Status s = swapped ? write_count() : write_entry(); !s.ok()) return s;
  if (Status s = swapped ? write_entry() : write_count(); !s.ok()) return s;
  Table made{std::string(name), number, row_bytes};
  keep(number, {made});
  return made;
}

}  // namespace perdure::tables
