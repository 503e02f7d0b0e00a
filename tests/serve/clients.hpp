// Clients of a server by plain sockets, and a server over a small pool.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "perdure/serve.h"
#include "turns.hpp"

namespace perdure::serve::test {

class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval const patience{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(Client const&) = delete;
  Client& operator=(Client const&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      auto const sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// The next reply; empty once the server has closed.
  std::string reply() {
    for (;;) {
      std::string_view left = got_;
      std::string const one(take_reply(left));
      got_.erase(0, one.size());
      if (!one.empty()) return one;
      char bytes[4096];
      auto const read = ::recv(socket_, bytes, sizeof bytes, 0);
      if (read < 0 && errno == EINTR) continue;  // with a time limit it is not begun again
      if (read <= 0) return {};
      got_.append(bytes, static_cast<std::size_t>(read));
    }
  }
  std::string ask(Words const& words) {
    std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
    for (std::string const& word : words)
      bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    return send(bytes) ? reply() : std::string();
  }

 private:
  int socket_;
  bool connected_ = false;
  std::string got_;
};

inline Server started(Store& store, ServeOptions options = {}) {
  options.port = 0;
  auto server = Server::start(store, options);
  if (!server) throw std::runtime_error(server.status().message());
  return std::move(*server);
}

}  // namespace perdure::serve::test
