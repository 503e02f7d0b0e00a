#include "rocks/fuzz/keys.hpp"

#include <algorithm>

namespace perdure::test {
namespace {

constexpr std::size_t kLongest = 40;
constexpr std::size_t kPrefixes = 24;
constexpr std::string_view kAlphabet(
    "\x00\x01"
    "abz\x7f\x80\xc3\xfe\xff",
    10);

std::string letters(Draws& draws, std::size_t count) {
  std::string text(count, '\0');
  for (char& c : text) c = kAlphabet[draws.below(kAlphabet.size())];
  return text;
}

std::string of_no_single(std::string key) {
  if (key.starts_with("\xff\xff")) key[1] = '\xfe';
  return key;
}

std::string number(std::uint64_t n) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(n >> (8 * i));
  return text;
}

}  // namespace

Keys::Keys(std::uint64_t seed, std::size_t count) {
  Draws draws(seed * 0x2545f4914f6cdd1du + 7);
  std::vector<std::string> prefixes(kPrefixes);
  for (std::string& prefix : prefixes) prefix = letters(draws, draws.below(12));
  sorted_.emplace_back();  // the empty key
  while (sorted_.size() < count) {
    std::string key = prefixes[draws.below(kPrefixes)];
    key += letters(draws, draws.below(draws.once_in(4) ? kLongest - key.size() + 1 : 6));
    sorted_.push_back(of_no_single(std::move(key)));
  }
  for (std::size_t i = 0; i < count / 15; ++i) hot_.push_back(sorted_[draws.below(count)]);
  std::sort(sorted_.begin(), sorted_.end());
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
}

std::string const& Keys::draw(Draws& draws) const {
  return draws.once_in(3) ? hot_[draws.below(hot_.size())] : sorted_[draws.below(sorted_.size())];
}

std::pair<std::string, std::string> Keys::range(Draws& draws) const {
  std::size_t const first = draws.below(sorted_.size());
  std::size_t const most = draws.once_in(10) ? sorted_.size() : 30;
  return {sorted_[first], sorted_[std::min(first + draws.below(most), sorted_.size() - 1)]};
}

std::string fresh_key(Draws& draws) { return of_no_single(draws.bytes(draws.below(kLongest + 1))); }

std::string single_key(Draws& draws) { return "\xff\xff" + number(draws.below(64)); }

std::string draw_value(Draws& draws, std::size_t family) {
  if (family == kCounts && !draws.once_in(20)) return number(draws.below(1000));
  return draws.bytes(draws.below(draws.once_in(3) ? 301 : 40));
}

std::string draw_operand(Draws& draws, std::size_t family) {
  if (family == kCounts && !draws.once_in(50)) return number(draws.below(1000));
  return draws.bytes(draws.below(9));
}

}  // namespace perdure::test
