// What a client has said of itself, and what it is to be sent. A turn that fails sets `State` back,
// so everything that commands change of a session lies there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace perdure::serve {

using StoredArguments = std::vector<std::string>;

struct Session {
  struct State {
    int protocol = 2;
    bool authenticated = true;
    bool in_multi = false;
    bool multi_failed = false;  // a command could not be queued
    bool watched_changed = false;
    bool replies = true;  // CLIENT REPLY
    bool skip_next_reply = false;
    bool closing = false;  // once it has been sent what there is
    std::int64_t wait_ms = -1;  // WAIT: before anything else is done for it; 0 = for ever
    std::vector<StoredArguments> queue;  // MULTI
    std::vector<std::string> watched;
    std::string name, library, library_version;
  };

  std::uint64_t id = 0;
  std::string address, local_address;
  std::int64_t connected_ms = 0, last_ms = 0;
  std::string last_command;
  State state;
  std::string out;
  bool answers_anyway = false;  // CLIENT REPLY ON, although no reply was asked for before
  bool killed = false;  // by another's CLIENT KILL
  std::uint64_t turn = 0;  // the last that had requests of it
};

}  // namespace perdure::serve
