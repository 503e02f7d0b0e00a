// What the library has to say of itself beside its answers: opens, what recovery found, fallbacks,
// growth, checkpoints, refusals for lack of space, closes. It writes nothing anywhere: a program
// that wants to know sets a sink. perdure/spdlog_sink.h has one for spdlog.
//
// Invariants: without a sink nothing is made of events but a look at a level. The sink is called by
// the thread whose call brought the event, when the library holds no lock of its own, so a slow one
// delays that call alone; before the call returns. What it throws is dropped, and the event with
// it; so are events of calls that the sink makes itself. In a forked child there is no sink, until
// the child sets one. No call on single keys or batches that does what it was asked to is an event.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "perdure/export.h"

namespace perdure {

/// error: acknowledged data is lost or damaged, or a store writes no more. warning: something was
/// dropped or mended, or room is too little. info: what operators want to see of a healthy store.
/// debug: what the caller learns anyway, by a status.
enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

struct LogField {
  std::string_view name;  // of letters and underscores, there for as long as the program
  std::variant<bool, std::uint64_t, double, std::string> value;
};

struct LogEvent {
  LogLevel level = LogLevel::info;
  std::string_view name;  // for example "opened"; docs/guide/operations.md has all
  std::string pool;  // its path; empty where there is none
  std::string message;  // for people, without the pool's name
  std::vector<LogField> fields;
  std::chrono::system_clock::time_point time;
};

using LogSink = std::function<void(LogEvent const&)>;

/// From here on `sink` gets events of this level and above; null: nobody does. Waits until no
/// thread is in the sink before. Not to be called by a sink.
PERDURE_API void set_log_sink(LogSink sink, LogLevel least = LogLevel::info);

/// For example "recovered"'s `pool=/dev/shm/a event=recovered records=100 seconds=0.012
/// message="..."`; a value with blanks or quotes is quoted as JSON has it.
[[nodiscard]] PERDURE_API std::string as_text(LogEvent const& event);
/// One object on one line: time (RFC 3339, UTC), level, event, pool, message, and the fields.
[[nodiscard]] PERDURE_API std::string as_json(LogEvent const& event);

[[nodiscard]] PERDURE_API std::string_view name(LogLevel level);
/// None: no level has this name.
[[nodiscard]] PERDURE_API std::optional<LogLevel> log_level_named(std::string_view name);

}  // namespace perdure
