// Runs the requests of a turn: together where it can, and one by one where the store refuses what
// they did together. Invariant: when run() returns, what the replies say is durable.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/command.hpp"

namespace perdure::serve {

struct Request {
  Session* session;
  Command const* command;  // null: there is none of that name
  std::vector<std::string_view> arguments;  // at least one
};

class Executor {
 public:
  Executor(Store& store, ServerState& server);

  /// Where arguments of requests lie. Released by run().
  std::pmr::memory_resource& memory() { return memory_; }
  /// In this order. Replies are appended to what the sessions send.
  void run(std::span<Request const> requests, std::int64_t now_ms);
  /// Erases what has expired in a part of the pool. True: the part had much of it.
  bool expire_some(std::int64_t now_ms);
  /// Whether there may be keys that expire.
  [[nodiscard]] bool may_expire() const { return may_expire_; }
  /// The turn's arguments are gone with this.
  void end_turn() { memory_.release(); }

 private:
  struct Before {
    Session* session;
    Session::State state;
    std::size_t sent;
  };

  /// That commands change, and that are those before a turn if it is done again.
  struct Counts {
    std::uint64_t hits = 0, misses = 0, wrong_passwords = 0;
  };

  void run_turn(std::span<Request const> requests, std::int64_t now_ms);
  Status attempt(std::span<Request const> requests, std::int64_t now_ms, bool in_pieces = false);
  Status try_turn(std::span<Request const> requests, std::int64_t now_ms, bool in_pieces);
  void will_read_queued(Session const& session);
  void remember(std::span<Request const> requests);
  void set_back();
  void watch_again(Session& session, Session::State& before);
  void answer(Request const& request);
  void run_command(Request const& request, Command const* command);
  void refuse(Request const& request, Status const& why);
  void end_if_failed(Status const& why);
  [[nodiscard]] bool keys_fit(Command const& command, Arguments arguments) const;

  ServerState& server_;
  std::vector<std::byte> kept_;  // the turn's memory begins here, and stays
  std::pmr::monotonic_buffer_resource memory_;
  Keyspace keys_;
  std::vector<Before> before_;
  Counts counts_before_;
  std::uint64_t turn_ = 0;
  ScanCursor expiry_at_ = {};
  std::uint64_t expiring_seen_ = 0;
  bool may_expire_ = true;
};

}  // namespace perdure::serve
