// Named tables: ids, rows and statuses are the caller's, and are handed on as they are.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capi/growing.hpp"
#include "capi/guard.hpp"
#include "capi/options.hpp"

namespace perdure::capi {
namespace {

/// A batch with the tables that its view is of.
struct HeldBatch {
  std::vector<Table> tables;
  TableBatch view;
};

Result<HeldBatch> held_batch(perdure_table_batch const* given) {
  if (given == nullptr) return no_argument("batch");
  perdure_table_batch usual = {};
  usual.struct_bytes = sizeof(usual);
  auto const read = read_growing(given, usual, "table batch");
  if (!read.ok()) return read.status();
  perdure_table_batch const& b = read.value();
  if (b.tables == nullptr && b.table_count != 0) return no_argument("tables");
  if (b.ids == nullptr && b.count != 0) return no_argument("ids");
  HeldBatch held;
  for (std::size_t t = 0; t < b.table_count; ++t) {
    if (b.tables[t] == nullptr) return no_argument("a table");
    held.tables.push_back(b.tables[t]->table);
  }
  held.view.ids = {b.ids, b.count};
  if (b.offsets != nullptr) held.view.offsets = {b.offsets, b.table_count + 1};
  return held;
}

/// call(Store&, TableBatch const&, span of statuses, CallOptions const&). `rows`: null is refused
/// where there are bytes.
template <class Call>
perdure_code table_batch(perdure_store* store, perdure_table_batch const* given, void const* rows,
                         std::size_t bytes, std::uint8_t* statuses,
                         perdure_call_options const* options, perdure_error** error, Call&& call) {
  return in_store(store, error, [&](Store& open) -> Status {
    auto held = held_batch(given);
    if (!held.ok()) return held.status();
    if (rows == nullptr && bytes != 0) return no_argument("rows");
    auto const how = call_options(options);
    if (!how.ok()) return how.status();
    held->view.tables = held->tables;
    std::span<KeyStatus> const each(reinterpret_cast<KeyStatus*>(statuses),
                                    statuses != nullptr ? held->view.ids.size() : 0);
    return call(open, held->view, each, how.value());
  });
}

}  // namespace
}  // namespace perdure::capi

namespace capi = perdure::capi;
using perdure::CallOptions;
using perdure::KeyStatus;
using perdure::Status;
using perdure::Store;
using perdure::TableBatch;

extern "C" {

perdure_code perdure_find_table(perdure_store* store, char const* name, std::uint32_t row_bytes,
                                perdure_table** table, perdure_error** error) {
  capi::clear(table);
  return capi::in_store(store, error, [&](Store& open) -> Status {
    if (name == nullptr) return capi::no_argument("name");
    return capi::make(table, "table", [&](perdure_table& object) -> Status {
      auto found = open.table(name, row_bytes);
      if (!found.ok()) return found.status();
      object.table = std::move(*found);
      return {};
    });
  });
}

perdure_code perdure_list_tables(perdure_store* store, perdure_lines** names,
                                 perdure_error** error) {
  capi::clear(names);
  return capi::in_store(store, error, [&](Store& open) {
    return capi::make(names, "names", [&](perdure_lines& object) -> Status {
      auto tables = open.tables();
      if (!tables.ok()) return tables.status();
      for (perdure::Table& one : *tables) object.lines.push_back(std::move(one.name));
      return {};
    });
  });
}

char const* perdure_table_name(perdure_table const* table) {
  return table != nullptr ? table->table.name.c_str() : "";
}
std::uint64_t perdure_table_number(perdure_table const* table) {
  return table != nullptr ? table->table.number : 0;
}
std::uint32_t perdure_table_row_bytes(perdure_table const* table) {
  return table != nullptr ? table->table.row_bytes : 0;
}
void perdure_table_free(perdure_table* table) { delete table; }

perdure_code perdure_get_tables(perdure_store* store, perdure_table_batch const* batch, void* rows,
                                std::size_t bytes, std::uint8_t* statuses,
                                perdure_call_options const* options, perdure_error** error) {
  return capi::table_batch(
      store, batch, rows, bytes, statuses, options, error,
      [&](Store& open, TableBatch const& ids, std::span<KeyStatus> each, CallOptions const& how) {
        return open.get_tables(ids, {static_cast<std::byte*>(rows), bytes}, each, how);
      });
}

perdure_code perdure_put_tables(perdure_store* store, perdure_table_batch const* batch,
                                void const* rows, std::size_t bytes, std::uint8_t* statuses,
                                perdure_call_options const* options, perdure_error** error) {
  return capi::table_batch(
      store, batch, rows, bytes, statuses, options, error,
      [&](Store& open, TableBatch const& ids, std::span<KeyStatus> each, CallOptions const& how) {
        return open.put_tables(ids, {static_cast<std::byte const*>(rows), bytes}, each, how);
      });
}

perdure_code perdure_update_tables(perdure_store* store, perdure_table_batch const* batch,
                                   void const* operands, std::size_t bytes, std::uint32_t rmw,
                                   std::uint32_t element, std::uint8_t* statuses,
                                   perdure_call_options const* options, perdure_error** error) {
  return capi::table_batch(
      store, batch, operands, bytes, statuses, options, error,
      [&](Store& open, TableBatch const& ids, std::span<KeyStatus> each,
          CallOptions const& how) -> Status {
        capi::Fields fields;
        auto const operation = fields.one_of(rmw, perdure::Rmw::max, "rmw");
        auto const kind = fields.one_of(element, perdure::Element::f64, "element");
        if (!fields.status().ok()) return fields.status();
        return open.update_tables(ids, {static_cast<std::byte const*>(operands), bytes}, operation,
                                  kind, each, how);
      });
}

perdure_code perdure_erase_tables(perdure_store* store, perdure_table_batch const* batch,
                                  std::uint8_t* statuses, perdure_call_options const* options,
                                  perdure_error** error) {
  return capi::table_batch(
      store, batch, nullptr, 0, statuses, options, error,
      [](Store& open, TableBatch const& ids, std::span<KeyStatus> each, CallOptions const& how) {
        return open.erase_tables(ids, each, how);
      });
}

}  // extern "C"
