// What Redis would answer, over a plain map, one command after the other: of the commands that the
// generated turns are made of.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perdure::serve::test {

class Model {
 public:
  using Words = std::vector<std::string>;
  struct Item {
    bool hash = false;
    std::string text = {};
    std::vector<std::pair<std::string, std::string>> fields = {};
    std::int64_t expires = 0;
    friend bool operator==(Item const&, Item const&) = default;
  };
  struct Client {
    bool multi = false;
    std::vector<Words> queue = {};
    std::map<std::string, std::uint64_t> watched = {};  // the change that each key had seen last
  };

  explicit Model(std::size_t clients) : clients_(clients) {}
  std::int64_t now = 1;

  std::string answer(std::size_t client, Words const& words) {
    Client& c = clients_[client];
    std::string const& name = words[0];
    if (name == "MULTI") return c.multi ? error("ERR MULTI calls can not be nested") : begin(c);
    if (name == "DISCARD") {
      if (!c.multi) return error("ERR DISCARD without MULTI");
      c = {};
      return kOk;
    }
    if (name == "WATCH") return watch(c, words);
    if (name == "EXEC") return exec(c);
    if (c.multi) {
      c.queue.push_back(words);
      return "+QUEUED\r\n";
    }
    if (name == "UNWATCH") {
      c.watched.clear();
      return kOk;
    }
    return run(words);
  }
  /// The command was refused, and has changed nothing.
  void refused(std::size_t client, Words const& words) {
    if (words[0] == "EXEC") clients_[client] = {};
  }

  /// Without what has expired.
  [[nodiscard]] std::map<std::string, Item> items() const {
    auto all = items_;
    std::erase_if(all,
                  [&](auto const& one) { return one.second.expires && one.second.expires <= now; });
    return all;
  }

 private:
  static constexpr char const* kOk = "+OK\r\n";
  static constexpr char const* kNull = "$-1\r\n";
  static constexpr char const* kWrongType =
      "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
  static std::string error(std::string_view text) { return "-" + std::string(text) + "\r\n"; }
  static std::string integer(std::int64_t n) { return ":" + std::to_string(n) + "\r\n"; }
  static std::string bulk(std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
  }
  static std::string array(std::size_t n) { return "*" + std::to_string(n) + "\r\n"; }

  static std::string begin(Client& c) {
    c.multi = true;
    return kOk;
  }
  std::string watch(Client& c, Words const& words) {
    if (c.multi) return error("ERR WATCH inside MULTI is not allowed");
    for (std::size_t i = 1; i < words.size(); ++i) {
      find(words[i]);
      c.watched.emplace(words[i], changes_[words[i]]);
    }
    return kOk;
  }
  std::string exec(Client& c) {
    if (!c.multi) return error("ERR EXEC without MULTI");
    Client const done = std::exchange(c, {});
    for (auto const& [key, change] : done.watched) {
      find(key);
      if (changes_[key] != change) return "*-1\r\n";
    }
    std::string all = array(done.queue.size());
    for (Words const& words : done.queue) all += run(words);
    return all;
  }

