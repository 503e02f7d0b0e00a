#include "explore/options.hpp"

#include <sstream>
#include <utility>

// Replay lines: scenario/point:fiber,.../window:choice.choice.../...

namespace perdure::explore {

std::string replay_text(Finding const& f) {
  std::ostringstream text;
  text << f.scenario << '/';
  for (std::size_t i = 0; i < f.switches.size(); ++i)
    text << (i > 0 ? "," : "") << f.switches[i].point << ':' << f.switches[i].fiber;
  for (auto const& c : f.crashes) {
    text << '/' << c.window << ':';
    for (std::size_t i = 0; i < c.choices.size(); ++i)
      text << (i > 0 ? "." : "") << int{c.choices[i]};
  }
  return text.str();
}

std::optional<Finding> parse_replay(std::string const& text) {
  auto const split = [](std::string const& whole, char by) {
    std::vector<std::string> parts(1);
    for (char const c : whole)
      c == by ? static_cast<void>(parts.emplace_back()) : parts.back().push_back(c);
    return parts;
  };
  Finding f;
  try {
    auto const parts = split(text, '/');
    f.scenario = std::stoull(parts.at(0));
    for (auto const& item : split(parts.at(1), ',')) {
      if (item.empty()) continue;
      auto const pair = split(item, ':');
      f.switches.push_back(
          {std::stoull(pair.at(0)), static_cast<std::uint32_t>(std::stoul(pair.at(1)))});
    }
    for (std::size_t i = 2; i < parts.size(); ++i) {
      auto const pair = split(parts[i], ':');
      CrashPoint crash{std::stoull(pair.at(0)), {}};
      for (auto const& choice : split(pair.at(1), '.'))
        if (!choice.empty()) crash.choices.push_back(static_cast<std::uint8_t>(std::stoul(choice)));
      f.crashes.push_back(std::move(crash));
    }
  } catch (std::exception const&) {
    return std::nullopt;
  }
  return f;
}

}  // namespace perdure::explore
