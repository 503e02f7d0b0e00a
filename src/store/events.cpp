#include "store/events.hpp"

#include <cstdio>
#include <string_view>

#include "perdure/options.h"

namespace perdure::events {
namespace {

std::string shown(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", seconds);
  return text;
}

double seconds_of(RecoveryReport const& found) {
  return found.replay_seconds + found.map_seconds + found.recover_seconds;
}

std::string recovered(RecoveryReport const& found) {
  std::string text =
      found.counted ? std::to_string(found.records) + " records" : "its records (not yet counted)";
  auto const add = [&text](std::uint64_t count, char const* what) {
    if (count != 0) text += ", " + std::to_string(count) + what;
  };
  add(found.undone, " slots undone");
  add(found.duplicates, " duplicates removed");
  add(found.replayed, " batches replayed");
  if (found.resize_resumed) text += ", a growth goes on";
  return text + " in " + shown(seconds_of(found));
}

/// Messages of statuses begin with the pool's name, which events have by themselves.
std::string without_name(std::string const& path, std::string const& message) {
  std::string const named = "pool " + path;
  for (char const* const behind : {": ", " "})
    if (message.starts_with(named + behind))
      return message.substr(named.size() + std::string_view(behind).size());
  return message;
}

void tell_recovery(std::string const& path, RecoveryReport const& found) {
  if (found.lost_acknowledged)
    log::note(LogLevel::error, "lost", path, "acknowledged batches are lost: " + found.log_report);
  if (!found.clean)
    log::note(LogLevel::info, "recovered", path,
              "was not closed in order; recovered " + recovered(found),
              {{"records", found.records},
               {"undone", found.undone},
               {"duplicates", found.duplicates},
               {"replayed", found.replayed},
               {"dropped", found.dropped},
               {"growth_goes_on", found.resize_resumed},
               {"seconds", seconds_of(found)}});
  if (found.dropped != 0)
    log::note(LogLevel::warning, "dropped", path,
              "dropped " + std::to_string(found.dropped) + " slots: " + found.why_dropped,
              {{"slots", found.dropped}});
  if (found.repaired)
    log::note(LogLevel::warning, "repaired", path, "was damaged, and has been repaired");
  LogLevel const of_change =
      found.repaired || found.dropped != 0 ? LogLevel::warning : LogLevel::info;
  for (std::string const& change : found.changes) log::note(of_change, "changed", path, change);
}

}  // namespace

void opened(std::string_view how, std::string const& path, OpenOptions const& options,
            RecoveryReport const& found, char const* index, double seconds) noexcept try {
  if (!log::heard()) return;
  tell_recovery(path, found);
  if (!log::wants(LogLevel::info)) return;
  char const* const mode = options.live ? "live" : options.read_only ? "read" : "write";
  std::vector<LogField> fields{
      {"index", std::string(index)},
      {"device", std::string(options.device == Device::cpu ? "cpu" : "cuda")},
      {"mode", std::string(mode)},
      {"seconds", seconds}};
  if (found.counted) fields.push_back({"records", found.records});
  log::note(LogLevel::info, how, path, std::string(how) + " in " + shown(seconds),
            std::move(fields));
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

void placed(std::string const& path, Stats const& stats) noexcept try {
  if (!log::heard()) return;
  if (!stats.memory.note.empty())
    log::note(LogLevel::warning, "mirror_lacks", path,
              "the mirror lacks a part: " + stats.memory.note,
              {{"mirror_bytes", stats.memory.mirror_bytes}});
  if (!stats.sharing.note.empty())
    log::note(LogLevel::info, "gets_not_shared", path,
              "gets are not shared: " + stats.sharing.note);
  if (!stats.log.method.empty() && !stats.log.method.starts_with("io_uring, O_DIRECT"))
    log::note(LogLevel::info, "log_falls_back", path, "the log falls back to " + stats.log.method,
              {{"method", stats.log.method}});
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

void not_opened(std::string const& path, Status const& why) noexcept try {
  if (!log::heard()) return;
  bool const damaged = why.code() == Code::corrupt;
  log::note(damaged ? LogLevel::error : LogLevel::debug, damaged ? "damaged" : "refused", path,
            (damaged ? "" : "refused: ") + without_name(path, why.message()),
            {{"code", std::string(name(why.code()))}});
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

void failed(std::string const& path, Status const& why) noexcept try {
  if (!log::heard()) return;
  if (why.code() == Code::no_space)
    log::note(LogLevel::warning, "no_space", path, without_name(path, why.message()));
  else if (why.code() == Code::corrupt)
    log::note(LogLevel::error, "damaged", path, without_name(path, why.message()));
  else if (why.code() == Code::device_error || why.code() == Code::io_error)
    log::note(LogLevel::error, "failed", path, without_name(path, why.message()),
              {{"code", std::string(name(why.code()))}});
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

void closed(std::string const& path, Status const& how, double seconds) noexcept try {
  if (!log::heard()) return;
  if (how.ok())
    log::note(LogLevel::info, "closed", path, "closed in " + shown(seconds),
              {{"seconds", seconds}});
  else
    log::note(LogLevel::error, "not_closed", path,
              "was not closed in order: " + without_name(path, how.message()),
              {{"code", std::string(name(how.code()))}});
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

void verified(std::string const& path, VerifyReport const& found, double seconds) noexcept try {
  if (!log::heard()) return;
  if (found.fault_count == 0)
    return log::note(LogLevel::info, "verified", path,
                     std::to_string(found.records) + " records are good, in " + shown(seconds),
                     {{"records", found.records}, {"seconds", seconds}});
  log::note(LogLevel::error, "faults", path,
            std::to_string(found.fault_count) +
                " faults, the first: " + (found.faults.empty() ? "" : found.faults.front()),
            {{"faults", found.fault_count}, {"records", found.records}});
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

void cached(std::string const& path, CacheReport const& found) noexcept try {
  if (!log::heard()) return;
  if (found.corrupt != 0)
    log::note(LogLevel::error, "cache_corrupt", path,
              std::to_string(found.corrupt) + " records fail their checksum, and are not cached",
              {{"records", found.corrupt}});
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

void snapshot_taken(std::string const& path, std::string const& to, double seconds) noexcept try {
  if (!log::heard()) return;
  log::note(LogLevel::info, "snapshot", path, "snapshot " + to + " in " + shown(seconds),
            {{"file", to}, {"seconds", seconds}});
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

void acknowledged(std::string const& path) noexcept try {
  if (!log::heard()) return;
  log::note(LogLevel::info, "acknowledged", path, "what repairs changed is acknowledged");
} catch (...) {  // without memory the call goes on, and nobody hears of it
}

}  // namespace perdure::events
