#include "serve/executor.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/caught.hpp"
#include "base/hooks.hpp"

namespace perdure::serve {
namespace {

constexpr std::size_t kTurnBytes = 1u << 20;  // kept from turn to turn
constexpr std::size_t kExpiredAtOnce = 512;

bool runs_alone(Request const& request) {
  Command const* const command = request.command;
  return command != nullptr && (command->flags & kAlone) != 0;
}

std::string error_text(std::string_view code, std::string_view text) {
  return std::string(code) + " " + std::string(text);
}

}  // namespace

Executor::Executor(Store& store, ServerState& server)
    : server_(server),
      kept_(kTurnBytes),
      memory_(kept_.data(), kept_.size()),
      keys_(store, memory_) {
  keys_.on_change = [this](std::string_view key) { server_.key_changed(key); };
}

void Executor::run(std::span<Request const> requests, std::int64_t now_ms) {
  server_.turns.fetch_add(1, std::memory_order_relaxed);
  server_.commands.fetch_add(requests.size(), std::memory_order_relaxed);
  if (requests.size() > server_.largest_turn.load(std::memory_order_relaxed))
    server_.largest_turn.store(requests.size(), std::memory_order_relaxed);
  while (!requests.empty()) {
    auto const alone = std::ranges::find_if(requests, runs_alone) - requests.begin();
    std::size_t const together = std::max<std::size_t>(static_cast<std::size_t>(alone), 1);
    run_turn(requests.first(together), now_ms);
    requests = requests.subspan(together);
  }
}

void Executor::run_turn(std::span<Request const> requests, std::int64_t now_ms) {
  Status const together = attempt(requests, now_ms);
  if (together.ok()) return;
  for (Request const& request : requests) {
    Status alone = requests.size() == 1 || mutated("serve_redo_left_out")
                       ? together
                       : attempt({&request, 1}, now_ms);
    if (alone.ok()) continue;
    // What makes space is not refused for space.
    if (alone.code() == Code::no_space && request.command != nullptr &&
        request.command->run != &run_exec)
      alone = attempt({&request, 1}, now_ms, true);
    if (!alone.ok()) refuse(request, alone);
  }
}

/// Whole, or as if it had not been tried.
Status Executor::attempt(std::span<Request const> requests, std::int64_t now_ms, bool in_pieces) {
  Status const done = caught([&] {
    remember(requests);
    return try_turn(requests, now_ms, in_pieces);
  });
  if (!done.ok()) set_back();
  return done;
}

Status Executor::try_turn(std::span<Request const> requests, std::int64_t now_ms, bool in_pieces) {
  keys_.begin(now_ms);
  for (Request const& request : requests) {
    Command const* const command = request.command;
    if (command == nullptr) continue;
    if (command->run == &run_exec) will_read_queued(*request.session);
    if ((command->flags & kReads) == 0) continue;
    if (!keys_fit(*command, request.arguments)) continue;
    each_key(*command, request.arguments, [&](std::string_view key) { keys_.will_read(key); });
  }
  std::uint64_t const expired = keys_.expired_keys();
  for (Request const& request : requests) answer(request);
  may_expire_ |= keys_.has_expiring();
  Status const done = keys_.commit(in_pieces);
  if (done.ok())
    server_.expired_keys.fetch_add(keys_.expired_keys() - expired, std::memory_order_relaxed);
  return done;
}

void Executor::will_read_queued(Session const& session) {
  for (StoredArguments const& stored : session.state.queue) {
    Command const& command = *find_command(stored.front());
    if ((command.flags & kReads) == 0) continue;
    std::vector<std::string_view> const arguments(stored.begin(), stored.end());
    each_key(command, arguments, [&](std::string_view key) { keys_.will_read(keys_.keep(key)); });
  }
}

void Executor::remember(std::span<Request const> requests) {
  before_.clear();
  counts_before_ = {server_.hits, server_.misses, server_.wrong_passwords};
  server_.newly_changed.clear();
  ++turn_;
  for (Request const& request : requests) {
    Session& session = *request.session;
    if (std::exchange(session.turn, turn_) == turn_) continue;
    before_.push_back({&session, session.state, session.out.size()});
  }
}

void Executor::set_back() {
  server_.hits = counts_before_.hits;
  server_.misses = counts_before_.misses;
  server_.wrong_passwords = counts_before_.wrong_passwords;
  if (mutated("serve_redo_keeps_sessions")) return;
  if (!mutated("serve_redo_keeps_watchers"))
    for (Session* const session : server_.newly_changed) session->state.watched_changed = false;
  server_.newly_changed.clear();
  for (Before& before : before_) {
    Session& session = *before.session;
    session.out.resize(before.sent);
    if (session.state.watched != before.state.watched) watch_again(session, before.state);
    session.state = std::move(before.state);
  }
}

/// Instead of the keys that it watches now, those that it watched before.
void Executor::watch_again(Session& session, Session::State& before) {
  server_.unwatch(session);
  try {
    for (std::string const& key : before.watched) server_.watch(session, key);
  } catch (std::bad_alloc const&) {  // nobody tells it of some: its EXEC will do nothing
    server_.unwatch(session);
    before.watched.clear();
    before.watched_changed = true;
  }
}

void Executor::answer(Request const& request) {
  Session& session = *request.session;
  Session::State const& state = session.state;
  if (state.closing || session.out.size() > server_.options.most_unread_bytes) return;
  bool const silent = !state.replies || state.skip_next_reply;
  session.state.skip_next_reply = session.answers_anyway = false;
  std::size_t const sent = session.out.size();
  run_command(request, request.command);
  if (silent && !session.answers_anyway) session.out.resize(sent);
}

bool Executor::keys_fit(Command const& command, Arguments arguments) const {
  if (!command.fits(arguments.size())) return false;
  bool fit = true;
  each_key(command, arguments, [&](std::string_view key) {
    fit = fit && key.size() <= server_.options.most_key_bytes;
  });
  return fit;
}

void Executor::run_command(Request const& request, Command const* command) {
  Session& session = *request.session;
  Session::State& state = session.state;
  Arguments const arguments = request.arguments;
  Reply reply(session.out, state.protocol, server_.options.most_unread_bytes);
  auto const refuse_queued = [&](std::string_view code, std::string_view error) {
    if (command != nullptr && command->run == &run_exec) {
      end_multi(session, server_);
      return reply.error("EXECABORT Transaction discarded because of: " +
                         (code == "ERR" ? std::string(error) : error_text(code, error)));
    }
    reply.error(error_text(code, error));
    state.multi_failed |= state.in_multi;
  };
  // A browser that some page makes send HTTP here: no line of it is to be run.
  if (command == nullptr &&
      (equal_letters(arguments[0], "post") || equal_letters(arguments[0], "host:"))) {
    state.closing = true;
    return;
  }
  if (std::string const why = refusal(command, arguments); !why.empty())
    return refuse_queued("ERR", why);
  if (!state.authenticated && (command->flags & kBeforeAuth) == 0)
    return refuse_queued("NOAUTH", "Authentication required.");
  session.last_command = command->name;
  if (state.in_multi && (command->flags & kNotInMulti) != 0)
    return refuse_queued("ERR", "Command not allowed inside a transaction");
  if (!keys_fit(*command, arguments))
    return refuse_queued(
        "ERR", "key is longer than " + std::to_string(server_.options.most_key_bytes) + " bytes");
  if (state.in_multi && (command->flags & kNeverQueued) == 0) {
    state.queue.emplace_back(arguments.begin(), arguments.end());
    return reply.status("QUEUED");
  }
  Call call{*command, arguments, session, keys_, server_, reply};
  command->run(call);
}

void Executor::refuse(Request const& request, Status const& why) {
  server_.refused_writes.fetch_add(1, std::memory_order_relaxed);
  Session& session = *request.session;
  std::size_t const sent = session.out.size();
  try {
    end_if_failed(why);
    bool const silent =
        !session.state.replies || std::exchange(session.state.skip_next_reply, false);
    Reply reply(session.out, session.state.protocol);
    if (session.state.in_multi) end_multi(session, server_);  // EXEC, of which nothing is done
    if (silent) return;
    if (keys_.was_too_large())
      reply.error(kTooLong);
    else if (why.code() == Code::no_space)
      reply.error("OOM command not allowed when used memory > 'maxmemory'.");
    else
      reply.error("MISCONF " + why.message());
  } catch (std::bad_alloc const&) {  // not even for an error: it is dropped
    session.out.resize(sent);
    session.state.closing = true;
  }
}

/// A store that has to be opened anew answers nobody.
void Executor::end_if_failed(Status const& why) {
  if (why.code() != Code::closed || server_.stop_asked) return;
  server_.stop_asked = true;
  server_.failure = why;
}

bool Executor::expire_some(std::int64_t now_ms) try {
  keys_.begin(now_ms);
  std::uint64_t const expired = keys_.expired_keys();
  bool const began = expiry_at_.generation == 0;
  if (began) {
    expiring_seen_ = 0;
    keys_.forget_expiring();
  }
  auto const each = [&](std::string_view, Value const& value) {
    expiring_seen_ += value.expires_ms != 0 ? 1 : 0;
  };
  if (!keys_.scan(expiry_at_, kExpiredAtOnce, each)) expiry_at_ = {};
  if (expiry_at_.done) {
    server_.expiring_records = expiring_seen_;
    may_expire_ = expiring_seen_ != 0 || keys_.has_expiring();
    expiry_at_ = {};
  }
  std::uint64_t const found = keys_.expired_keys() - expired;
  end_if_failed(keys_.commit(true));  // what else stays is found again
  server_.expired_keys.fetch_add(found, std::memory_order_relaxed);
  memory_.release();
  return found > kExpiredAtOnce / 4;
} catch (std::bad_alloc const&) {  // what stays is found again
  memory_.release();
  return false;
}

}  // namespace perdure::serve
