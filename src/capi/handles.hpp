// What the objects of perdure/perdure.h are. Invariant: an object that a caller has is whole; what
// it holds is optional only because its memory is taken before the call that fills it, so that no
// pool is made, and no transaction begun, for which there is no object.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "perdure/perdure.h"
#include "perdure/store.h"

struct perdure_error {
  std::string message;
};

struct perdure_store {
  std::optional<perdure::Store> store;
};

struct perdure_transaction {
  std::optional<perdure::Transaction> transaction;
};

struct perdure_table {
  perdure::Table table;
};

struct perdure_stop {
  std::atomic<bool> stopped = false;
};

struct perdure_strings {
  perdure::VariableValues values;
};

struct perdure_page {
  perdure_strings keys;
  perdure_strings values;
};

struct perdure_cursor {
  // of a range: what is left to ask for; none: nothing
  std::variant<perdure::ScanCursor, std::optional<perdure::RangeQuery>> at;
};

struct perdure_lines {
  std::vector<std::string> lines;
};

struct perdure_devices {
  std::vector<perdure::DeviceInfo> devices;
};
