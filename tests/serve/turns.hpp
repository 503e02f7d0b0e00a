// Turns of a server without its sockets: an executor over a small pool, sessions, and what each was
// answered, reply by reply. Invariant: a turn's arguments lie in memory that is overwritten once it
// has ended, so that whatever still looks there shows it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perdure/store.h"
#include "serve/executor.hpp"

namespace perdure::serve::test {

using Words = std::vector<std::string>;

/// The first reply of RESP2, taken from the front; empty where there is none, or one that is cut.
inline std::string_view take_reply(std::string_view& bytes) {
  std::size_t at = 0;
  for (std::size_t left = 1; left > 0; --left) {
    std::size_t const end = bytes.find("\r\n", at);
    if (end == std::string_view::npos) return {};
    char const sign = bytes[at];
    long long const number = sign == '$' || sign == '*'
                                 ? std::stoll(std::string(bytes.substr(at + 1, end - at - 1)))
                                 : -1;
    at = end + 2;
    if (sign == '$' && number >= 0) at += static_cast<std::size_t>(number) + 2;
    if (sign == '*' && number > 0) left += static_cast<std::size_t>(number);
    if (at > bytes.size()) return {};
  }
  std::string_view const reply = bytes.substr(0, at);
  bytes.remove_prefix(at);
  return reply;
}

/// Memory that is overwritten before it is given back.
class PoisoningMemory final : public std::pmr::memory_resource {
 public:
  ~PoisoningMemory() override { release(); }
  void release() {
    for (auto const& [bytes, size] : given_) std::memset(bytes.get(), 0xEE, size);
    old_ = std::exchange(given_, {});  // until the next time, for views that dangle
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t /*alignment*/) override {
    given_.emplace_back(std::make_unique<char[]>(bytes), bytes);
    return given_.back().first.get();
  }
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
    return this == &other;
  }
  std::vector<std::pair<std::unique_ptr<char[]>, std::size_t>> given_, old_;
};

/// A small pool of keys and values of any length. `max_bytes`: it grows no further.
inline Store small_store(std::string const& path = "memfd:serve", std::uint64_t max_bytes = 0) {
  CreateOptions o;
  o.key_bytes = o.value_bytes = 0;
  o.expected_records = 64;
  o.max_bytes = max_bytes;
  OpenOptions open;
  open.threads = 1;
  auto store = Store::create(path, o, open);
  if (!store) throw std::runtime_error(store.status().message());
  return std::move(*store);
}

class Turns {
 public:
  Turns(Store& store, std::size_t sessions, ServeOptions const& options = {})
      : options_(options), executor_(store, state_) {
    for (std::size_t i = 0; i < sessions; ++i) {
      sessions_.push_back(std::make_unique<Session>());
      sessions_.back()->id = i + 1;
      state_.sessions.emplace(i + 1, sessions_.back().get());
    }
  }
  Turns(Turns const&) = delete;
  Turns& operator=(Turns const&) = delete;

  [[nodiscard]] Session& session(std::size_t i) { return *sessions_[i]; }
  [[nodiscard]] ServerState& state() { return state_; }
  [[nodiscard]] Executor& executor() { return executor_; }

  void ask(std::size_t session, Words const& words) {
    Request& request =
        turn_.emplace_back(Request{sessions_[session].get(), find_command(words.front()), {}});
    for (std::string const& word : words) {
      auto* const to = static_cast<char*>(executor_.memory().allocate(word.size() + 1, 1));
      std::memcpy(to, word.data(), word.size());
      request.arguments.emplace_back(to, word.size());
    }
    asked_.push_back(session);
  }

  /// Runs what was asked as one turn: each request's reply, in the order in which they were asked.
  /// `told`: when the turn itself begins and ends.
  std::vector<std::string> run(std::int64_t now_ms, void (*told)(bool runs) = [](bool) {}) {
    told(true);
    executor_.run(turn_, now_ms);
    told(false);
    turn_.clear();
    executor_.end_turn();
    std::vector<std::string_view> out;
    for (auto const& session : sessions_) out.emplace_back(session->out);
    std::vector<std::string> replies;
    for (std::size_t const session : asked_) replies.emplace_back(take_reply(out[session]));
    for (std::string_view const left : out)
      if (!left.empty())
        throw std::runtime_error("more was answered than asked: " + std::string(left));
    for (auto const& session : sessions_) session->out.clear();
    asked_.clear();
    return replies;
  }
  std::string run_one(std::size_t session, Words const& words, std::int64_t now_ms) {
    ask(session, words);
    return run(now_ms).front();
  }

 private:
  ServeOptions options_;
  ServerState state_{.options = options_};
  Executor executor_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<Request> turn_;
  std::vector<std::size_t> asked_;
};

}  // namespace perdure::serve::test
