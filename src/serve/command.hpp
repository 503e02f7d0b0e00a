// Commands: what each is called, how many arguments it has, where its keys are, and the function
// that answers it. Errors are worded as Redis 7 words them, for clients go by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/keyspace.hpp"
#include "serve/reply.hpp"
#include "serve/server_state.hpp"
#include "serve/session.hpp"

namespace perdure::serve {

using Arguments = std::span<std::string_view const>;

struct Command;

/// One command of one client.
struct Call {
  Command const& command;
  Arguments arguments;  // its name is the first
  Session& session;
  Keyspace& keys;
  ServerState& server;
  Reply reply;
  bool in_exec = false;

  [[nodiscard]] std::string_view operator[](std::size_t i) const { return arguments[i]; }
  [[nodiscard]] std::size_t count() const { return arguments.size(); }
};

enum CommandFlags : std::uint32_t {
  kReads = 1,  // its keys are got before the turn's commands run
  kWrites = 2,
  kAlone = 4,  // a turn of its own
  kBeforeAuth = 8,
  kNeverQueued = 16,  // runs within MULTI at once
  kMayGrow = 32,  // refused while the pool is full
  kNotInMulti = 64,
};

struct Command {
  std::string_view name;  // in small letters
  int arity;  // with its name; negative: at least
  std::uint32_t flags;
  int first_key, last_key, key_step;  // as COMMAND says it; 0 = it has none
  void (*run)(Call&);

  [[nodiscard]] bool fits(std::size_t arguments) const;
};

/// Of any letter case; null where there is none of that name.
Command const* find_command(std::string_view name);
std::span<Command const> all_commands();
/// Why a request with these arguments (its name is the first) is not run, nor queued by MULTI;
/// empty where it may be. An error without its code.
std::string refusal(Command const* command, Arguments arguments);

template <class F>
void each_key(Command const& command, Arguments arguments, F each) {
  if (command.first_key == 0) return;
  auto const count = static_cast<int>(arguments.size());
  int const last = command.last_key < 0 ? count + command.last_key : command.last_key;
  for (int i = command.first_key; i <= last && i < count; i += command.key_step)
    each(arguments[static_cast<std::size_t>(i)]);
}

// What commands have in common.
inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kNoInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kWrongType =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr std::string_view kTooLong =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// Decimal, and written as it would be printed.
std::optional<std::int64_t> parse_integer(std::string_view text);
char in_small(char c);
bool equal_letters(std::string_view text, std::string_view small);
std::string in_small(std::string_view text);
/// Redis's patterns: * ? [a-z] [^a] and \ before a character.
bool matches_glob(std::string_view pattern, std::string_view text, bool any_case = false);
void wrong_arity(Call& call);

/// Nothing is queued or watched any more.
void end_multi(Session& session, ServerState& server);

/// A command looked at a key without changing it: a hit or a miss, whatever the type.
void count_read(Call& call, Value const& value);
/// The key's value, for such a command.
Value read_key(Call& call, std::string_view key);
/// A key's value if it is of that type or there is none; else the error has been said.
std::optional<Value> typed(Call& call, Value const& value, Type type);
/// False: longer than a value may be, which has been said.
bool check_length(Call& call, std::size_t bytes);

// Groups of commands, one a source.
void run_get(Call&), run_set(Call&), run_setnx(Call&), run_setex(Call&), run_getset(Call&),
    run_mget(Call&), run_mset(Call&), run_msetnx(Call&), run_incr(Call&), run_append(Call&),
    run_strlen(Call&), run_getrange(Call&), run_setrange(Call&), run_getdel(Call&),
    run_getex(Call&);
void run_del(Call&), run_exists(Call&), run_type(Call&), run_expire(Call&), run_ttl(Call&),
    run_expiretime(Call&), run_persist(Call&);
void run_scan(Call&), run_keys(Call&), run_dbsize(Call&), run_randomkey(Call&), run_flushdb(Call&);
void run_hset(Call&), run_hsetnx(Call&), run_hget(Call&), run_hmget(Call&), run_hgetall(Call&),
    run_hdel(Call&), run_hlen(Call&), run_hexists(Call&), run_hincrby(Call&), run_hstrlen(Call&);
void run_ping(Call&), run_echo(Call&), run_hello(Call&), run_auth(Call&), run_select(Call&),
    run_client(Call&), run_quit(Call&), run_reset(Call&);
void run_info(Call&), run_config(Call&), run_command(Call&), run_time(Call&), run_wait(Call&),
    run_save(Call&), run_bgsave(Call&), run_lastsave(Call&), run_shutdown(Call&);
void run_multi(Call&), run_exec(Call&), run_discard(Call&), run_watch(Call&), run_unwatch(Call&);

}  // namespace perdure::serve
