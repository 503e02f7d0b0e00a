// A client's connection: reads requests, hands whole ones to the turn, and sends what is answered.
// Invariant: once some of its requests are in a turn, nothing more is read until that turn has been
// run, so what a client can make the server hold is bounded.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serve/executor.hpp"
#include "serve/request_reader.hpp"
#include "serve/session.hpp"

namespace perdure::serve {

class Connection;

/// What a connection needs of its server.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  /// A whole request for the next turn. False: that turn is full.
  virtual bool take(std::shared_ptr<Connection> const& from,
                    std::vector<std::string_view> const& arguments) = 0;
  virtual void closed(Connection& connection) = 0;
  [[nodiscard]] virtual std::pmr::memory_resource& turn_memory() = 0;
  [[nodiscard]] virtual ServerState& state() = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(ConnectionOwner& owner, asio::ip::tcp::socket socket, std::uint64_t id,
             asio::ssl::context* tls);
  Connection(Connection const&) = delete;
  Connection& operator=(Connection const&) = delete;

  void start();
  /// Says why, and closes.
  void reject(std::string_view error);
  /// The turn that has requests of it has been run.
  void after_turn();
  /// Before the turn's memory goes.
  void end_turn() { reader_.end_turn(); }
  /// Looks whether it is to be dropped, once a second.
  void look_after(Clock::time_point now);
  void close();
  /// Once it has been sent what there is.
  void close_in_order();

  Session& session() { return session_; }
  [[nodiscard]] bool is_closed() const { return closed_; }
  [[nodiscard]] Clock::time_point read_at() const { return read_at_; }
  std::size_t turn_requests = 0;

 private:
  template <class Buffer, class Handler>
  void read_some(Buffer buffer, Handler handler);
  void read();
  void on_read(std::size_t bytes);
  /// Hands whole requests on. True: some are in the turn, or must wait for the next.
  bool collect();
  /// The same, or reads on.
  void go_on();
  void protocol_error();
  void flush();
  void write();
  void wait_for_replicas();
  [[nodiscard]] std::size_t unsent() const { return session_.out.size() + sending_.size() - sent_; }

  ConnectionOwner& owner_;
  asio::ip::tcp::socket socket_;
  std::unique_ptr<asio::ssl::stream<asio::ip::tcp::socket&>> tls_;
  asio::steady_timer timer_;
  Session session_;
  RequestReader reader_;
  std::vector<char> buffer_;
  std::vector<std::string_view> arguments_;
  std::string sending_;
  std::size_t sent_ = 0;
  bool reading_ = false, writing_ = false, closed_ = false;
  bool blocked_ = false;  // WAIT
  Clock::time_point read_at_, progress_at_;
};

}  // namespace perdure::serve
