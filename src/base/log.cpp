#include "base/log.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

#include "base/process.hpp"

namespace perdure {
namespace {

struct Sink {
  std::shared_mutex mutex;  // guards `call`; shared while it is called
  LogSink call;
  std::atomic<std::uint64_t> process{0};  // that set it
};

/// Never destroyed: stores may be closed after static objects are.
Sink& the_sink() {
  static auto* const sink = new Sink;
  return *sink;
}

thread_local std::vector<LogEvent> kept_here;
thread_local bool in_sink = false;

constexpr std::array<std::string_view, 5> kLevels{"debug", "info", "warning", "error", "off"};

void append_quoted(std::string& to, std::string_view text) {
  to += '"';
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (to += '\\') += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", byte);
      to += code;
    } else {
      to += c;
    }
  }
  to += '"';
}

/// Bare where a reader of key=value tells its end.
void append_word(std::string& to, std::string_view text) {
  bool bare = !text.empty();
  for (char const c : text) bare = bare && c > ' ' && c != '"' && c != '=' && c != 0x7f;
  bare ? void(to += text) : append_quoted(to, text);
}

std::string number_of(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

void append_value(std::string& to, LogField const& field, bool json) {
  if (auto const* const flag = std::get_if<bool>(&field.value)) to += *flag ? "true" : "false";
  if (auto const* const count = std::get_if<std::uint64_t>(&field.value))
    to += std::to_string(*count);
  if (auto const* const real = std::get_if<double>(&field.value)) to += number_of(*real);
  if (auto const* const text = std::get_if<std::string>(&field.value))
    json ? append_quoted(to, *text) : append_word(to, *text);
}

std::string in_utc(std::chrono::system_clock::time_point time) {
  using std::chrono::duration_cast, std::chrono::milliseconds;
  auto const ms = duration_cast<milliseconds>(time.time_since_epoch()).count();
  auto const seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char day[32], text[48];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%03dZ", day, static_cast<int>(ms % 1000));
  return text;
}

}  // namespace

namespace log {

void note(LogLevel level, std::string_view name, std::string const& pool, std::string message,
          std::vector<LogField> fields) noexcept {
  if (!wants(level) || in_sink) return;
  try {
    kept_here.push_back({level, name, pool, std::move(message), std::move(fields),
                         std::chrono::system_clock::now()});
    detail::kept.fetch_add(1, std::memory_order_relaxed);
  } catch (...) {  // the call goes on without it
  }
}

void detail::deliver() noexcept {
  if (in_sink || kept_here.empty()) return;
  std::vector<LogEvent> const events = std::exchange(kept_here, {});
  kept.fetch_sub(events.size(), std::memory_order_relaxed);
  Sink& sink = the_sink();
  // A fork copies events that threads of the parent had, and its locks as they were: a child looks
  // at neither.
  if (least.load(std::memory_order_relaxed) == LogLevel::off) return;
  if (sink.process != this_process()) return;
  std::shared_lock const lock(sink.mutex);
  if (!sink.call) return;
  in_sink = true;
  for (LogEvent const& event : events) {
    try {
      sink.call(event);
    } catch (...) {  // whoever wrote the sink has it; the engine goes on
    }
  }
  in_sink = false;
}

}  // namespace log

void set_log_sink(LogSink call, LogLevel least) {
  Sink& sink = the_sink();
  if (sink.process != 0 && sink.process != this_process()) {
    // Of the parent, whose threads may have had the lock: it is never used again.
    new (&sink.mutex) std::shared_mutex;
  }
  std::unique_lock const lock(sink.mutex);
  sink.process = this_process();
  log::detail::least = call ? least : LogLevel::off;
  sink.call = std::move(call);
}

std::string as_text(LogEvent const& event) {
  std::string line;
  if (!event.pool.empty()) append_word(line += "pool=", event.pool), line += ' ';
  append_word(line += "event=", event.name);
  for (LogField const& field : event.fields) {
    ((line += ' ') += field.name) += '=';
    append_value(line, field, false);
  }
  append_word(line += " message=", event.message);
  return line;
}

std::string as_json(LogEvent const& event) {
  std::string line = "{\"time\": \"" + in_utc(event.time) + "\", \"level\": \"";
  line += name(event.level);
  append_quoted(line += "\", \"event\": ", event.name);
  if (!event.pool.empty()) append_quoted(line += ", \"pool\": ", event.pool);
  append_quoted(line += ", \"message\": ", event.message);
  for (LogField const& field : event.fields) {
    append_quoted(line += ", ", field.name);
    append_value(line += ": ", field, true);
  }
  return line += '}';
}

std::string_view name(LogLevel level) {
  auto const at = static_cast<std::size_t>(level);
  return at < kLevels.size() ? kLevels[at] : "unknown";
}

std::optional<LogLevel> log_level_named(std::string_view name) {
  for (std::size_t i = 0; i < kLevels.size(); ++i)
    if (kLevels[i] == name) return static_cast<LogLevel>(i);
  return std::nullopt;
}

}  // namespace perdure
