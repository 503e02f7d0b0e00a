// RocksDB's options by their names and texts, as its own options files have them, and what a failed
// call of RocksDB is to a user of Python.
// Invariant: an option that neither a database nor a column family has is refused by its name.
#pragma once

#include <rocksdb/options.h>

#include <map>
#include <string>

#include "perdure/status.h"

namespace perdure::python {

using OptionTexts = std::map<std::string, std::string>;

/// The project's status of what RocksDB says; `what` names what was worked on.
[[nodiscard]] Status status_of(rocksdb::Status const& status, std::string const& what);

/// "a=1;b={c=2}" as names and texts.
[[nodiscard]] Result<OptionTexts> split_options(std::string const& text);
/// Sets each option where it belongs, in the database's options or in the family's.
[[nodiscard]] Status set_options(OptionTexts const& texts, rocksdb::DBOptions& database,
                                 rocksdb::ColumnFamilyOptions& family);
/// As above, but those of a family alone.
[[nodiscard]] Status set_family_options(OptionTexts const& texts,
                                        rocksdb::ColumnFamilyOptions& family);
/// By a name that RocksDB knows: "uint64add", "stringappend", "max", "put".
[[nodiscard]] Status set_merge_operator(std::string const& name,
                                        rocksdb::ColumnFamilyOptions& family);

}  // namespace perdure::python