  Item* find(std::string const& key) {
    auto const at = items_.find(key);
    if (at == items_.end()) return nullptr;
    if (at->second.expires == 0 || at->second.expires > now) return &at->second;
    erase(key);
    return nullptr;
  }
  void erase(std::string const& key) {
    items_.erase(key);
    ++changes_[key];
  }
  void set(std::string const& key, Item item) {
    items_[key] = std::move(item);
    ++changes_[key];
  }
  static std::optional<std::int64_t> number(std::string const& text) {
    std::int64_t n = 0;
    auto const [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (failed != std::errc{} || end != text.data() + text.size() || std::to_string(n) != text)
      return std::nullopt;
    return n;
  }

  std::string run(Words const& w) {
    std::string const& name = w[0];
    if (name == "UNWATCH") return kOk;  // within EXEC
    if (name == "DBSIZE") return integer(static_cast<std::int64_t>(items_.size()));
    if (name == "FLUSHDB") {
      while (!items_.empty()) erase(std::string(items_.begin()->first));
      return kOk;
    }
    if (name == "MGET" || name == "MSET" || name == "MSETNX" || name == "DEL" || name == "EXISTS")
      return run_on_many(w);
    Item* const item = find(w[1]);
    if (name == "TYPE") return !item ? "+none\r\n" : item->hash ? "+hash\r\n" : "+string\r\n";
    if (name == "SET") return run_set(w, item);
    if (name == "PEXPIRE" || name == "PTTL" || name == "PERSIST") return run_expiry(w, item);
    bool const of_hash = name[0] == 'H';
    if (item && item->hash != of_hash) return kWrongType;
    return of_hash ? run_on_hash(w, item) : run_on_string(w, item);
  }

  std::string run_on_many(Words const& w) {
    if (w[0] == "MGET") {
      std::string all = array(w.size() - 1);
      for (std::size_t i = 1; i < w.size(); ++i) {
        Item* const item = find(w[i]);
        all += item && !item->hash ? bulk(item->text) : kNull;
      }
      return all;
    }
    if (w[0] == "MSET" || w[0] == "MSETNX") {
      for (std::size_t i = 1; i < w.size() && w[0] == "MSETNX"; i += 2)
        if (find(w[i])) return integer(0);
      for (std::size_t i = 1; i < w.size(); i += 2) set(w[i], {.text = w[i + 1]});
      return w[0] == "MSET" ? kOk : integer(1);
    }
    std::int64_t count = 0;
    for (std::size_t i = 1; i < w.size(); ++i) {
      if (!find(w[i])) continue;
      ++count;
      if (w[0] == "DEL") erase(w[i]);
    }
    return integer(count);
  }

  std::string run_set(Words const& w, Item const* item) {
    bool absent = false, present = false, get = false, keep = false;
    std::int64_t expires = 0;
    for (std::size_t i = 3; i < w.size(); ++i) {
      absent |= w[i] == "NX";
      present |= w[i] == "XX";
      get |= w[i] == "GET";
      keep |= w[i] == "KEEPTTL";
      if (w[i] == "PX") expires = now + *number(w[++i]);
    }
    if (get && item && item->hash) return kWrongType;
    std::string const old = item ? bulk(item->text) : kNull;
    if ((absent && item) || (present && !item)) return get ? old : kNull;
    if (keep && item) expires = item->expires;
    set(w[1], {.text = w[2], .expires = expires});
    return get ? old : kOk;
  }

  std::string run_expiry(Words const& w, Item const* item) {
    if (w[0] == "PTTL") return integer(!item ? -2 : item->expires == 0 ? -1 : item->expires - now);
    if (!item) return integer(0);
    Item changed = *item;
    if (w[0] == "PERSIST") {
      if (item->expires == 0) return integer(0);
      changed.expires = 0;
      set(w[1], changed);
      return integer(1);
    }
    changed.expires = now + *number(w[2]);
    if (changed.expires <= now)
      erase(w[1]);
    else
      set(w[1], changed);
    return integer(1);
  }

  std::string run_on_string(Words const& w, Item const* item) {
    std::string const& name = w[0];
    std::string const old = item ? item->text : "";
    std::int64_t const expires = item ? item->expires : 0;
    if (name == "GET") return item ? bulk(old) : kNull;
    if (name == "STRLEN") return integer(static_cast<std::int64_t>(old.size()));
    if (name == "GETDEL") {
      if (!item) return kNull;
      erase(w[1]);
      return bulk(old);
    }
    if (name == "SETNX") {
      if (item) return integer(0);
      set(w[1], {.text = w[2]});
      return integer(1);
    }
    if (name == "APPEND") {
      set(w[1], {.text = old + w[2], .expires = expires});
      return integer(static_cast<std::int64_t>(old.size() + w[2].size()));
    }
    auto const sum = item ? number(old) : std::optional<std::int64_t>(0);  // INCRBY
    if (!sum) return error("ERR value is not an integer or out of range");
    std::int64_t const now_is = *sum + *number(w[2]);
    set(w[1], {.text = std::to_string(now_is), .expires = expires});
    return integer(now_is);
  }

  std::string run_on_hash(Words const& w, Item const* item) {
    Item hash = item ? *item : Item{.hash = true};
    auto const at = std::ranges::find(hash.fields, w.size() > 2 ? w[2] : "",
                                      [](auto const& field) { return field.first; });
    bool const there = at != hash.fields.end();
    if (w[0] == "HGET") return there ? bulk(at->second) : kNull;
    if (w[0] == "HGETALL") {
      std::string all = array(2 * hash.fields.size());
      for (auto const& [name, value] : hash.fields) all += bulk(name) + bulk(value);
      return all;
    }
    if (w[0] == "HDEL") {
      if (!there) return integer(0);
      hash.fields.erase(at);
      if (hash.fields.empty())
        erase(w[1]);
      else
        set(w[1], hash);
      return integer(1);
    }
    if (there)  // HSET
      at->second = w[3];
    else
      hash.fields.emplace_back(w[2], w[3]);
    set(w[1], hash);
    return integer(there ? 0 : 1);
  }

  std::map<std::string, Item> items_;
  std::map<std::string, std::uint64_t> changes_;
  std::vector<Client> clients_;
};

}  // namespace perdure::serve::test
