// What must hold of turns, whatever they are made of: run by turns_test.cpp on the code as it is,
// and with faults planted by mutants_test.cpp. Nothing: nothing is wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model.hpp"
#include "turns.hpp"

namespace perdure::serve::test {

using Wrong = std::optional<std::string>;
using Numbers = std::vector<std::uint32_t>;

inline Numbers random_numbers(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  Numbers numbers(count);
  for (auto& n : numbers) n = static_cast<std::uint32_t>(random());
  return numbers;
}

/// A number's bits, taken from below.
class Bits {
 public:
  explicit Bits(std::uint32_t number) : left_(number) {}
  std::uint32_t take(std::uint32_t below) {
    std::uint32_t const got = left_ % below;
    left_ /= below;
    return got;
  }

 private:
  std::uint32_t left_;
};

struct Step {
  std::size_t session;
  Words words;
  bool ends_turn;
  std::int64_t later_ms;
};

/// `longest`: of the values that it sets.
inline Step step_of(std::uint32_t number, std::size_t longest) {
  Bits bits(number);
  Step step;
  step.session = bits.take(3);
  step.ends_turn = bits.take(8) == 0;
  step.later_ms = bits.take(4) == 0 ? 3 : 0;
  static Words const names = {"SET",    "SET",    "GET",     "INCRBY",  "APPEND",  "MSET",
                              "MSETNX", "MGET",   "DEL",     "DEL",     "EXISTS",  "GETDEL",
                              "SETNX",  "STRLEN", "PEXPIRE", "PTTL",    "PERSIST", "HSET",
                              "HSET",   "HGET",   "HDEL",    "HGETALL", "TYPE",    "MULTI",
                              "EXEC",   "EXEC",   "WATCH",   "UNWATCH", "DISCARD", "FLUSHDB"};
  std::string const name = names[bits.take(static_cast<std::uint32_t>(names.size()))];
  std::string const key = "key:" + std::to_string(bits.take(4));
  std::uint32_t const more = bits.take(6);
  std::string const value = more < 2 ? std::to_string(more) : std::string(more * longest / 5, 'a');
  Words& w = step.words = {name};
  auto const add = [&](auto const&... words) { (w.emplace_back(words), ...); };
  if (name == "SET") {
    add(key, value);
    static Words const options[] = {{}, {}, {"NX"}, {"XX"}, {"GET"}, {"PX", "4"}, {"KEEPTTL"}};
    for (std::string const& word : options[bits.take(7)]) add(word);
  } else if (name == "INCRBY") {
    add(key, std::to_string(more));
  } else if (name == "APPEND" || name == "SETNX") {
    add(key, value);
  } else if (name == "MSET" || name == "MSETNX") {
    add(key, value, "key:2", "7", "key:3", value);
  } else if (name == "MGET" || name == "DEL" || name == "EXISTS" || name == "WATCH") {
    add(key, "key:1");
  } else if (name == "PEXPIRE") {
    add(key, std::to_string(static_cast<int>(more) * 2 - 2));
  } else if (name == "HSET") {
    add("hash", "field:" + std::to_string(more % 3), value);
  } else if (name == "HGET" || name == "HDEL") {
    add(more == 0 ? key : "hash", "field:" + std::to_string(more % 3));
  } else if (name == "HGETALL") {
    add("hash");
  } else if (name != "MULTI" && name != "EXEC" && name != "UNWATCH" && name != "DISCARD" &&
             name != "FLUSHDB") {
    add(key);
  }
  return step;
}

inline bool is_refusal(std::string const& reply) {
  return reply.starts_with("-OOM ") || reply.starts_with("-ERR string exceeds maximum");
}

struct Generated {
  std::uint64_t max_bytes = 0;  // of the pool; 0: nothing may be refused
  std::size_t longest = 40;
  std::uint64_t refused = 0;  // what came of it
  std::uint64_t turns = 0;
};

/// What a full pool may refuse: what puts a record.
inline bool may_be_refused(std::string const& name) {
  static Words const growing = {"SET",  "INCRBY", "APPEND", "MSET",    "MSETNX", "SETNX",
                                "HSET", "HDEL",   "EXEC",   "PEXPIRE", "PERSIST"};
  return std::ranges::find(growing, name) != growing.end();
}

inline constexpr std::size_t kClients = 3, kJudge = 3;  // one that asks nothing but what there is

inline std::string shown(std::string const& text) {
  return text.size() < 100 ? text : text.substr(0, 100) + "...";
}

/// The store has what the model has, and no more.
inline Wrong is_as_the_model(Turns& turns, Model& model) {
  auto const items = model.items();
  for (auto const& [key, item] : items) {
    for (Words const& words : {Words{item.hash ? "HGETALL" : "GET", key}, Words{"PTTL", key}}) {
      std::string const expected = model.answer(kJudge, words);
      std::string const got = turns.run_one(kJudge, words, model.now);
      if (got != expected) return key + " is " + shown(got) + ", not " + shown(expected);
    }
  }
  std::string const keys = turns.run_one(kJudge, {"KEYS", "*"}, model.now);
  if (!keys.starts_with("*" + std::to_string(items.size()) + "\r\n"))
    return "KEYS finds " + keys + ", not " + std::to_string(items.size()) + " keys";
  std::string const size = turns.run_one(kJudge, {"DBSIZE"}, model.now);
  if (size != ":" + std::to_string(items.size()) + "\r\n") return "DBSIZE says " + size;
  return std::nullopt;
}

/// Each reply of generated turns is what the model answers one by one, but for those that a full
/// pool refuses, which have changed nothing.
inline Wrong turns_answer_as_one_by_one(Numbers const& numbers, Generated& how) {
  Store store = small_store("memfd:serve", how.max_bytes);
  Turns turns(store, kClients + 1);
  Model model(kClients + 1);
  std::vector<Step> asked;
  std::int64_t later = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    asked.push_back(step_of(numbers[i], how.longest));
    turns.ask(asked.back().session, asked.back().words);
    later += asked.back().later_ms;
    if (!asked.back().ends_turn && i + 1 < numbers.size()) continue;
    model.now += std::exchange(later, 0);
    auto const replies = turns.run(model.now);
    ++how.turns;
    for (std::size_t k = 0; k < asked.size(); ++k) {
      Step const& step = asked[k];
      bool const refused = how.max_bytes != 0 && is_refusal(replies[k]);
      if (refused && may_be_refused(step.words[0])) {
        ++how.refused;
        model.refused(step.session, step.words);
        continue;
      }
      std::string const expected = model.answer(step.session, step.words);
      if (replies[k] == expected) continue;
      std::string command;
      for (std::string const& word : step.words) command += shown(word) + " ";
      return "turn " + std::to_string(how.turns) + ", client " + std::to_string(step.session) +
             ": " + command + "got " + shown(replies[k]) + ", not " + shown(expected);
    }
    asked.clear();
  }
  if (Wrong wrong = is_as_the_model(turns, model)) return wrong;
  auto verified = store.verify();
  if (!verified || verified->fault_count != 0) return "the store has faults";
  return std::nullopt;
}

