// What commands see of the server, and may ask of it: its settings, its clients, its counts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "perdure/serve.h"
#include "serve/session.hpp"

namespace perdure::serve {

/// Whose commands and errors these are; clients choose by it what they may send.
inline constexpr std::string_view kRedisVersion = "7.0.15";

struct ServerState {
  ServeOptions const& options;
  std::uint16_t port = 0;
  std::string run_id = {};
  std::int64_t started_ms = 0;
  std::int64_t now_ms = 0;

  std::map<std::uint64_t, Session*> sessions = {};  // connected, by id
  std::unordered_map<std::string, std::vector<Session*>> watchers = {};  // of keys
  std::int64_t last_save_s = 0;
  bool saving = false;
  bool last_save_failed = false;
  bool any_killed = false;  // CLIENT KILL
  std::string last_wrong_password = {};  // the address it came from
  bool stop_asked = false;  // SHUTDOWN, or `failure`
  Status failure = {};  // of the store: it answers nothing more until it is opened anew
  std::uint64_t scan_generation = 0;  // numbering of slots that the last SCAN met
  std::uint64_t expiring_records = 0;  // that the last whole pass over the pool met

  // Read by any thread.
  std::atomic<std::uint64_t> commands = 0, connections = 0, turns = 0;
  std::atomic<std::uint64_t> rejected_full = 0, rejected_strangers = 0, wrong_passwords = 0;
  std::atomic<std::uint64_t> hits = 0, misses = 0, expired_keys = 0, refused_writes = 0;
  std::atomic<std::uint64_t> bytes_in = 0, bytes_out = 0, dropped_slow = 0, largest_turn = 0;

  /// Begins a snapshot; its error, where it cannot begin (`wait`: or where it failed).
  std::function<Status(bool wait)> save = {};

  /// Whose watched keys changed in the turn under way, and had not before.
  std::vector<Session*> newly_changed = {};

  void watch(Session& session, std::string const& key);
  void unwatch(Session& session);
  void key_changed(std::string_view key);
};

}  // namespace perdure::serve
