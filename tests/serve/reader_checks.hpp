// What must hold of requests read in pieces: run by reader_test.cpp, and with faults planted by
// mutants_test.cpp. Nothing: nothing is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/request_reader.hpp"
#include "turn_checks.hpp"

namespace perdure::serve::test {

/// As a client sends it: an array of strings, or a line.
inline std::string sent(Words const& words, bool as_line) {
  std::string bytes;
  if (as_line) {
    for (std::string const& word : words) {
      static constexpr char const* kDigits = "0123456789abcdef";
      bytes += " \"";
      for (char const c : word) {
        auto const byte = static_cast<unsigned char>(c);
        bytes += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      }
      bytes += '"';
    }
    return bytes + "\r\n";
  }
  bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (std::string const& word : words)
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return bytes;
}

inline Words words_of(std::uint32_t number) {
  Bits bits(number);
  Words words;
  for (std::uint32_t left = 1 + bits.take(5); left > 0; --left) {
    std::uint32_t const size = bits.take(4);
    words.emplace_back(size == 3 ? 2000 : size, static_cast<char>(bits.take(256)));
  }
  return words;
}

/// The same requests come out, whatever the pieces, and whichever turns end in between.
inline Wrong the_same_requests_however_cut(Numbers const& requests, Numbers const& cuts) {
  std::vector<Words> expected, got;
  std::string bytes;
  for (std::uint32_t const number : requests) {
    expected.push_back(words_of(number / 2));
    bytes += sent(expected.back(), number % 2 != 0);
  }
  PoisoningMemory memory;
  RequestReader reader({}, memory);
  std::vector<std::string_view> arguments;
  std::vector<std::vector<std::string_view>> turn;
  std::string_view left = bytes;
  for (std::size_t i = 0; !left.empty(); ++i) {
    std::uint32_t const cut = cuts.empty() ? 9 : cuts[i % cuts.size()];
    std::string_view const piece = left.substr(0, 1 + cut / 2 % (cut % 5 == 0 ? 3000 : 12));
    left.remove_prefix(piece.size());
    if (!reader.feed(piece)) return "it takes no more";
    RequestReader::Next next;
    while ((next = reader.next(arguments)) == RequestReader::Next::request)
      turn.push_back(arguments);
    if (next == RequestReader::Next::failed) return reader.error();
    if (cut % 2 != 0 && !left.empty()) continue;
    for (auto const& one : turn) got.emplace_back(one.begin(), one.end());
    turn.clear();
    memory.release();  // a turn ends
    reader.end_turn();
  }
  if (got.size() != expected.size()) return "there are " + std::to_string(got.size()) + " requests";
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i] != expected[i]) return "request " + std::to_string(i) + " is another";
  return std::nullopt;
}

/// Turns end that have nothing of a client, half of whose request has come.
inline Wrong what_is_unfinished_outlasts_turns() {
  PoisoningMemory memory;
  RequestReader reader({}, memory);
  std::vector<std::string_view> arguments;
  for (std::string_view const piece : {"*3\r\n$3\r\nSET\r\n", "$3\r\nkey\r\n$5\r\nva", "lue\r\n"}) {
    if (!reader.feed(piece)) return "it takes no more";
    if (reader.next(arguments) == RequestReader::Next::request) break;
    memory.release();
  }
  if (Words(arguments.begin(), arguments.end()) != Words{"SET", "key", "value"})
    return "the request is another once it is whole";
  return std::nullopt;
}

}  // namespace perdure::serve::test
