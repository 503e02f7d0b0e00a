#include "serve/server_state.hpp"

#include <algorithm>

namespace perdure::serve {

void ServerState::watch(Session& session, std::string const& key) {
  auto& watched = session.state.watched;
  if (std::ranges::find(watched, key) != watched.end()) return;
  watched.push_back(key);
  watchers[key].push_back(&session);
}

void ServerState::unwatch(Session& session) {
  for (std::string const& key : session.state.watched) {
    auto const at = watchers.find(key);
    if (at == watchers.end()) continue;
    std::erase(at->second, &session);
    if (at->second.empty()) watchers.erase(at);
  }
  session.state.watched.clear();
  session.state.watched_changed = false;
}

void ServerState::key_changed(std::string_view key) {
  if (watchers.empty()) return;
  auto const at = watchers.find(std::string(key));
  if (at == watchers.end()) return;
  for (Session* const session : at->second) {
    if (session->state.watched_changed) continue;
    newly_changed.push_back(session);
    session->state.watched_changed = true;
  }
}

}  // namespace perdure::serve