// A pool that fills, and values that fill it.
inline constexpr std::uint64_t kFullBytes = 8u << 20;
inline constexpr std::size_t kLongValue = 400'000;

inline Wrong full_pools_refuse_single_commands() {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    Generated how{.max_bytes = kFullBytes, .longest = kLongValue};
    if (Wrong wrong = turns_answer_as_one_by_one(random_numbers(seed, 400), how)) return wrong;
    if (how.refused == 0) return "nothing was refused: the pool is too large for this test";
  }
  return std::nullopt;
}

inline Wrong answers(std::vector<std::string> const& got,
                     std::vector<std::string> const& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (got[i] != expected[i])
      return "reply " + std::to_string(i) + " is " + shown(got[i]) + ", not " + shown(expected[i]);
  return std::nullopt;
}

/// A turn has one command that no pool takes: the others are answered, once each, and who watches
/// the key that it did not change notices nothing.
inline Wrong one_that_does_not_fit_is_refused_alone() {
  Store store = small_store();
  Turns turns(store, 4, {.most_value_bytes = 4u << 20});
  std::string const too_long(2u << 20, 'x');
  std::string const refused = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
  turns.run_one(1, {"WATCH", "long"}, 1);
  turns.run_one(3, {"WATCH", "other"}, 1);
  turns.ask(0, {"INCRBY", "n", "1"});
  turns.ask(0, {"MULTI"});
  turns.ask(2, {"WATCH", "long"});
  turns.ask(0, {"INCRBY", "n", "10"});
  turns.ask(2, {"SET", "long", too_long});
  turns.ask(0, {"EXEC"});
  turns.ask(3, {"UNWATCH"});
  turns.ask(2, {"GET", "n"});
  std::string const ok = "+OK\r\n", queued = "+QUEUED\r\n";
  if (Wrong wrong = answers(
          turns.run(1), {":1\r\n", ok, ok, queued, refused, "*1\r\n:11\r\n", ok, "$2\r\n11\r\n"}))
    return wrong;
  for (std::size_t const client : {1, 2, 3}) {
    turns.ask(client, {"MULTI"});
    turns.ask(client, {"GET", "long"});
    turns.ask(client, {"EXEC"});
    if (Wrong wrong = answers(turns.run(2), {ok, queued, "*1\r\n$-1\r\n"}))
      return "client " + std::to_string(client) + ", which watched: " + *wrong;
  }
  return std::nullopt;
}

/// What EXEC does takes effect whole or not at all.
inline Wrong a_transaction_that_does_not_fit_changes_nothing() {
  Store store = small_store();
  Turns turns(store, 2, {.most_value_bytes = 4u << 20});
  turns.run_one(0, {"SET", "a", "1"}, 1);
  turns.ask(0, {"MULTI"});
  turns.ask(0, {"SET", "a", "2"});
  turns.ask(0, {"SET", "b", std::string(2u << 20, 'x')});
  turns.ask(1, {"SET", "c", "3"});
  turns.ask(0, {"EXEC"});
  turns.ask(0, {"MGET", "a", "b", "c"});
  auto const replies = turns.run(1);
  if (!is_refusal(replies[4])) return "EXEC was answered " + shown(replies[4]);
  if (replies[5] != "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n") return "it left " + shown(replies[5]);
  return std::nullopt;
}

/// What has expired is gone for good once anybody was told so, whatever the clock says later.
inline Wrong what_has_expired_stays_away() {
  Store store = small_store();
  {
    Turns turns(store, 1);
    turns.run_one(0, {"SET", "key", "value", "PX", "10"}, 1000);
    if (turns.run_one(0, {"GET", "key"}, 2000) != "$-1\r\n") return "it was there once expired";
  }
  Turns after(store, 1);  // a server that starts with a clock that was set back
  if (after.run_one(0, {"GET", "key"}, 1001) != "$-1\r\n") return "an expired key came back";
  return std::nullopt;
}

}  // namespace perdure::serve::test
