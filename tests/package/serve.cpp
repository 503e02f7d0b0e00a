// A user's program that serves a pool: starts, answers one request of a client, and stops.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "perdure/serve.h"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  perdure::CreateOptions options;
  options.key_bytes = options.value_bytes = 0;
  auto store = perdure::Store::create(arguments[1], options);
  if (!store) return std::fprintf(stderr, "%s\n", store.status().message().c_str()), 1;
  auto server = perdure::Server::start(*store, {.port = 0});
  if (!server) return std::fprintf(stderr, "%s\n", server.status().message().c_str()), 1;
  int const client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(server->port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return 1;
  std::string const ask = "SET key value\r\nGET key\r\n", expected = "+OK\r\n$5\r\nvalue\r\n";
  if (::send(client, ask.data(), ask.size(), 0) != static_cast<ssize_t>(ask.size())) return 1;
  std::string got(expected.size(), '\0');
  bool const same =
      ::recv(client, got.data(), got.size(), MSG_WAITALL) == static_cast<ssize_t>(got.size()) &&
      got == expected;
  ::close(client);
  return same && server->stop().ok() ? 0 : 1;
}
