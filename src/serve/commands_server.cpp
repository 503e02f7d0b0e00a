// Commands about the server: INFO, CONFIG GET, COMMAND, SAVE, SHUTDOWN and their like.
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "serve/command.hpp"

namespace perdure::serve {
namespace {

/// Lines of INFO, in sections.
class Info {
 public:
  explicit Info(Arguments arguments) {
    for (std::size_t i = 1; i < arguments.size(); ++i) asked_.push_back(in_small(arguments[i]));
  }
  bool section(std::string_view name) {
    std::string const small = in_small(name);
    for (std::string const& asked : asked_)
      if (asked == small || asked == "all" || asked == "default" || asked == "everything")
        return begin(name);
    return asked_.empty() && begin(name);
  }
  void line(std::string_view name, std::string_view value) {
    text_ += name;
    text_ += ':';
    text_ += value;
    text_ += "\r\n";
  }
  void line(std::string_view name, std::uint64_t value) { line(name, std::to_string(value)); }
  [[nodiscard]] std::string const& text() const { return text_; }

 private:
  bool begin(std::string_view name) {
    if (!text_.empty()) text_ += "\r\n";
    text_ += "# ";
    text_ += name;
    text_ += "\r\n";
    return true;
  }
  std::vector<std::string> asked_;
  std::string text_;
};

void server_section(Info& info, ServerState const& server) {
  utsname system{};
  ::uname(&system);
  info.line("redis_version", kRedisVersion);
  info.line("perdure_version", version());
  info.line("redis_mode", "standalone");
  info.line("os", std::string(system.sysname) + " " + system.release + " " + system.machine);
  info.line("arch_bits", std::uint64_t{64});
  info.line("process_id", static_cast<std::uint64_t>(::getpid()));
  info.line("run_id", server.run_id);
  info.line("tcp_port", std::uint64_t{server.port});
  auto const seconds = static_cast<std::uint64_t>((server.now_ms - server.started_ms) / 1000);
  info.line("uptime_in_seconds", seconds);
  info.line("uptime_in_days", seconds / 86'400);
}

void memory_section(Info& info, Stats const& stats) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  info.line("used_memory", stats.space.used_bytes);
  info.line("used_memory_rss", static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
  info.line("pool_bytes", stats.space.pool_bytes);
  info.line("maxmemory", std::uint64_t{0});
  info.line("maxmemory_policy", "noeviction");
}

void persistence_section(Info& info, ServerState const& server, Stats const& stats) {
  info.line("loading", std::uint64_t{0});
  info.line("rdb_bgsave_in_progress", std::uint64_t{server.saving});
  info.line("rdb_last_save_time", static_cast<std::uint64_t>(server.last_save_s));
  info.line("rdb_last_bgsave_status", server.last_save_failed ? "err" : "ok");
  info.line("aof_enabled", std::uint64_t{0});
  info.line("perdure_log_used_bytes", stats.log.used_bytes);
  info.line("perdure_checkpoints", stats.log.checkpoints);
}

void stats_section(Info& info, ServerState const& server) {
  info.line("total_connections_received", server.connections);
  info.line("total_commands_processed", server.commands);
  info.line("total_net_input_bytes", server.bytes_in);
  info.line("total_net_output_bytes", server.bytes_out);
  info.line("rejected_connections", server.rejected_full + server.rejected_strangers);
  info.line("expired_keys", server.expired_keys);
  info.line("evicted_keys", std::uint64_t{0});
  info.line("keyspace_hits", server.hits);
  info.line("keyspace_misses", server.misses);
  info.line("client_output_buffer_limit_disconnections", server.dropped_slow);
  info.line("perdure_turns", server.turns);
  info.line("perdure_largest_turn", server.largest_turn);
  info.line("perdure_refused_writes", server.refused_writes);
}

void cpu_section(Info& info) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto const line = [&](std::string_view name, timeval const& time) {
    char text[48];
    std::snprintf(text, sizeof text, "%lld.%06lld", static_cast<long long>(time.tv_sec),
                  static_cast<long long>(time.tv_usec));
    info.line(name, text);
  };
  line("used_cpu_sys", usage.ru_stime);
  line("used_cpu_user", usage.ru_utime);
}

}  // namespace

void run_info(Call& call) {
  Info info(call.arguments);
  Stats const stats = call.keys.stats();
  ServerState const& server = call.server;
  if (info.section("Server")) server_section(info, server);
  if (info.section("Clients")) {
    info.line("connected_clients", server.sessions.size());
    info.line("maxclients", server.options.most_clients);
    info.line("blocked_clients", std::uint64_t{0});
  }
  if (info.section("Memory")) memory_section(info, stats);
  if (info.section("Persistence")) persistence_section(info, server, stats);
  if (info.section("Stats")) stats_section(info, server);
  if (info.section("Replication")) {
    info.line("role", "master");
    info.line("connected_slaves", std::uint64_t{0});
  }
  if (info.section("CPU")) cpu_section(info);
  if (info.section("Cluster")) info.line("cluster_enabled", std::uint64_t{0});
  if (info.section("Keyspace")) {
    std::uint64_t const records = call.keys.records();
    if (records != 0)
      info.line("db0", "keys=" + std::to_string(records) +
                           ",expires=" + std::to_string(server.expiring_records) + ",avg_ttl=0");
  }
  call.reply.verbatim(info.text());
}

namespace {

std::vector<std::pair<std::string, std::string>> settings(ServerState const& server) {
  ServeOptions const& o = server.options;
  return {{"appendfsync", "always"},
          {"appendonly", "no"},
          {"bind", o.host},
          {"databases", "1"},
          {"maxclients", std::to_string(o.most_clients)},
          {"maxmemory", "0"},
          {"maxmemory-policy", "noeviction"},
          {"port", std::to_string(server.port)},
          {"protected-mode", o.protected_mode ? "yes" : "no"},
          {"proto-max-bulk-len", std::to_string(o.most_value_bytes)},
          {"requirepass", o.password},
          {"save", ""},
          {"timeout", std::to_string(o.idle_seconds)},
          {"tls-port", o.tls.certificate.empty() ? "0" : std::to_string(server.port)}};
}

void config_get(Call& call) {
  std::vector<std::pair<std::string, std::string>> found;
  for (auto const& setting : settings(call.server))
    for (std::size_t i = 2; i < call.count(); ++i)
      if (matches_glob(call[i], setting.first, true)) {
        found.push_back(setting);
        break;
      }
  call.reply.map(found.size());
  for (auto const& [name, value] : found) {
    call.reply.bulk(name);
    call.reply.bulk(value);
  }
}

void reply_command(Call& call, Command const& command) {
  bool const writes = (command.flags & kWrites) != 0;
  bool const reads =
      !writes && command.first_key != 0 && (command.flags & kNeverQueued) == 0;  // but for WATCH
  call.reply.array(10);
  call.reply.bulk(command.name);
  call.reply.integer(command.arity);
  call.reply.set((writes || reads ? 1u : 0u) + ((command.flags & kMayGrow) != 0 ? 1u : 0u));
  if (writes || reads) call.reply.status(writes ? "write" : "readonly");
  if ((command.flags & kMayGrow) != 0) call.reply.status("denyoom");
  call.reply.integer(command.first_key);
  call.reply.integer(command.last_key);
  call.reply.integer(command.key_step);
  for (int i = 0; i < 4; ++i) call.reply.array(0);
}

void command_getkeys(Call& call) {
  Arguments const asked = call.arguments.subspan(2);
  Command const* const command = find_command(asked.front());
  if (command == nullptr) return call.reply.error("ERR Invalid command specified");
  if (!command->fits(asked.size()))
    return call.reply.error("ERR Invalid number of arguments specified for command");
  std::vector<std::string_view> keys;
  each_key(*command, asked, [&](std::string_view key) { keys.push_back(key); });
  if (keys.empty()) return call.reply.error("ERR The command has no key arguments");
  call.reply.array(keys.size());
  for (std::string_view const key : keys) call.reply.bulk(key);
}

}  // namespace

void run_config(Call& call) { config_get(call); }

namespace {

void command_list(Call& call) {
  std::string_view pattern = "*";
  if (call.count() == 5 && equal_letters(call[2], "filterby") && equal_letters(call[3], "pattern"))
    pattern = call[4];
  else if (call.count() != 2)
    return call.reply.error(kSyntaxError);
  std::vector<std::string_view> names;
  for (Command const& command : all_commands())
    if (matches_glob(pattern, command.name, true)) names.push_back(command.name);
  call.reply.array(names.size());
  for (std::string_view const name : names) call.reply.bulk(name);
}

void command_info(Call& call) {
  call.reply.array(call.count() - 2);
  for (std::size_t i = 2; i < call.count(); ++i) {
    if (Command const* const command = find_command(call[i]))
      reply_command(call, *command);
    else
      call.reply.null();
  }
}

}  // namespace

void run_command(Call& call) {
  auto const all = all_commands();
  std::string const what = call.count() == 1 ? "" : in_small(call[1]);
  if (what.empty() || (what == "info" && call.count() == 2)) {
    call.reply.array(all.size());
    for (Command const& command : all) reply_command(call, command);
  } else if (what == "count") {
    call.reply.integer(static_cast<std::int64_t>(all.size()));
  } else if (what == "list") {
    command_list(call);
  } else if (what == "docs") {
    call.reply.map(0);
  } else if (what == "info") {
    command_info(call);
  } else {
    command_getkeys(call);
  }
}

void run_time(Call& call) {
  std::int64_t const ms = call.keys.now_ms();
  call.reply.array(2);
  call.reply.bulk_number(ms / 1000);
  call.reply.bulk_number(ms % 1000 * 1000);
}

/// There are no replicas: their number is 0 once the time is over.
void run_wait(Call& call) {
  auto const replicas = parse_integer(call[1]);
  auto const timeout = parse_integer(call[2]);
  if (!replicas) return call.reply.error(kNoInteger);
  if (!timeout) return call.reply.error("ERR timeout is not an integer or out of range");
  if (*timeout < 0) return call.reply.error("ERR timeout is negative");
  if (*replicas <= 0 || call.in_exec) return call.reply.integer(0);
  call.session.state.wait_ms = *timeout;
}

namespace {

void save(Call& call, bool wait, std::string_view done) {
  if (call.server.saving) return call.reply.error("ERR Background save already in progress");
  Status const saved = call.server.save(wait);
  if (saved.ok())
    call.reply.status(done);
  else
    call.reply.error("ERR " + saved.message());
}

}  // namespace

void run_save(Call& call) { save(call, true, "OK"); }

void run_bgsave(Call& call) {
  if (call.count() > 2 || (call.count() == 2 && !equal_letters(call[1], "schedule")))
    return call.reply.error(kSyntaxError);
  save(call, false, "Background saving started");
}

void run_lastsave(Call& call) { call.reply.integer(call.server.last_save_s); }

void run_shutdown(Call& call) {
  bool abort = false, save = false, without = false, other = false;
  for (std::size_t i = 1; i < call.count(); ++i) {
    abort |= equal_letters(call[i], "abort");
    save |= equal_letters(call[i], "save");
    without |= equal_letters(call[i], "nosave");
    bool const known = equal_letters(call[i], "now") || equal_letters(call[i], "force");
    other |= known;
    if (!known && !equal_letters(call[i], "abort") && !equal_letters(call[i], "save") &&
        !equal_letters(call[i], "nosave"))
      return call.reply.error(kSyntaxError);
  }
  if ((abort && (save || without || other)) || (save && without))
    return call.reply.error(kSyntaxError);
  if (abort) return call.reply.error("ERR No shutdown in progress.");
  call.server.stop_asked = true;
  call.session.state.closing = true;
}

}  // namespace perdure::serve
