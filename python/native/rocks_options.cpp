// Option by option, so that RocksDB's refusal is of one name, and each goes to the database or to
// the family by who knows it.
#include "rocks_options.hpp"

#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>

#include <unordered_map>
#include <utility>

namespace perdure::python {
namespace {

rocksdb::ConfigOptions strict() {
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  config.ignore_unsupported_options = false;  // else an operator of no known name is none
  config.input_strings_escaped = true;
  return config;
}

bool is_unknown(rocksdb::Status const& status) {
  return status.ToString().find("Could not find option") != std::string::npos;
}

/// What RocksDB says, without the code before it, which the class of the exception tells.
std::string said_by(rocksdb::Status const& status) {
  char const* const state = status.getState();
  return state == nullptr ? status.ToString() : state;
}

Status refused(std::string const& name, std::string const& text, rocksdb::Status const& status) {
  if (is_unknown(status))
    return {Code::invalid_argument,
            "option " + name + ": RocksDB has none of this name here; see its options.h"};
  return {Code::invalid_argument, "option " + name + "=" + text + ": " + said_by(status)};
}

rocksdb::Status set(rocksdb::DBOptions& options, std::string const& name, std::string const& text) {
  rocksdb::DBOptions const base = options;
  return rocksdb::GetDBOptionsFromMap(strict(), base, {{name, text}}, &options);
}

rocksdb::Status set(rocksdb::ColumnFamilyOptions& options, std::string const& name,
                    std::string const& text) {
  rocksdb::ColumnFamilyOptions const base = options;
  return rocksdb::GetColumnFamilyOptionsFromMap(strict(), base, {{name, text}}, &options);
}

Code code_of(rocksdb::Status const& status, std::string const& said) {
  auto const says = [&](char const* words) { return said.find(words) != std::string::npos; };
  if (status.IsPathNotFound()) return Code::not_found;
  if (says("exists (error_if_exists is true)")) return Code::already_exists;
  if (says("While lock file") || says("lock hold by current process") || status.IsBusy() ||
      status.IsTryAgain())
    return Code::busy;
  if (status.IsNoSpace()) return Code::no_space;
  if (status.IsCorruption()) return Code::corrupt;
  if (status.IsNotSupported()) return Code::unsupported;
  if (status.IsInvalidArgument()) return Code::invalid_argument;
  if (status.IsNotFound()) return Code::not_found;
  if (status.IsAborted() || status.IsShutdownInProgress()) return Code::closed;
  return Code::io_error;
}

}  // namespace

Status status_of(rocksdb::Status const& status, std::string const& what) {
  if (status.ok()) return {};
  std::string const said = status.ToString();
  Code const code = code_of(status, said);
  if (code == Code::busy && status.IsIOError())
    return {code, what + " is open already, in this process or another; close it there first"};
  if (code == Code::already_exists)
    return {code, what + " is there already; open it, or name another directory"};
  if (said.find("merge_operator != nullptr") != said.npos)
    return {code, what +
                      ": this column family has no merge operator; name one when it is opened "
                      "(merge_operator=)"};
  return {code, what + ": " + said_by(status)};
}

Result<OptionTexts> split_options(std::string const& text) {
  std::unordered_map<std::string, std::string> found;
  if (auto s = rocksdb::StringToMap(text, &found); !s.ok())
    return Status(Code::invalid_argument,
                  "options: " + said_by(s) + "; write NAME=VALUE;NAME={NAME=VALUE;...}");
  return OptionTexts(found.begin(), found.end());
}

Status set_options(OptionTexts const& texts, rocksdb::DBOptions& database,
                   rocksdb::ColumnFamilyOptions& family) {
  for (auto const& [name, text] : texts) {
    rocksdb::Status s = set(database, name, text);
    if (is_unknown(s)) s = set(family, name, text);
    if (!s.ok()) return refused(name, text, s);
  }
  return {};
}

Status set_family_options(OptionTexts const& texts, rocksdb::ColumnFamilyOptions& family) {
  for (auto const& [name, text] : texts)
    if (auto s = set(family, name, text); !s.ok()) return refused(name, text, s);
  return {};
}

Status set_merge_operator(std::string const& name, rocksdb::ColumnFamilyOptions& family) {
  if (name.empty()) return {};
  auto const s = rocksdb::MergeOperator::CreateFromString(strict(), name, &family.merge_operator);
  if (s.ok()) return {};
  return {Code::invalid_argument, "merge_operator: RocksDB has none of the name " + name +
                                      "; it has uint64add, stringappend, max and put"};
}

}  // namespace perdure::python
