// A server that Redis's clients know (RESP2 and RESP3), over a store whose keys and values have any
// length. Requests of all clients gather into batches of the store: one by one at low load,
// thousands at high. A reply is sent once what it says is durable, as the pool's durability says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "perdure/export.h"
#include "perdure/status.h"
#include "perdure/store.h"

namespace perdure {

struct ServeTls {
  std::string certificate = {};  // files in PEM; empty: no TLS
  std::string key = {};
  std::string client_ca = {};  // clients must show a certificate that this one signed
};

struct ServeOptions {
  std::string host = "127.0.0.1";  // an address to listen at
  std::uint16_t port = 6379;  // 0: any that is free, see Server::port()
  std::string password = {};  // AUTH, HELLO; empty: none is asked for
  bool protected_mode = true;  // without a password, clients of this machine alone
  ServeTls tls = {};
  std::size_t most_clients = 10'000;
  std::size_t most_value_bytes = 983'000;  // longer ones are refused
  std::size_t most_key_bytes = 65'536;
  std::size_t most_request_bytes = 64u << 20;  // all arguments of one request
  std::size_t most_unread_bytes = 64u << 20;  // replies that a client has not read: it is dropped
  std::uint32_t slow_client_seconds = 30;  // a client that reads nothing of what waits: as well
  std::uint32_t idle_seconds = 0;  // a client that says nothing; 0: it may
  std::size_t most_turn_requests = 16'384;  // that become one batch
  std::string snapshot_path = {};  // SAVE and BGSAVE; empty: they are refused
};

/// Since the server began.
struct ServeStats {
  std::uint64_t commands = 0;
  std::uint64_t turns = 0;  // batches of requests
  std::uint64_t largest_turn = 0;  // requests
  std::uint64_t clients = 0;  // connected now
  std::uint64_t connections = 0, rejected_connections = 0, dropped_slow = 0;
  std::uint64_t hits = 0, misses = 0, expired_keys = 0, refused_writes = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  double seconds = 0;  // that it has run
  // Requests by the time that they took in the server, from what was read to what is sent: bucket i
  // has those below 2^i microseconds that bucket i - 1 does not have.
  std::vector<std::uint64_t> latency_us;
};

class PERDURE_API Server {
 public:
  struct PERDURE_INTERNAL Impl;  // the library's own
  /// Listens, and answers clients on a thread of its own. The store, of index gphash and layout
  /// `word` with keys and values of any length, stays the caller's and is there until the server
  /// has stopped; others may read it, and nobody else writes it.
  static Result<Server> start(Store& store, ServeOptions const& options = {});
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();  // stops

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] ServeStats stats() const;
  /// Whether it still answers: not after stop(), SHUTDOWN or a failure.
  [[nodiscard]] bool running() const;
  /// Until the server has stopped, or so many milliseconds have passed (false).
  bool wait(std::uint64_t most_ms);
  /// Takes no more requests, answers those that it has, and closes the connections. What failed, if
  /// that is why it had stopped before. Any thread may call it, several at once too. In a child
  /// that was forked nothing runs, and nothing that is done with it there concerns the parent's.
  Status stop();

 private:
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace perdure
