// Clients that send any bytes to a server's reader and executor, over a pool of their own: whatever
// they send, each gets whole replies, one for each of its requests at most, and the pool is sound.
#include <charconv>
#include <iterator>
#include <memory>
#include <string_view>

#include "../serve/turns.hpp"
#include "pools.hpp"
#include "serve/request_reader.hpp"

namespace perdure::test {
namespace {

using namespace perdure::serve;
using serve::test::PoisoningMemory;

constexpr std::size_t kPieces[] = {1, 3, 16, 100, 4096};
constexpr std::uint64_t kSoonFull = 12u << 20;

/// Of an input's first byte.
struct How {
  explicit How(std::uint8_t byte)
      : piece(kPieces[(byte & 7) % std::size(kPieces)]),
        two_clients((byte & 0x08) != 0),
        resp3((byte & 0x10) != 0),
        soon_full((byte & 0x20) != 0),
        password((byte & 0x40) != 0),
        time_passes((byte & 0x80) != 0) {}
  std::size_t piece;
  bool two_clients, resp3, soon_full, password, time_passes;
};

ServeOptions options_of(How const& how) {
  ServeOptions o;
  if (how.password) o.password = "pass";
  o.most_value_bytes = 5000;
  o.most_key_bytes = 300;
  o.most_request_bytes = 20'000;
  o.most_unread_bytes = 1u << 20;
  return o;
}

struct Client {
  Client(ServeOptions const& o, std::pmr::memory_resource& memory, bool resp3)
      : reader({.argument_bytes = o.most_value_bytes, .request_bytes = o.most_request_bytes},
               memory) {
    session.state.protocol = resp3 ? 3 : 2;
    session.state.authenticated = o.password.empty();
  }
  Session session;
  RequestReader reader;
  std::uint64_t requests = 0;
  bool gone = false;
};

/// Of a length or a number of elements.
std::size_t number_of(std::string_view line) {
  std::size_t number = 0;
  auto const [end, error] = std::from_chars(line.begin(), line.end(), number);
  if (error != std::errc() || end != line.end()) fault("a reply with no number");
  return number;
}

/// Takes one whole reply, of RESP2 or RESP3, from the front.
void take_reply(std::string_view& bytes) {
  for (std::size_t left = 1; left > 0; --left) {
    std::size_t const end = bytes.find("\r\n");
    if (end == std::string_view::npos) fault("a reply is cut");
    char const type = bytes[0];
    std::string_view const line = bytes.substr(1, end - 1);
    bytes.remove_prefix(end + 2);
    if (std::string_view("+-:,#(_").find(type) != std::string_view::npos || line == "-1") continue;
    std::size_t const number = number_of(line);
    if (std::string_view("*~>").find(type) != std::string_view::npos) {
      left += number;
    } else if (type == '%') {
      left += 2 * number;
    } else if (type == '$' || type == '=') {
      if (bytes.size() < number + 2 || bytes.substr(number, 2) != "\r\n") fault("a string is cut");
      bytes.remove_prefix(number + 2);
    } else {
      fault(std::string("a reply of no type: ") + type);
    }
  }
}

std::uint64_t count_replies(std::string_view bytes) {
  std::uint64_t replies = 0;
  for (; !bytes.empty(); ++replies) take_reply(bytes);
  return replies;
}

class Clients {
 public:
  explicit Clients(How const& how)
      : how_(how),
        options_(options_of(how)),
        store_(serve::test::small_store("memfd:fuzz", how.soon_full ? kSoonFull : 0)),
        executor_(store_, state_) {
    state_.save = [](bool) { return Status{Code::unsupported, "no file is named"}; };
    for (std::uint64_t id = 1; id <= (how.two_clients ? 2 : 1); ++id) {
      clients_.push_back(std::make_unique<Client>(options_, executor_.memory(), how.resp3));
      clients_.back()->session.id = id;
      state_.sessions.emplace(id, &clients_.back()->session);
    }
  }

  void send(std::string_view bytes) {
    for (std::size_t i = 0; !bytes.empty() && !state_.stop_asked; ++i) {
      std::string_view const piece = bytes.substr(0, how_.piece);
      bytes.remove_prefix(piece.size());
      feed(*clients_[i % clients_.size()], piece);
      if (i % 3 == 2 || how_.piece == 1) run();
    }
    run();
    auto const verified = store_.verify();
    must(verified.status());
    if (verified.value().fault_count != 0) fault("a fault in the pool");
  }

 private:
  void feed(Client& client, std::string_view bytes) {
    if (client.gone || client.session.state.closing || client.session.killed) return;
    client.reader.trust(client.session.state.authenticated);
    if (!client.reader.feed(bytes)) fault("its reader takes no more");
    RequestReader::Next next;
    while ((next = client.reader.next(arguments_)) == RequestReader::Next::request) {
      turn_.push_back({&client.session, find_command(arguments_.front()), arguments_});
      ++client.requests;
    }
    client.gone = next == RequestReader::Next::failed;  // it gets its error, and is dropped
    if (client.gone && client.reader.error().empty()) fault("a failure without an error");
  }
  void run() {
    executor_.run(turn_, now_ms_ += how_.time_passes ? 700 : 0);
    turn_.clear();
    executor_.end_turn();
    for (auto const& client : clients_) {
      client->reader.end_turn();
      std::uint64_t const replies = count_replies(client->session.out);
      if (replies > client->requests) fault("more replies than requests");
      client->requests = 0;
      client->session.out.clear();
    }
  }

  How how_;
  ServeOptions options_;
  Store store_;
  ServerState state_{.options = options_};
  Executor executor_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Request> turn_;
  std::vector<std::string_view> arguments_;
  std::int64_t now_ms_ = 1'000'000;
};

}  // namespace

void fuzz_server(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return;
  Clients(How(data[0])).send({reinterpret_cast<char const*>(data) + 1, size - 1});
}

}  // namespace perdure::test
