// What a server has to say of itself beside its answers (perdure/logging.h;
// docs/guide/operations.md has all events). Invariant: of what clients bring about, each kind is
// told at most once a second, however often it happens.
#pragma once

#include <cstdint>
#include <string>

#include "perdure/status.h"
#include "serve/server_state.hpp"

namespace perdure::serve {

class ServerEvents {
 public:
  ServerEvents(std::string pool, ServerState const& server)
      : pool_(std::move(pool)), server_(server) {}

  void began() const;
  /// Once a second, and at the end: of what has happened since.
  void look();
  void not_saved(Status const& why) const;
  void ended(Status const& failure, double seconds) const;

 private:
  void tell_more(std::uint64_t now, std::uint64_t& told, std::string_view event,
                 std::string_view what) const;

  std::string pool_;
  ServerState const& server_;
  std::uint64_t full_ = 0, strangers_ = 0, slow_ = 0, passwords_ = 0, writes_ = 0;  // told of
};

}  // namespace perdure::serve
