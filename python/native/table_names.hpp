// Named tables of whoever has a pool, a Store or a PoolReader, as (name, number, row_bytes).
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "errors.hpp"
#include "gil.hpp"
#include "perdure/tables.h"

namespace perdure::python {

inline nb::tuple table_tuple(Table const& table) {
  return nb::make_tuple(nb::str(table.name.data(), table.name.size()), table.number,
                        table.row_bytes);
}

/// `row_bytes`: 0 of a table that is there, whatever its width.
template <class Pool>
nb::tuple table_of(Pool& pool, std::string const& name, std::uint32_t row_bytes) {
  return table_tuple(value_or_raise(without_gil([&] { return pool.table(name, row_bytes); })));
}

template <class Pool>
nb::list tables_of(Pool& pool) {
  auto const tables = value_or_raise(without_gil([&] { return pool.tables(); }));
  nb::list all;
  for (Table const& one : tables) all.append(table_tuple(one));
  return all;
}

}  // namespace perdure::python
