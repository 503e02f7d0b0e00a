// perdure-bench-serve: sends SETs and GETs to a server of Redis's protocol at a given rate, over
// many connections, and says how long the answers took. Invariant: a request's time runs from the
// moment when it was due, whether or not the client was late to send it, so a server that stalls
// is charged for all that was due meanwhile.
#include <CLI/CLI.hpp>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "../rocks/histogram.hpp"

namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using perdure::bench::rocks::Histogram;

struct Settings {
  std::string host = "127.0.0.1";
  std::uint16_t port = 6379;
  double rate = 10'000, seconds = 5, sets = 0.5;
  std::size_t clients = 50, value_bytes = 100, keys = 1'000'000;
};

/// Complete replies at the front of `text`; they are taken away. Of SET and GET alone.
std::size_t take_replies(std::string& text) {
  std::size_t at = 0, replies = 0;
  for (;;) {
    std::size_t const end = text.find("\r\n", at);
    if (end == std::string::npos) break;
    std::size_t next = end + 2;
    if (text[at] == '$' && text[at + 1] != '-') {
      next += std::stoul(text.substr(at + 1, end - at - 1)) + 2;
      if (next > text.size()) break;
    } else if (text[at] == '-') {
      throw std::runtime_error("the server answered " + text.substr(at, end - at));
    }
    at = next;
    ++replies;
  }
  text.erase(0, at);
  return replies;
}

class Client {
 public:
  Client(asio::io_context& io, Settings const& settings, Histogram& took, std::uint64_t seed)
      : socket_(io), settings_(settings), took_(took), random_(seed) {
    tcp::resolver resolver(io);
    asio::connect(socket_, resolver.resolve(settings.host, std::to_string(settings.port)));
    socket_.set_option(tcp::no_delay(true));
    value_.assign(settings.value_bytes, 'v');
    read();
  }
  void send(Clock::time_point due) {
    due_.push_back(due);
    append_request();
    write();
  }
  [[nodiscard]] std::size_t unanswered() const { return due_.size(); }

 private:
  void append_request() {
    char key[32];
    std::snprintf(key, sizeof key, "key:%012llu",
                  static_cast<unsigned long long>(random_() % settings_.keys));
    bool const set = std::uniform_real_distribution<>(0, 1)(random_) < settings_.sets;
    waiting_ += set ? "*3\r\n$3\r\nSET\r\n$16\r\n" : "*2\r\n$3\r\nGET\r\n$16\r\n";
    waiting_ += key;
    waiting_ += "\r\n";
    if (set) waiting_ += "$" + std::to_string(value_.size()) + "\r\n" + value_ + "\r\n";
  }
  void write() {
    if (!sending_.empty() || waiting_.empty()) return;
    std::swap(sending_, waiting_);
    asio::async_write(socket_, asio::buffer(sending_), [this](asio::error_code error, std::size_t) {
      if (error) throw std::runtime_error("write: " + error.message());
      sending_.clear();
      write();
    });
  }
  void read() {
    socket_.async_read_some(asio::buffer(buffer_), [this](asio::error_code error, std::size_t n) {
      if (error == asio::error::operation_aborted) return;
      if (error) throw std::runtime_error("read: " + error.message());
      got_.append(buffer_.data(), n);
      auto const now = Clock::now();
      for (std::size_t replies = take_replies(got_); replies > 0; --replies) {
        took_.add(static_cast<std::uint64_t>((now - due_.front()).count()));
        due_.pop_front();
      }
      read();
    });
  }

  tcp::socket socket_;
  Settings const& settings_;
  Histogram& took_;
  std::mt19937_64 random_;
  std::deque<Clock::time_point> due_;
  std::string value_, waiting_, sending_, got_;
  std::array<char, 16384> buffer_{};
};

/// The moments at which requests are due: at random, as of clients that know nothing of each other.
class Load {
 public:
  Load(asio::io_context& io, Settings const& settings)
      : timer_(io), settings_(settings), begin_(Clock::now()), due_(begin_) {
    for (std::size_t i = 0; i < settings.clients; ++i)
      clients_.push_back(std::make_unique<Client>(io, settings, took_, i + 1));
    begin_ = due_ = Clock::now();
    step();
  }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] Histogram const& took() const { return took_; }
  [[nodiscard]] bool done() const {
    return ended_ &&
           std::ranges::all_of(clients_, [](auto const& c) { return c->unanswered() == 0; });
  }

 private:
  void step() {
    auto const now = Clock::now();
    auto const end = begin_ + std::chrono::duration<double>(settings_.seconds);
    for (; due_ <= now && due_ < end; ++sent_) {
      clients_[random_() % clients_.size()]->send(due_);
      due_ += std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(std::exponential_distribution<>(settings_.rate)(random_)));
    }
    ended_ = due_ >= end;
    if (ended_) return;
    timer_.expires_at(due_);
    timer_.async_wait([this](asio::error_code error) {
      if (!error) step();
    });
  }

  asio::steady_timer timer_;
  Settings const& settings_;
  Histogram took_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::mt19937_64 random_{7};
  Clock::time_point begin_, due_;
  std::uint64_t sent_ = 0;
  bool ended_ = false;
};

int run(Settings const& settings, bool json) {
  asio::io_context io{1};
  auto const begin = Clock::now();
  Load load(io, settings);
  auto const patience = std::chrono::duration<double>(settings.seconds + 30);
  while (!load.done() && Clock::now() - begin < patience)
    io.run_one_for(std::chrono::milliseconds(50));
  if (!load.done())
    throw std::runtime_error("some requests had no answer 30 s after the last was due");
  double const seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  Histogram const& took = load.took();
  double const rate = static_cast<double>(load.sent()) / seconds;
  double const p50 = took.percentile(0.5), p99 = took.percentile(0.99),
               p999 = took.percentile(0.999);
  if (json)
    std::cout << nlohmann::json{{"asked", settings.rate},
                                {"rate", rate},
                                {"requests", load.sent()},
                                {"p50_us", p50},
                                {"p99_us", p99},
                                {"p99.9_us", p999},
                                {"largest_us", took.largest()}}
                     .dump()
              << "\n";
  else
    std::printf(
        "%.0f requests a second (%.0f asked for): p50 %.0f, p99 %.0f, p99.9 %.0f, largest %.0f "
        "us\n",
        rate, settings.rate, p50, p99, p999, took.largest());
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  Settings settings;
  bool json = false;
  CLI::App app{"Sends SETs and GETs at a given rate to a server of Redis's protocol."};
  app.add_option("--host", settings.host, "Where it is")->capture_default_str();
  app.add_option("--port", settings.port, "Its port")->capture_default_str();
  app.add_option("--rate", settings.rate, "Requests a second")->check(CLI::PositiveNumber);
  app.add_option("--seconds", settings.seconds, "For how long")->check(CLI::PositiveNumber);
  app.add_option("--sets", settings.sets, "Share of SETs")->check(CLI::Range(0.0, 1.0));
  app.add_option("--clients", settings.clients, "Connections")->check(CLI::PositiveNumber);
  app.add_option("--value-bytes", settings.value_bytes, "Bytes of each value");
  app.add_option("--keys", settings.keys, "Different keys")->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "Answer in JSON");
  CLI11_PARSE(app, argc, argv);
  return run(settings, json);
} catch (std::exception const& error) {
  std::fprintf(stderr, "perdure-bench-serve: error: %s\n", error.what());
  return 2;
}
