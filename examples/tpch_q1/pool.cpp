#include "pool.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace perdure::q1 {
namespace {

constexpr std::uint64_t kCountKey = ~std::uint64_t{0};
constexpr std::uint32_t kMagic = 0x31514854;  // "THQ1", the version with it
constexpr std::size_t kBatch = std::size_t{1} << 20;  // rows

/// The record under kCountKey begins with this; the rest of it is zero.
struct Count {
  std::uint32_t magic = kMagic;
  std::uint32_t low = 0, high = 0;  // of the number of rows
};
static_assert(sizeof(Count) == sizeof(Row));

std::uint64_t key_of_piece(std::size_t column, std::uint64_t piece) {
  return std::uint64_t{column} << 32 | piece;
}

std::vector<std::uint64_t> keys_from(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> keys(count);
  std::iota(keys.begin(), keys.end(), first);
  return keys;
}

Status put(Store& store, std::vector<std::uint64_t> const& keys, std::byte const* values) {
  return store.put(Column::of(keys), {values, nullptr, store.value_bytes(), keys.size()});
}

Status put_count(Store& store, std::uint64_t rows) {
  Count const count{kMagic, static_cast<std::uint32_t>(rows),
                    static_cast<std::uint32_t>(rows >> 32)};
  std::vector<std::byte> value(store.value_bytes());
  std::memcpy(value.data(), &count, sizeof count);
  return put(store, {kCountKey}, value.data());
}

Status put_columns(Store& store, Columns const& from) {
  for (std::size_t c = 0; c < kColumns; ++c) {
    std::size_t const pieces = from.data[c].size() / kRecordBytes;
    if (Status s = put(store, keys_from(key_of_piece(c, 0), pieces), from.data[c].data()); !s.ok())
      return s;
  }
  return {};
}

Row row_at(Columns const& from, std::uint64_t i) {
  return {from.as<std::uint32_t>(Name::price)[i],    from.as<std::uint16_t>(Name::quantity)[i],
          from.as<std::uint16_t>(Name::shipdate)[i], from.as<std::uint8_t>(Name::discount)[i],
          from.as<std::uint8_t>(Name::tax)[i],       from.as<std::uint8_t>(Name::flag)[i],
          from.as<std::uint8_t>(Name::status)[i]};
}

Status put_rows(Store& store, Columns const& from) {
  std::vector<Row> batch;
  for (std::uint64_t first = 0; first < from.rows; first += kBatch) {
    batch.resize(std::min<std::uint64_t>(kBatch, from.rows - first));
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i] = row_at(from, first + i);
    Status const s = put(store, keys_from(first, batch.size()),
                         reinterpret_cast<std::byte const*>(batch.data()));
    if (!s.ok()) return s;
  }
  return {};
}

std::string name_of(Form form, std::uint64_t key) {
  if (form == Form::rows) return "row " + std::to_string(key);
  return "column " + std::string(kKinds[key >> 32].name) + ", piece " +
         std::to_string(key & 0xFFFFFFFF);
}

/// All records are there, and whole.
Status check_all(Store const& store, Form form, std::vector<std::uint64_t> const& keys,
                 std::vector<KeyStatus> const& statuses) {
  auto const bad =
      std::ranges::find_if(statuses, [](KeyStatus one) { return one != KeyStatus::ok; });
  if (bad == statuses.end()) return {};
  return {Code::corrupt,
          "pool " + store.path() + ": " +
              name_of(form, keys[static_cast<std::size_t>(bad - statuses.begin())]) +
              (*bad == KeyStatus::corrupt ? " is damaged: its checksum differs" : " is not there") +
              "; restore a snapshot of the pool, or load lineitem again"};
}

Result<std::uint64_t> get_count(Store& store) {
  std::vector<std::byte> value(store.value_bytes());
  std::array<KeyStatus, 1> status{};
  std::array<std::uint64_t, 1> const key{kCountKey};
  Status const s = store.get(Column::of(key), {value.data(), store.value_bytes(), 1}, status);
  if (!s.ok()) return s;
  Count count;
  std::memcpy(&count, value.data(), sizeof count);
  if (status[0] != KeyStatus::ok || count.magic != kMagic)
    return Status{Code::corrupt,
                  "pool " + store.path() + " has no lineitem, or not all of it: load it again"};
  return std::uint64_t{count.high} << 32 | count.low;
}

