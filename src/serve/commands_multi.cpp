// MULTI, EXEC, DISCARD, WATCH. What EXEC runs is part of its turn's atomic batch, so it is durable
// whole or not at all.
#include <utility>

#include "serve/command.hpp"
#include "serve/executor.hpp"

namespace perdure::serve {
void end_multi(Session& session, ServerState& server) {
  Session::State& s = session.state;
  s.in_multi = s.multi_failed = false;
  s.queue.clear();
  server.unwatch(session);
}

void run_multi(Call& call) {
  if (call.session.state.in_multi) return call.reply.error("ERR MULTI calls can not be nested");
  call.session.state.in_multi = true;
  call.reply.ok();
}

void run_discard(Call& call) {
  if (!call.session.state.in_multi) return call.reply.error("ERR DISCARD without MULTI");
  end_multi(call.session, call.server);
  call.reply.ok();
}

void run_watch(Call& call) {
  if (call.session.state.in_multi) return call.reply.error("ERR WATCH inside MULTI is not allowed");
  for (std::size_t i = 1; i < call.count(); ++i) {
    call.keys.get(call[i]);  // one that has expired by now does not change by being found so
    call.server.watch(call.session, std::string(call[i]));
  }
  call.reply.ok();
}

void run_unwatch(Call& call) {
  call.server.unwatch(call.session);
  call.reply.ok();
}

void run_exec(Call& call) {
  Session::State& s = call.session.state;
  if (!s.in_multi) return call.reply.error("ERR EXEC without MULTI");
  if (s.multi_failed) {
    end_multi(call.session, call.server);
    return call.reply.error("EXECABORT Transaction discarded because of previous errors.");
  }
  for (std::string const& key : s.watched) call.keys.get(call.keys.keep(key));
  bool const changed = s.watched_changed;
  std::vector<StoredArguments> const queue = std::move(s.queue);
  end_multi(call.session, call.server);
  if (changed) return call.reply.null_array();
  call.reply.array(queue.size());
  for (StoredArguments const& stored : queue) {
    std::vector<std::string_view> arguments;
    for (std::string const& argument : stored) arguments.push_back(call.keys.keep(argument));
    Command const& command = *find_command(arguments.front());
    Call inner{
        command,      arguments,
        call.session, call.keys,
        call.server,  Reply(call.session.out, s.protocol, call.server.options.most_unread_bytes),
        true};
    command.run(inner);
  }
}

}  // namespace perdure::serve
