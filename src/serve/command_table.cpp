// Which commands there are. Invariant: sorted by name.
#include <algorithm>
#include <iterator>
#include <string>

#include "serve/command.hpp"

namespace perdure::serve {
namespace {

constexpr std::uint32_t kGet = kReads, kPut = kWrites | kMayGrow, kChange = kPut | kReads;

constexpr Command kCommands[] = {
    {"append", 3, kChange, 1, 1, 1, &run_append},
    {"auth", -2, kBeforeAuth, 0, 0, 0, &run_auth},
    {"bgsave", -1, kAlone, 0, 0, 0, &run_bgsave},
    {"client", -2, 0, 0, 0, 0, &run_client},
    {"command", -1, 0, 0, 0, 0, &run_command},
    {"config", -2, 0, 0, 0, 0, &run_config},
    {"dbsize", 1, kAlone, 0, 0, 0, &run_dbsize},
    {"decr", 2, kChange, 1, 1, 1, &run_incr},
    {"decrby", 3, kChange, 1, 1, 1, &run_incr},
    {"del", -2, kWrites | kReads, 1, -1, 1, &run_del},
    {"discard", 1, kNeverQueued, 0, 0, 0, &run_discard},
    {"echo", 2, 0, 0, 0, 0, &run_echo},
    {"exec", 1, kNeverQueued, 0, 0, 0, &run_exec},
    {"exists", -2, kGet, 1, -1, 1, &run_exists},
    {"expire", -3, kWrites | kReads, 1, 1, 1, &run_expire},
    {"expireat", -3, kWrites | kReads, 1, 1, 1, &run_expire},
    {"expiretime", 2, kGet, 1, 1, 1, &run_expiretime},
    {"flushall", -1, kWrites | kAlone, 0, 0, 0, &run_flushdb},
    {"flushdb", -1, kWrites | kAlone, 0, 0, 0, &run_flushdb},
    {"get", 2, kGet, 1, 1, 1, &run_get},
    {"getdel", 2, kWrites | kReads, 1, 1, 1, &run_getdel},
    {"getex", -2, kWrites | kReads, 1, 1, 1, &run_getex},
    {"getrange", 4, kGet, 1, 1, 1, &run_getrange},
    {"getset", 3, kChange, 1, 1, 1, &run_getset},
    {"hdel", -3, kWrites | kReads, 1, 1, 1, &run_hdel},
    {"hello", -1, kBeforeAuth, 0, 0, 0, &run_hello},
    {"hexists", 3, kGet, 1, 1, 1, &run_hexists},
    {"hget", 3, kGet, 1, 1, 1, &run_hget},
    {"hgetall", 2, kGet, 1, 1, 1, &run_hgetall},
    {"hincrby", 4, kChange, 1, 1, 1, &run_hincrby},
    {"hkeys", 2, kGet, 1, 1, 1, &run_hgetall},
    {"hlen", 2, kGet, 1, 1, 1, &run_hlen},
    {"hmget", -3, kGet, 1, 1, 1, &run_hmget},
    {"hmset", -4, kChange, 1, 1, 1, &run_hset},
    {"hset", -4, kChange, 1, 1, 1, &run_hset},
    {"hsetnx", 4, kChange, 1, 1, 1, &run_hsetnx},
    {"hstrlen", 3, kGet, 1, 1, 1, &run_hstrlen},
    {"hvals", 2, kGet, 1, 1, 1, &run_hgetall},
    {"incr", 2, kChange, 1, 1, 1, &run_incr},
    {"incrby", 3, kChange, 1, 1, 1, &run_incr},
    {"info", -1, kAlone, 0, 0, 0, &run_info},
    {"keys", 2, kAlone, 0, 0, 0, &run_keys},
    {"lastsave", 1, 0, 0, 0, 0, &run_lastsave},
    {"mget", -2, kGet, 1, -1, 1, &run_mget},
    {"mset", -3, kPut, 1, -1, 2, &run_mset},
    {"msetnx", -3, kChange, 1, -1, 2, &run_msetnx},
    {"multi", 1, kNeverQueued, 0, 0, 0, &run_multi},
    {"persist", 2, kWrites | kReads, 1, 1, 1, &run_persist},
    {"pexpire", -3, kWrites | kReads, 1, 1, 1, &run_expire},
    {"pexpireat", -3, kWrites | kReads, 1, 1, 1, &run_expire},
    {"pexpiretime", 2, kGet, 1, 1, 1, &run_expiretime},
    {"ping", -1, 0, 0, 0, 0, &run_ping},
    {"psetex", 4, kPut, 1, 1, 1, &run_setex},
    {"pttl", 2, kGet, 1, 1, 1, &run_ttl},
    {"quit", -1, kBeforeAuth | kNeverQueued, 0, 0, 0, &run_quit},
    {"randomkey", 1, kAlone, 0, 0, 0, &run_randomkey},
    {"reset", 1, kBeforeAuth | kNeverQueued, 0, 0, 0, &run_reset},
    {"save", 1, kAlone | kNotInMulti, 0, 0, 0, &run_save},
    {"scan", -2, kAlone, 0, 0, 0, &run_scan},
    {"select", 2, 0, 0, 0, 0, &run_select},
    {"set", -3, kPut, 1, 1, 1, &run_set},
    {"setex", 4, kPut, 1, 1, 1, &run_setex},
    {"setnx", 3, kChange, 1, 1, 1, &run_setnx},
    {"setrange", 4, kChange, 1, 1, 1, &run_setrange},
    {"shutdown", -1, kAlone | kNotInMulti, 0, 0, 0, &run_shutdown},
    {"strlen", 2, kGet, 1, 1, 1, &run_strlen},
    {"time", 1, 0, 0, 0, 0, &run_time},
    {"touch", -2, kGet, 1, -1, 1, &run_exists},
    {"ttl", 2, kGet, 1, 1, 1, &run_ttl},
    {"type", 2, kGet, 1, 1, 1, &run_type},
    {"unlink", -2, kWrites | kReads, 1, -1, 1, &run_del},
    {"unwatch", 1, 0, 0, 0, 0, &run_unwatch},
    {"wait", 3, kAlone, 0, 0, 0, &run_wait},
    {"watch", -2, kReads | kNeverQueued, 1, -1, 1, &run_watch},
};
static_assert(std::ranges::is_sorted(kCommands, {}, &Command::name));

struct Subcommand {
  std::string_view command, name;
  int arity;  // with both names
};

constexpr Subcommand kSubcommands[] = {
    {"client", "getname", 2},   {"client", "id", 2},     {"client", "info", 2},
    {"client", "kill", -3},     {"client", "list", -2},  {"client", "no-evict", 3},
    {"client", "no-touch", 3},  {"client", "reply", 3},  {"client", "setinfo", 4},
    {"client", "setname", 3},   {"command", "count", 2}, {"command", "docs", -2},
    {"command", "getkeys", -4}, {"command", "info", -2}, {"command", "list", -2},
    {"config", "get", -3},
};

bool fits(int arity, std::size_t arguments) {
  return arity >= 0 ? arguments == static_cast<std::size_t>(arity)
                    : arguments >= static_cast<std::size_t>(-arity);
}

std::string unknown_command(Arguments arguments) {
  std::string text = "unknown command '" + std::string(arguments[0].substr(0, 128)) +
                     "', with args beginning with: ";
  std::string shown;
  for (std::size_t i = 1; i < arguments.size() && shown.size() < 128; ++i)
    shown += "'" + std::string(arguments[i].substr(0, 128 - shown.size())) + "' ";
  return text + shown;
}

std::string unknown_subcommand(Command const& command, std::string_view name) {
  std::string upper(command.name);
  std::ranges::transform(upper, upper.begin(),
                         [](char c) { return static_cast<char>(c - ('a' - 'A')); });
  return "unknown subcommand '" + std::string(name.substr(0, 128)) + "'. Try " + upper + " HELP.";
}

bool has_subcommands(Command const& command) {
  return std::ranges::find(kSubcommands, command.name, &Subcommand::command) !=
         std::end(kSubcommands);
}

Subcommand const* find_subcommand(Command const& command, std::string_view name) {
  auto const at = std::ranges::find_if(kSubcommands, [&](Subcommand const& one) {
    return one.command == command.name && equal_letters(name, one.name);
  });
  return at == std::end(kSubcommands) ? nullptr : &*at;
}

}  // namespace

bool Command::fits(std::size_t arguments) const { return serve::fits(arity, arguments); }

std::string refusal(Command const* command, Arguments arguments) {
  if (command == nullptr) return unknown_command(arguments);
  std::string_view const name = command->name;
  Subcommand const* inner = nullptr;
  if (command->first_key == 0 && arguments.size() > 1 && has_subcommands(*command)) {
    inner = find_subcommand(*command, arguments[1]);
    if (inner == nullptr) return unknown_subcommand(*command, arguments[1]);
  }
  if (inner != nullptr ? fits(inner->arity, arguments.size()) : command->fits(arguments.size()))
    return {};
  std::string const whole =
      inner == nullptr ? std::string(name) : std::string(name) + "|" + std::string(inner->name);
  return "wrong number of arguments for '" + whole + "' command";
}

Command const* find_command(std::string_view name) {
  char small[16];
  if (name.size() > sizeof small) return nullptr;
  std::ranges::transform(name, small, [](char c) { return in_small(c); });
  std::string_view const sought(small, name.size());
  auto const at = std::ranges::lower_bound(kCommands, sought, {}, &Command::name);
  return at != std::end(kCommands) && at->name == sought ? &*at : nullptr;
}

std::span<Command const> all_commands() { return kCommands; }

}  // namespace perdure::serve