std::uint64_t pieces_of(std::uint64_t rows, std::size_t column) {
  return padded_bytes(rows, kKinds[column].width) / kRecordBytes;
}

/// Where the columns lie in the pool.
Status view_columns(Store& store, Table& table) {
  std::vector<std::uint64_t> keys;
  for (std::size_t c = 0; c < kColumns; ++c)
    for (std::uint64_t piece = 0; piece < pieces_of(table.rows, c); ++piece)
      keys.push_back(key_of_piece(c, piece));
  std::vector<KeyStatus> statuses(keys.size());
  auto view = store.view(Column::of(keys), statuses);
  if (!view) return view.status();
  table.memory = view->memory();
  table.view.emplace(std::move(*view));
  return check_all(store, table.form, keys, statuses);
}

Status get_rows(Store& store, Table& table) {
  table.copy = Bytes(padded_bytes(table.rows, sizeof(Row)));
  table.memory = table.copy.span();
  Row* const rows = reinterpret_cast<Row*>(table.copy.data());
  for (std::uint64_t first = 0; first < table.rows; first += kBatch) {
    auto const keys = keys_from(first, std::min<std::uint64_t>(kBatch, table.rows - first));
    std::vector<KeyStatus> statuses(keys.size());
    Status s = store.get(Column::of(keys), MutableColumn::of(std::span(rows + first, keys.size())),
                         statuses);
    if (s.ok()) s = check_all(store, table.form, keys, statuses);
    if (!s.ok()) return s;
  }
  for (std::uint64_t i = table.rows; i < table.copy.size() / sizeof(Row); ++i)
    rows[i].shipdate = kNoDay;
  return {};
}

/// A block never goes over the end of a record.
void find_columns(Table const& table, std::uint64_t first_row, Block& block) {
  std::size_t begin = 0;  // of the column's pieces
  for (std::size_t c = 0; c < kColumns; ++c) {
    std::uint64_t const byte = first_row * kKinds[c].width;
    block.data[c] = (*table.view)[begin + byte / kRecordBytes].data() + byte % kRecordBytes;
    begin += pieces_of(table.rows, c);
  }
}

void cut_into_blocks(Table& table) {
  for (std::uint64_t first = 0; first < table.rows; first += kBlockRows) {
    Block block{};
    std::uint64_t const left = table.rows - first;
    block.rows =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlockRows, (left + 3) / 4 * 4));
    if (table.form == Form::rows)
      block.data[0] = table.copy.data() + first * sizeof(Row);
    else
      find_columns(table, first, block);
    table.blocks.push_back(block);
  }
}

}  // namespace

Status load(std::string const& pool, Columns const& from, Form form) {
  CreateOptions create;
  create.key_bytes = sizeof(std::uint64_t);
  create.value_bytes = form == Form::rows ? sizeof(Row) : kRecordBytes;
  create.expected_records =
      1 + (form == Form::rows ? from.rows : padded_bytes(from.rows, sizeof(Row)) / kRecordBytes);
  create.file.overwrite = true;
  auto store = Store::create(pool, create);
  if (!store) return store.status();
  Status s = form == Form::rows ? put_rows(*store, from) : put_columns(*store, from);
  if (s.ok()) s = put_count(*store, from.rows);
  Status const closed = store->close();
  return s.ok() ? closed : s;
}

Result<Table> open_table(std::string const& pool, Access access) {
  auto store = Store::open(pool, {.read_only = access == Access::reading});
  if (!store) return store.status();
  if (store->key_bytes() != sizeof(std::uint64_t) ||
      (store->value_bytes() != sizeof(Row) && store->value_bytes() != kRecordBytes))
    return Status{Code::invalid_argument,
                  "pool " + pool +
                      " is no pool of lineitem's: its keys or "
                      "values have other sizes; load lineitem into another"};
  Table table;
  table.form = store->value_bytes() == sizeof(Row) ? Form::rows : Form::columns;
  auto rows = get_count(*store);
  if (!rows) return rows.status();
  table.rows = *rows;
  Status s = table.form == Form::rows ? get_rows(*store, table) : view_columns(*store, table);
  if (s.ok()) s = store->close();  // the view stays
  if (!s.ok()) return s;
  cut_into_blocks(table);
  return table;
}

}  // namespace perdure::q1
