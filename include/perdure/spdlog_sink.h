// A sink of perdure/logging.h that hands events to spdlog. libperdure needs no spdlog: who includes
// this brings it (apt-get install libspdlog-dev; CMake: find_package(spdlog)). Our own programs log
// this way.
#pragma once

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "perdure/logging.h"
#include "perdure/status.h"

namespace perdure {

enum class LogFormat : std::uint8_t { text, json };

[[nodiscard]] inline spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: break;
  }
  return spdlog::level::off;
}

/// Events of this level and above go to `logger`, whose pattern says what stands around them.
inline void log_to_spdlog(std::shared_ptr<spdlog::logger> logger, LogFormat format,
                          LogLevel least = LogLevel::info) {
  logger->set_level(to_spdlog(least));
  set_log_sink(
      [logger = std::move(logger), format](LogEvent const& event) {
        std::string const line = format == LogFormat::json ? as_json(event) : as_text(event);
        logger->log(to_spdlog(event.level), spdlog::string_view_t(line.data(), line.size()));
      },
      least);
}

/// To standard error: a line an event, each whole. `text` with time and level before it.
inline void log_to_stderr(LogFormat format, LogLevel least) {
  auto logger = std::make_shared<spdlog::logger>("perdure",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(format == LogFormat::json ? "%v" : "%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  logger->flush_on(spdlog::level::debug);
  log_to_spdlog(std::move(logger), format, least);
}

/// As the environment's PERDURE_LOG says: a level, or a level and a format, for example "info" or
/// "debug,json". Unset or empty: nothing is logged.
inline Status log_as_environment_says() {
  char const* const said = std::getenv("PERDURE_LOG");
  std::string level = said == nullptr ? "" : said;
  if (level.empty()) return {};
  LogFormat format = LogFormat::text;
  if (auto const comma = level.find(','); comma != std::string::npos) {
    std::string const named = level.substr(comma + 1);
    if (named != "text" && named != "json")
      return {Code::invalid_argument,
              "PERDURE_LOG: " + named + " is no format; write text or json"};
    if (named == "json") format = LogFormat::json;
    level.resize(comma);
  }
  auto const least = log_level_named(level);
  if (!least)
    return {Code::invalid_argument,
            "PERDURE_LOG: " + level + " is no level; write debug, info, warning, error or off"};
  log_to_stderr(format, *least);
  return {};
}

}  // namespace perdure
