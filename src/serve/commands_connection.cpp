// Commands about the connection itself: PING, HELLO, AUTH, CLIENT and their like.
#include <openssl/crypto.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "serve/command.hpp"

namespace perdure::serve {
namespace {

/// Takes as long whatever the first byte that differs.
bool is_password(std::string_view given, std::string_view password) {
  return given.size() == password.size() &&
         CRYPTO_memcmp(given.data(), password.data(), given.size()) == 0;
}

/// Where no password is set, any will do.
bool authenticate(Call& call, std::string_view user, std::string_view password) {
  std::string_view const right = call.server.options.password;
  if (user != "default" || (!right.empty() && !is_password(password, right))) {
    call.server.wrong_passwords.fetch_add(1, std::memory_order_relaxed);
    call.server.last_wrong_password = call.session.address;
    call.reply.error("WRONGPASS invalid username-password pair or user is disabled.");
    return false;
  }
  call.session.state.authenticated = true;
  return true;
}

bool is_name(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

bool set_name(Call& call, std::string_view name) {
  if (!is_name(name)) {
    call.reply.error("ERR Client names cannot contain spaces, newlines or special characters.");
    return false;
  }
  call.session.state.name = name;
  return true;
}

}  // namespace

void run_ping(Call& call) {
  if (call.count() > 2) return wrong_arity(call);
  if (call.count() == 2)
    call.reply.bulk(call[1]);
  else
    call.reply.status("PONG");
}

void run_echo(Call& call) { call.reply.bulk(call[1]); }

void run_auth(Call& call) {
  if (call.count() > 3) return call.reply.error(kSyntaxError);
  bool const only_password = call.count() == 2;
  if (only_password && call.server.options.password.empty())
    return call.reply.error(
        "ERR AUTH <password> called without any password configured for the default user. Are "
        "you sure your configuration is correct?");
  if (authenticate(call, only_password ? "default" : call[1], only_password ? call[1] : call[2]))
    call.reply.ok();
}

void run_hello(Call& call) {
  Session::State const before = call.session.state;
  std::size_t at = 1;
  int protocol = before.protocol;
  if (call.count() > 1) {
    auto const version = parse_integer(call[at++]);
    if (!version) return call.reply.error("ERR Protocol version is not an integer or out of range");
    if (*version < 2 || *version > 3)
      return call.reply.error("NOPROTO unsupported protocol version");
    protocol = static_cast<int>(*version);
  }
  for (; at < call.count(); ++at) {
    std::size_t const more = call.count() - at - 1;
    if (equal_letters(call[at], "auth") && more >= 2) {
      if (!authenticate(call, call[at + 1], call[at + 2])) return;
      at += 2;
    } else if (equal_letters(call[at], "setname") && more >= 1) {
      if (!set_name(call, call[at + 1])) {
        call.session.state = before;
        return;
      }
      ++at;
    } else {
      call.session.state = before;
      return call.reply.error("ERR Syntax error in HELLO option '" +
                              std::string(call[at].substr(0, call[at].find(char{0}))) + "'");
    }
  }
  if (!call.session.state.authenticated)
    return call.reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
        "protocol version at the same time");
  call.session.state.protocol = protocol;
  Reply reply(call.session.out, protocol);
  reply.map(7);
  reply.bulk("server");
  reply.bulk("redis");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.integer(protocol);
  reply.bulk("id");
  reply.integer(static_cast<std::int64_t>(call.session.id));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

void run_select(Call& call) {
  auto const number = parse_integer(call[1]);
  if (!number) return call.reply.error(kNoInteger);
  if (*number != 0) return call.reply.error("ERR DB index is out of range");
  call.reply.ok();
}

void run_quit(Call& call) {
  call.reply.ok();
  call.session.state.closing = true;
}

void run_reset(Call& call) {
  call.server.unwatch(call.session);
  Session::State fresh;
  fresh.authenticated = call.server.options.password.empty();
  call.session.state = fresh;
  call.reply.status("RESET");
}

namespace {

std::string line_of(Session const& session, std::int64_t now_ms) {
  Session::State const& s = session.state;
  std::string line = "id=" + std::to_string(session.id) + " addr=" + session.address +
                     " laddr=" + session.local_address + " fd=0 name=" + s.name +
                     " age=" + std::to_string((now_ms - session.connected_ms) / 1000) +
                     " idle=" + std::to_string((now_ms - session.last_ms) / 1000) +
                     " flags=" + (s.in_multi ? "x" : "N") + " db=0 sub=0 psub=0 ssub=0 multi=" +
                     (s.in_multi ? std::to_string(s.queue.size()) : "-1");
  line += " omem=" + std::to_string(session.out.size()) + " cmd=" + session.last_command +
          " user=default resp=" + std::to_string(s.protocol) + "\n";
  return line;
}

constexpr std::string_view kClientTypes[] = {"normal", "master", "replica", "slave", "pubsub"};

/// CLIENT LIST [TYPE type | ID id ...]; every client here is a normal one.
void client_list(Call& call) {
  std::set<std::uint64_t> asked;
  bool none = false;
  if (call.count() == 4 && equal_letters(call[2], "type")) {
    std::string const type = in_small(call[3]);
    if (std::ranges::find(kClientTypes, type) == std::end(kClientTypes))
      return call.reply.error("ERR Unknown client type '" + std::string(call[3]) + "'");
    none = type != "normal";
  } else if (call.count() > 3 && equal_letters(call[2], "id")) {
    for (std::size_t i = 3; i < call.count(); ++i) {
      auto const id = parse_integer(call[i]);
      if (!id) return call.reply.error("ERR Invalid client ID");
      asked.insert(static_cast<std::uint64_t>(*id));
    }
  } else if (call.count() != 2) {
    return call.reply.error(kSyntaxError);
  }
  std::string all;
  for (auto const& [id, session] : call.server.sessions)
    if (!none && (asked.empty() || asked.contains(id)))
      all += line_of(*session, call.keys.now_ms());
  call.reply.verbatim(all);
}

bool is_yes_or_no(std::string_view word) {
  return equal_letters(word, "yes") || equal_letters(word, "no");
}

/// CLIENT KILL address | ID n | ADDR a [SKIPME yes|no]
void client_kill(Call& call) {
  bool const old_form = call.count() == 3;
  std::string_view address = old_form ? call[2] : "";
  std::optional<std::uint64_t> id;
  bool skip_me = !old_form;
  if (!old_form && call.count() % 2 != 0) return call.reply.error(kSyntaxError);
  for (std::size_t i = 2; !old_form && i + 1 < call.count(); i += 2) {
    auto const number = parse_integer(call[i + 1]);
    if (equal_letters(call[i], "id") && number && *number > 0)
      id = static_cast<std::uint64_t>(*number);
    else if (equal_letters(call[i], "id"))
      return call.reply.error("ERR client-id should be greater than 0");
    else if (equal_letters(call[i], "addr"))
      address = call[i + 1];
    else if (equal_letters(call[i], "skipme") && is_yes_or_no(call[i + 1]))
      skip_me = equal_letters(call[i + 1], "yes");
    else
      return call.reply.error(kSyntaxError);
  }
  std::int64_t killed = 0;
  for (auto const& [number, session] : call.server.sessions) {
    if (id && *id != number) continue;
    if (!address.empty() && session->address != address) continue;
    if (session == &call.session && skip_me) continue;
    ++killed;
    if (session == &call.session)
      session->state.closing = true;
    else
      session->killed = call.server.any_killed = true;
  }
  if (!old_form) return call.reply.integer(killed);
  if (killed == 0) return call.reply.error("ERR No such client");
  call.reply.ok();
}

void client_reply(Call& call) {
  Session::State& s = call.session.state;
  if (equal_letters(call[2], "on")) {
    s.replies = call.session.answers_anyway = true;
    call.reply.ok();
  } else if (equal_letters(call[2], "off")) {
    s.replies = false;
  } else if (equal_letters(call[2], "skip")) {
    s.skip_next_reply = s.replies;
  } else {
    call.reply.error(kSyntaxError);
  }
}

void client_setinfo(Call& call) {
  if (equal_letters(call[2], "lib-name"))
    call.session.state.library = call[3];
  else if (equal_letters(call[2], "lib-ver"))
    call.session.state.library_version = call[3];
  else
    return call.reply.error("ERR Unrecognized option '" + std::string(call[2]) + "'");
  call.reply.ok();
}

/// Nothing here is evicted, and no key keeps when it was read.
void client_switch(Call& call) {
  if (equal_letters(call[2], "on") || equal_letters(call[2], "off"))
    call.reply.ok();
  else
    call.reply.error(kSyntaxError);
}

void client_getname(Call& call) {
  if (call.session.state.name.empty())
    call.reply.null();
  else
    call.reply.bulk(call.session.state.name);
}

struct ClientCommand {
  std::string_view name;
  void (*run)(Call&);
};

constexpr ClientCommand kClientCommands[] = {
    {"id", [](Call& call) { call.reply.integer(static_cast<std::int64_t>(call.session.id)); }},
    {"getname", &client_getname},
    {"setname",
     [](Call& call) {
       if (set_name(call, call[2])) call.reply.ok();
     }},
    {"setinfo", &client_setinfo},
    {"list", &client_list},
    {"info", [](Call& call) { call.reply.verbatim(line_of(call.session, call.keys.now_ms())); }},
    {"kill", &client_kill},
    {"reply", &client_reply},
    {"no-evict", &client_switch},
    {"no-touch", &client_switch},
};

}  // namespace

void run_client(Call& call) {
  for (ClientCommand const& one : kClientCommands)
    if (equal_letters(call[1], one.name)) return one.run(call);
}

}  // namespace perdure::serve
