// The server: listens, runs a turn whenever there are requests and no more to be read at once, and
// looks after its clients. Invariant: one thread, the loop's, touches everything but what
// ServerState says any may read.
#include <fcntl.h>
#include <openssl/rand.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/ssl/context.hpp>
#include <asio/steady_timer.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/caught.hpp"
#include "base/log.hpp"
#include "base/own_thread.hpp"
#include "base/process.hpp"
#include "perdure/serve.h"
#include "serve/connection.hpp"
#include "serve/executor.hpp"
#include "serve/latencies.hpp"
#include "serve/server_events.hpp"

namespace perdure {
namespace {

using namespace perdure::serve;
using asio::ip::tcp;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr auto kExpireEvery = std::chrono::milliseconds(100);
constexpr auto kExpireFor = std::chrono::milliseconds(2);
constexpr auto kExpireMuchFor = std::chrono::milliseconds(25);
constexpr auto kLeaveWithin = std::chrono::seconds(5);
constexpr std::string_view kProtected =
    "DENIED Perdure is running in protected mode because no password is set: clients of other "
    "machines are refused. Start it with --requirepass, or with --no-protected-mode if others "
    "keep strangers out.";

std::int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// A program that this process starts has no clients of ours.
void close_on_exec(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

bool is_loopback(asio::ip::address const& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

std::string random_id() {
  unsigned char bytes[20];
  std::string id;
  if (RAND_bytes(bytes, sizeof bytes) != 1) return "0";
  for (unsigned char const byte : bytes) {
    id += "0123456789abcdef"[byte >> 4];
    id += "0123456789abcdef"[byte & 15];
  }
  return id;
}

Status check_store(Store const& store) {
  if (Status s = store.belongs_here(); !s.ok()) return s;
  if (store.index() == Index::gphash && store.key_bytes() == 0 && store.value_bytes() == 0)
    return {};
  return {Code::unsupported,
          "pool " + store.path() +
              ": a server needs index gphash and keys and values of any length; make one with "
              "CreateOptions{.key_bytes = 0, .value_bytes = 0}, or let 'perdure serve' make it"};
}

Status check_options(ServeOptions const& o) {
  if (o.tls.certificate.empty() != o.tls.key.empty())
    return {Code::invalid_argument, "TLS needs both a certificate and its key"};
  if (o.tls.certificate.empty() && !o.tls.client_ca.empty())
    return {Code::invalid_argument,
            "clients' certificates need TLS: name a certificate and its key"};
  if (o.most_clients == 0 || o.most_turn_requests == 0)
    return {Code::invalid_argument, "most_clients and most_turn_requests are at least 1"};
  return {};
}

}  // namespace

struct Server::Impl final : ConnectionOwner {
  Impl(Store& to, ServeOptions const& o) : options(o), store(to) {}

  Status listen();
  Status set_up_tls();
  void run();
  void stop_from_outside();

  bool take(std::shared_ptr<Connection> const& from,
            std::vector<std::string_view> const& arguments) override;
  void closed(Connection& connection) override;
  std::pmr::memory_resource& turn_memory() override { return executor.memory(); }
  ServerState& state() override { return server; }

  void accept();
  void admit(tcp::socket socket);
  void run_turn();
  void look_after_all();
  void expire();
  void leave();
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(SteadyClock::now() - began).count();
  }
  Status save(bool wait);
  void saved(Status const& status);

  std::uint64_t const process = this_process();
  Impl* aside = nullptr;
  ServeOptions const options;
  Store& store;
  ServerState server{.options = options};
  Executor executor{store, server};
  ServerEvents events{store.path(), server};
  Latencies latencies;
  std::atomic<std::uint64_t> clients = 0;
  SteadyClock::time_point began = SteadyClock::now();

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::unique_ptr<asio::ssl::context> tls;
  tcp::acceptor acceptor{io};
  asio::steady_timer looking{io}, expiring{io}, leaving{io};
  std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections;
  std::uint64_t last_id = 0;
  std::vector<Request> turn;
  std::size_t requests = 0;  // of `turn`, whose vectors are used again
  std::vector<std::shared_ptr<Connection>> asking;  // those with requests in the turn
  std::vector<std::shared_ptr<Connection>> waiting;  // for the next turn, as this one is full
  std::thread saver;

  std::mutex stopping;
  std::mutex mutex;
  std::condition_variable ended;
  bool running = true;
  Status failure;
  std::thread loop;
};

Status Server::Impl::set_up_tls() {
  if (options.tls.certificate.empty()) return {};
  asio::error_code error;
  tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  auto const failed = [&](std::string const& what) {
    return Status{Code::invalid_argument, what + ": " + error.message()};
  };
  tls->use_certificate_chain_file(options.tls.certificate, error);
  if (error) return failed("TLS certificate " + options.tls.certificate);
  tls->use_private_key_file(options.tls.key, asio::ssl::context::pem, error);
  if (error) return failed("TLS key " + options.tls.key);
  if (options.tls.client_ca.empty()) return {};
  tls->load_verify_file(options.tls.client_ca, error);
  if (error) return failed("TLS authority " + options.tls.client_ca);
  tls->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
  return error ? failed("TLS") : Status{};
}

Status Server::Impl::listen() {
  if (Status s = set_up_tls(); !s.ok()) return s;
  asio::error_code error;
  auto const address = asio::ip::make_address(options.host, error);
  std::string const at = options.host + ":" + std::to_string(options.port);
  if (error)
    return {Code::invalid_argument,
            "host " + options.host + " is no address; give one such as 127.0.0.1 or ::"};
  tcp::endpoint const end(address, options.port);
  acceptor.open(end.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(end, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use)
    return {Code::busy, at + " is in use; stop who listens there, or give another port"};
  if (error) return {Code::io_error, at + ": " + error.message()};
  close_on_exec(acceptor.native_handle());
  hold(acceptor.native_handle());  // a child that is forked does not listen
  server.port = acceptor.local_endpoint(error).port();
  server.run_id = random_id();
  server.started_ms = server.now_ms = wall_ms();
  server.last_save_s = server.started_ms / 1000;
  server.save = [this](bool wait) { return save(wait); };
  return {};
}

void Server::Impl::run() {
  Status ended_by;
  try {
    accept();
    look_after_all();
    expire();
    while (!server.stop_asked) {
      log::Delivery const delivery;
      if (asking.empty()) io.run_one();  // else the last turn left requests for the next
      io.poll();
      run_turn();
    }
    leave();
    ended_by = server.failure;
  } catch (std::exception const& error) {
    ended_by = {Code::io_error, std::string("the server failed: ") + error.what()};
  }
  connections.clear();
  static_cast<void>(caught([&] {  // its end is as good without events
    log::Delivery const delivery;
    events.look();
    events.ended(ended_by, seconds());
    return Status{};
  }));
  std::lock_guard const lock(mutex);
  failure = ended_by;
  running = false;
  ended.notify_all();
}

/// Everybody is sent what was answered, for a while.
void Server::Impl::leave() {
  asio::error_code error;
  let_go_of(acceptor.native_handle());
  acceptor.close(error);
  looking.cancel();
  expiring.cancel();
  run_turn();
  auto const all = connections;
  for (auto const& [id, connection] : all) connection->close_in_order();
  auto const until = SteadyClock::now() + kLeaveWithin;
  while (!connections.empty() && SteadyClock::now() < until)
    io.run_one_for(std::chrono::milliseconds(50));
  auto const late = connections;
  for (auto const& [id, connection] : late) connection->close();
  io.poll();
}

void Server::Impl::stop_from_outside() {
  std::lock_guard const one(stopping);  // others wait until it has stopped
  asio::post(io, [this] { server.stop_asked = true; });
  if (loop.joinable()) loop.join();
  if (saver.joinable()) saver.join();
}

void Server::Impl::accept() {
  acceptor.async_accept([this](asio::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || server.stop_asked) return;
    if (!error) {
      admit(std::move(socket));
      return accept();
    }
    // No descriptors are left, say: others leave meanwhile.
    leaving.expires_after(std::chrono::milliseconds(100));
    leaving.async_wait([this](asio::error_code cancelled) {
      if (!cancelled && !server.stop_asked) accept();
    });
  });
}

void Server::Impl::admit(tcp::socket socket) {
  server.connections.fetch_add(1, std::memory_order_relaxed);
  asio::error_code error;
  bool const near = is_loopback(socket.remote_endpoint(error).address());
  close_on_exec(socket.native_handle());
  auto const connection =
      std::make_shared<Connection>(*this, std::move(socket), ++last_id, tls.get());
  bool const full = connections.size() >= options.most_clients;
  bool const stranger = options.protected_mode && options.password.empty() && !near;
  connections.emplace(last_id, connection);
  server.sessions.emplace(last_id, &connection->session());
  clients.store(connections.size(), std::memory_order_relaxed);
  if (!full && !stranger) return connection->start();
  (full ? server.rejected_full : server.rejected_strangers).fetch_add(1, std::memory_order_relaxed);
  connection->reject(full ? "ERR max number of clients reached" : kProtected);
}

void Server::Impl::closed(Connection& connection) {
  Session& session = connection.session();
  session.state.closing = true;  // what the turn has of it is passed over
  server.unwatch(session);
  server.sessions.erase(session.id);
  connections.erase(session.id);  // handlers that are to run keep it a while
  clients.store(connections.size(), std::memory_order_relaxed);
}

bool Server::Impl::take(std::shared_ptr<Connection> const& from,
                        std::vector<std::string_view> const& arguments) {
  if (from->turn_requests++ == 0) asking.push_back(from);
  if (arguments.empty()) return false;
  if (requests == turn.size()) turn.emplace_back();
  Request& request = turn[requests++];
  request.session = &from->session();
  request.command = find_command(arguments.front());
  request.arguments.assign(arguments.begin(), arguments.end());
  return requests < options.most_turn_requests;
}

void Server::Impl::run_turn() {
  if (asking.empty()) return;
  server.now_ms = wall_ms();
  std::vector<Request> const& all = turn;
  executor.run({all.data(), requests}, server.now_ms);
  auto const now = SteadyClock::now();
  std::vector<std::shared_ptr<Connection>> const asked = std::exchange(asking, {});
  for (auto const& connection : asked) {
    latencies.add(now - connection->read_at(), connection->turn_requests);
    connection->end_turn();
  }
  requests = 0;
  executor.end_turn();
  for (auto const& connection : asked) connection->after_turn();
  if (!std::exchange(server.any_killed, false)) return;
  auto const connected = connections;
  for (auto const& [id, connection] : connected)
    if (connection->session().killed) connection->close();
}

void Server::Impl::look_after_all() {
  auto const now = SteadyClock::now();
  events.look();
  auto const all = connections;
  for (auto const& [id, connection] : all) connection->look_after(now);
  looking.expires_after(kLookEvery);
  looking.async_wait([this](asio::error_code error) {
    if (!error) look_after_all();
  });
}

void Server::Impl::expire() {
  auto const begin = SteadyClock::now();
  auto allowed = std::chrono::duration_cast<SteadyClock::duration>(kExpireFor);
  while (asking.empty() && executor.may_expire() && SteadyClock::now() - begin < allowed)
    if (executor.expire_some(wall_ms())) allowed = kExpireMuchFor;
  expiring.expires_after(kExpireEvery);
  expiring.async_wait([this](asio::error_code error) {
    if (!error) expire();
  });
}

Status Server::Impl::save(bool wait) {
  if (options.snapshot_path.empty())
    return {Code::unsupported,
            "no file is named for snapshots: start the server with --snapshot PATH. What was "
            "answered is durable without one."};
  SnapshotOptions how;
  how.overwrite = true;
  if (wait) {
    Status const status = store.snapshot(options.snapshot_path, how);
    saved(status);
    return status;
  }
  if (saver.joinable()) saver.join();
  server.saving = true;
  saver = own_thread([this, how] {
    Status const status = store.snapshot(options.snapshot_path, how);
    asio::post(io, [this, status] { saved(status); });
  });
  return {};
}

void Server::Impl::saved(Status const& status) {
  server.saving = false;
  server.last_save_failed = !status.ok();
  if (!status.ok()) events.not_saved(status);
  if (status.ok()) server.last_save_s = wall_ms() / 1000;
}

Result<Server> Server::start(Store& store, ServeOptions const& options) {
  if (Status s = check_store(store); !s.ok()) return s;
  if (Status s = check_options(options); !s.ok()) return s;
  auto impl = std::make_unique<Impl>(store, options);
  if (Status s = impl->listen(); !s.ok()) return s;
  log::Delivery const delivery;
  impl->events.began();
  impl->loop = own_thread([at = impl.get()] { at->run(); });
  return Server(std::move(impl));
}

namespace {

/// In a child that was forked the threads are not there, and the sockets, and what waits on them,
/// are its parent's too.
template <class Impl>
bool is_elsewhere(Impl const& impl) {
  return impl.process != this_process();
}

template <class Impl>
void end(std::unique_ptr<Impl> impl) {
  if (impl == nullptr) return;
  if (is_elsewhere(*impl)) return put_aside(std::move(impl));
  impl->stop_from_outside();
}

}  // namespace

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&& other) noexcept {
  if (this == &other) return *this;
  end(std::move(impl_));
  impl_ = std::move(other.impl_);
  return *this;
}
Server::~Server() { end(std::move(impl_)); }

std::uint16_t Server::port() const { return impl_->server.port; }

bool Server::running() const {
  if (is_elsewhere(*impl_)) return false;
  std::lock_guard const lock(impl_->mutex);
  return impl_->running;
}

bool Server::wait(std::uint64_t most_ms) {
  if (is_elsewhere(*impl_)) return true;
  std::unique_lock lock(impl_->mutex);
  return impl_->ended.wait_for(lock, std::chrono::milliseconds(most_ms),
                               [&] { return !impl_->running; });
}

Status Server::stop() {
  if (is_elsewhere(*impl_))
    return {Code::closed, "the server runs in the process that started it, and this is another"};
  impl_->stop_from_outside();
  std::lock_guard const lock(impl_->mutex);
  return impl_->failure;
}

ServeStats Server::stats() const {
  ServerState const& s = impl_->server;
  ServeStats stats;
  stats.commands = s.commands;
  stats.turns = s.turns;
  stats.largest_turn = s.largest_turn;
  stats.clients = impl_->clients;
  stats.connections = s.connections;
  stats.rejected_connections = s.rejected_full + s.rejected_strangers;
  stats.dropped_slow = s.dropped_slow;
  stats.hits = s.hits;
  stats.misses = s.misses;
  stats.expired_keys = s.expired_keys;
  stats.refused_writes = s.refused_writes;
  stats.bytes_in = s.bytes_in;
  stats.bytes_out = s.bytes_out;
  stats.seconds = impl_->seconds();
  stats.latency_us = impl_->latencies.all();
  return stats;
}

}  // namespace perdure
