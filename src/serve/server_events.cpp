#include "serve/server_events.hpp"

#include "base/log.hpp"

namespace perdure::serve {

void ServerEvents::began() const {
  ServeOptions const& o = server_.options;
  std::string const at = o.host + ":" + std::to_string(server_.port);
  log::note(LogLevel::info, "serving", pool_, "listens at " + at,
            {{"host", o.host},
             {"port", std::uint64_t{server_.port}},
             {"tls", !o.tls.certificate.empty()},
             {"password", !o.password.empty()}});
}

void ServerEvents::look() {
  if (!log::wants(LogLevel::warning)) return;
  ServerState const& s = server_;
  tell_more(s.rejected_full, full_, "clients_refused",
            "clients refused: there are " + std::to_string(s.options.most_clients) + " of them");
  tell_more(s.rejected_strangers, strangers_, "strangers_refused",
            "clients of other machines refused: no password is set");
  tell_more(s.dropped_slow, slow_, "clients_dropped",
            "clients dropped: they do not read what waits for them");
  tell_more(s.wrong_passwords, passwords_, "passwords_refused",
            "wrong passwords, the last from " + s.last_wrong_password);
  tell_more(s.refused_writes, writes_, "commands_refused", "commands refused by the store");
}

void ServerEvents::tell_more(std::uint64_t now, std::uint64_t& told, std::string_view event,
                             std::string_view what) const {
  if (now == told) return;
  log::note(LogLevel::warning, event, pool_, std::to_string(now - told).append(" ").append(what),
            {{"count", now - told}});
  told = now;
}

void ServerEvents::not_saved(Status const& why) const {
  log::note(LogLevel::error, "not_saved", pool_, "no snapshot: " + why.message());
}

void ServerEvents::ended(Status const& failure, double seconds) const {
  std::uint64_t const commands = server_.commands;
  if (!failure.ok())
    log::note(LogLevel::error, "serving_failed", pool_, failure.message(),
              {{"commands", commands}, {"seconds", seconds}});
  else
    log::note(LogLevel::info, "served", pool_, std::to_string(commands) + " commands",
              {{"commands", commands}, {"seconds", seconds}});
}

}  // namespace perdure::serve
