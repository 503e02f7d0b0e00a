// A world in which RocksDB is a list of states, so that what each reader may see is known, and a
// block cache beside it. Generated steps read, insert late, flush, write and ingest, in any order
// that readers' and writers' threads could make of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lsm/cache/block_cache.hpp"
#include "rocks/support/draws.hpp"

namespace perdure::lsm::test {

using perdure::test::Draws;

struct OneKey {
  std::string const& key;
  [[nodiscard]] std::byte const* at(std::size_t) const {
    return reinterpret_cast<std::byte const*>(key.data());
  }
  [[nodiscard]] std::uint32_t size(std::size_t) const {
    return static_cast<std::uint32_t>(key.size());
  }
};

inline std::uint64_t hash_of(std::uint32_t family, std::string const& key) {
  return cache_hash(family, reinterpret_cast<std::byte const*>(key.data()), key.size());
}

/// What a lookup found: nothing, or a value, or that there is none.
struct Looked {
  Cached found = Cached::unknown;
  std::string value;

  [[nodiscard]] bool is_known() const { return found == Cached::value || found == Cached::absent; }
};

template <class Cache>
Looked look_up(Cache& cache, CacheTicket const& ticket, std::uint32_t family,
               std::string const& key) {
  std::vector<std::uint64_t> words(cache.value_words());
  CacheAnswer answer;
  cache.look_up(ticket, family, OneKey{key}, 1, &answer, words.data());
  return {answer.found, std::string(reinterpret_cast<char const*>(words.data()), answer.size)};
}

template <class Cache>
void insert(Cache& cache, CacheTicket const& ticket, std::uint32_t family, std::string const& key,
            std::optional<std::string> const& value) {
  CacheValue said;
  said.is_absent = !value;
  if (value) {
    said.data = reinterpret_cast<std::byte const*>(value->data());
    said.size = value->size();
  }
  cache.insert(ticket, family, std::as_bytes(std::span(key)), said);
}

template <class Rules>
class CacheWorld {
 public:
  explicit CacheWorld(std::uint64_t seed)
      : draws_(seed),
        memory_(CacheMemory::map({draws_.once_in(2) ? 1u << 16 : 2 * 576u, 64}).value()),
        cache_(std::move(memory_), counters_) {
    states_.push_back({10, {}});
  }

  /// What went wrong; empty: nothing.
  std::string run(int steps) {
    for (int i = 0; i < steps && failure_.empty(); ++i) step();
    return failure_;
  }
  [[nodiscard]] CacheCounters const& counters() const { return counters_; }

 private:
  using Key = std::pair<std::uint32_t, std::string>;
  struct State {
    std::uint64_t sequence;
    std::map<Key, std::string> values;
  };
  struct Reader {
    CacheTicket ticket;
    Key key;
    std::optional<std::string> truth;
    std::optional<Looked> looked;  // nothing: he has not looked yet
  };
  static constexpr std::size_t kKeys = 60;

  void step() {
    switch (draws_.below(32)) {
      case 0: return flush();
      case 1: return write();
      case 2: return ingest();
      case 3: return fail_to_flush();
      default: return draws_.once_in(3) ? begin() : go_on();
    }
  }

  Key draw_key() {
    std::uint64_t const n = draws_.below(draws_.once_in(2) ? 8 : kKeys);
    return {static_cast<std::uint32_t>(n % 2), std::string(n % 20, 'k') + std::to_string(n)};
  }
  State& now() { return states_.back(); }

  void begin() {
    State const& state = draws_.once_in(8) ? states_[draws_.below(states_.size())] : states_.back();
    auto const ticket = cache_.ticket(state.sequence, draws_.between(1, 20));
    if (!ticket) return;
    Key const key = draw_key();
    auto const value = state.values.find(key);
    Reader reader{*ticket, key, std::nullopt, std::nullopt};
    if (value != state.values.end()) reader.truth = value->second;
    readers_.push_back(std::move(reader));
  }

  /// A reader looks; or believes what he saw; or asks RocksDB, and inserts what that said.
  void go_on() {
    if (readers_.empty()) return;
    auto const at = readers_.begin() + static_cast<std::ptrdiff_t>(draws_.below(readers_.size()));
    if (!at->looked) {
      at->looked = look_up(cache_, at->ticket, at->key.first, at->key.second);
      return;
    }
    Reader const reader = std::move(*at);
    readers_.erase(at);
    if (!reader.looked->is_known() || !cache_.holds(reader.ticket))
      return insert(cache_, reader.ticket, reader.key.first, reader.key.second, reader.truth);
    bool const is_absent = reader.looked->found == Cached::absent;
    if (is_absent ? !reader.truth : reader.truth && *reader.truth == reader.looked->value) return;
    failure_ = "key " + reader.key.second + ": believed " +
               (is_absent ? "to be absent" : reader.looked->value) + ", and it is " +
               reader.truth.value_or("absent");
  }

  void others() {
    for (std::uint64_t n = draws_.below(4); n > 0; --n) draws_.once_in(3) ? begin() : go_on();
  }

  std::vector<std::uint64_t> change(State& state) {
    std::vector<std::uint64_t> hashes;
    for (std::uint64_t n = draws_.below(12); n > 0; --n) {
      Key const key = draw_key();
      hashes.push_back(hash_of(key.first, key.second));
      if (draws_.once_in(4))
        state.values.erase(key);
      else
        state.values[key] = std::to_string(++changes_) + std::string(draws_.below(40), 'v');
    }
    return hashes;
  }

  void flush() {
    State next = now();
    ++next.sequence;
    auto const hashes = change(next);
    cache_.close(now().sequence);
    others();
    cache_.invalidate(hashes);
    others();
    states_.push_back(std::move(next));
    others();
    cache_.advance(now().sequence);
  }

  void fail_to_flush() {
    cache_.close(now().sequence);
    others();
    cache_.reopen();
  }

  /// By RocksDB itself: nobody tells the cache.
  void write() {
    State next = now();
    ++next.sequence;
    change(next);
    states_.push_back(std::move(next));
  }

  /// Without a number of its own: what was the present has changed.
  void ingest() {
    cache_.suspend();
    others();
    change(now());
    others();
    cache_.resume();
  }

  Draws draws_;
  CacheCounters counters_;
  CacheMemory memory_;
  BasicBlockCache<Rules> cache_;
  std::vector<State> states_;
  std::vector<Reader> readers_;
  std::uint64_t changes_ = 0;
  std::string failure_;
};

}  // namespace perdure::lsm::test
