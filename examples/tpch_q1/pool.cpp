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

/// The values of keys that all are there, whole. `what` is what they are, with the first's number.
Status get(Store& store, std::vector<std::uint64_t> const& keys, std::byte* to,
           std::string const& what, std::uint64_t first) {
  std::vector<KeyStatus> statuses(keys.size());
  Status const s = store.get(Column::of(keys), {to, store.value_bytes(), keys.size()}, statuses);
  if (!s.ok()) return s;
  auto const bad =
      std::ranges::find_if(statuses, [](KeyStatus one) { return one != KeyStatus::ok; });
  if (bad == statuses.end()) return {};
  auto const number = first + static_cast<std::uint64_t>(bad - statuses.begin());
  return {Code::corrupt,
          "pool " + store.path() + ": " + what + " " + std::to_string(number) +
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

Status get_columns(Store& store, Table& table) {
  for (std::size_t c = 0; c < kColumns; ++c) {
    Bytes& column = table.memory.emplace_back(padded_bytes(table.rows, kKinds[c].width));
    auto const keys = keys_from(key_of_piece(c, 0), column.size() / kRecordBytes);
    std::string const what = "column " + std::string(kKinds[c].name) + ", piece";
    if (Status s = get(store, keys, column.data(), what, 0); !s.ok()) return s;
  }
  return {};
}

Status get_rows(Store& store, Table& table) {
  Bytes& all = table.memory.emplace_back(padded_bytes(table.rows, sizeof(Row)));
  Row* const rows = reinterpret_cast<Row*>(all.data());
  for (std::uint64_t first = 0; first < table.rows; first += kBatch) {
    auto const keys = keys_from(first, std::min<std::uint64_t>(kBatch, table.rows - first));
    Status const s = get(store, keys, reinterpret_cast<std::byte*>(rows + first), "row", first);
    if (!s.ok()) return s;
  }
  for (std::uint64_t i = table.rows; i < all.size() / sizeof(Row); ++i) rows[i].shipdate = kNoDay;
  return {};
}

void cut_into_blocks(Table& table) {
  for (std::uint64_t first = 0; first < table.rows; first += kBlockRows) {
    Block block{};
    std::uint64_t const left = table.rows - first;
    block.rows =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlockRows, (left + 3) / 4 * 4));
    for (std::size_t c = 0; c < table.memory.size(); ++c)
      block.data[c] = table.memory[c].data() +
                      first * (table.form == Form::rows ? sizeof(Row) : kKinds[c].width);
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

Result<Table> read_pool(std::string const& pool) {
  auto store = Store::open(pool, {.read_only = true});
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
  Status s = table.form == Form::rows ? get_rows(*store, table) : get_columns(*store, table);
  if (s.ok()) s = store->close();
  if (!s.ok()) return s;
  cut_into_blocks(table);
  return table;
}

}  // namespace perdure::q1
