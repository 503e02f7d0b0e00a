// What commands have in common: numbers, patterns, errors, values of one type.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>

#include "serve/command.hpp"

namespace perdure::serve {

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  char again[24];
  auto const printed = std::to_chars(again, again + sizeof again, value).ptr;
  if (std::string_view(again, static_cast<std::size_t>(printed - again)) != text)
    return std::nullopt;
  return value;
}

char in_small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool equal_letters(std::string_view text, std::string_view in_small_letters) {
  return std::ranges::equal(text, in_small_letters, {}, [](char c) { return in_small(c); });
}

std::string in_small(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](char c) { return in_small(c); });
  return all;
}

namespace {

/// Whether `c` is in the class that begins behind '[', and where that class ends.
bool in_class(std::string_view pattern, std::size_t& at, char c, bool any_case) {
  auto const fold = [&](char x) { return any_case ? in_small(x) : x; };
  bool const negated = at < pattern.size() && pattern[at] == '^';
  if (negated) ++at;
  bool found = false;
  for (; at < pattern.size() && pattern[at] != ']'; ++at) {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      found |= fold(pattern[++at]) == fold(c);
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      auto low = static_cast<unsigned char>(fold(pattern[at]));
      auto high = static_cast<unsigned char>(fold(pattern[at + 2]));
      if (low > high) std::swap(low, high);
      auto const x = static_cast<unsigned char>(fold(c));
      found |= low <= x && x <= high;
      at += 2;
    } else {
      found |= fold(pattern[at]) == fold(c);
    }
  }
  return found != negated;
}

/// The one character of the text that an element of the pattern other than '*' stands for.
bool matches_one(std::string_view pattern, std::size_t& at, char c, bool any_case) {
  auto const fold = [&](char x) { return any_case ? in_small(x) : x; };
  switch (pattern[at]) {
    case '?': ++at; return true;
    case '[': {
      bool const found = in_class(pattern, ++at, c, any_case);
      if (at < pattern.size()) ++at;
      return found;
    }
    case '\\':
      if (at + 1 < pattern.size()) ++at;
      [[fallthrough]];
    default: return fold(pattern[at++]) == fold(c);
  }
}

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text, bool any_case) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && matches_one(pattern, p, text[t], any_case)) {
      ++t;
    } else if (star != std::string_view::npos) {  // the last star takes one more
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

void wrong_arity(Call& call) {
  call.reply.error("ERR wrong number of arguments for '" + std::string(call.command.name) +
                   "' command");
}

void count_read(Call& call, Value const& value) {
  bool const hit = value.type != Type::none;
  (hit ? call.server.hits : call.server.misses).fetch_add(1, std::memory_order_relaxed);
}

Value read_key(Call& call, std::string_view key) {
  Value const value = call.keys.get(key);
  count_read(call, value);
  return value;
}

std::optional<Value> typed(Call& call, Value const& value, Type type) {
  if (value.type == type || value.type == Type::none) return value;
  if (value.type == Type::damaged)
    call.reply.error(
        "ERR the record of this key is damaged, or was not written by perdure serve; run 'perdure "
        "verify', or set the key anew");
  else
    call.reply.error(kWrongType);
  return std::nullopt;
}

bool check_length(Call& call, std::size_t bytes) {
  if (bytes <= call.server.options.most_value_bytes) return true;
  call.reply.error(kTooLong);
  return false;
}

}  // namespace perdure::serve
