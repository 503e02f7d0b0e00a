#include "explore/reader_moments.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "explore/judging.hpp"
#include "pm/pool.hpp"
#include "store/gphash/log_look.hpp"
#include "store/gphash/pool_look.hpp"

namespace perdure::explore {
namespace {

constexpr int kMoments = 8;  // of a run
constexpr std::uint32_t kMostValue = 64;  // bytes

void store(std::vector<std::byte>& bytes, std::uint32_t word, std::uint64_t value) {
  std::memcpy(bytes.data() + std::uint64_t{word} * 8, &value, sizeof value);
}

}  // namespace

std::optional<std::string> ReaderMoments::check(Arena const& medium,
                                                std::vector<Window> const& windows,
                                                Scenario const& scenario, Held const& held,
                                                Contents const& end) {
  if (std::ranges::any_of(windows, &Window::too_large)) return std::nullopt;
  begin(medium, windows);
  std::size_t const all = events_.size();
  bool const logged = scenario.layout == Layout::log;
  for (int n = 0; n < kMoments; ++n) {
    std::size_t at[4];
    for (auto& moment : at) moment = (random_ = mix(random_, all)) % (all + 1);
    std::ranges::sort(at);
    move_to(at[0], at[1], at[2]);
    auto const wrong =
        logged ? read_log(scenario, held, at[3], nullptr) : read(scenario, held, nullptr);
    if (wrong) return "beside the writer, " + *wrong;
  }
  move_to(all, all, all);
  auto const wrong = logged ? read_log(scenario, held, all, &end) : read(scenario, held, &end);
  if (wrong) return "once the writer is idle, " + *wrong;
  return std::nullopt;
}

void ReaderMoments::begin(Arena const& medium, std::vector<Window> const& windows) {
  std::uint64_t bytes = medium.file_bytes;
  events_.clear();
  before_.clear();
  random_ = 1;
  for (Window const& window : windows) {
    bytes = std::max(bytes, window.file_bytes);
    for (Event const& e : window.events) {
      if (e.word >= medium.word_of(medium.data() + bytes)) continue;  // beside the pool
      events_.push_back(&e);
      before_.push_back(medium.now(e.word));
      random_ = mix(random_, mix(e.word, e.value));
    }
  }
  words_.assign(medium.data(), medium.data() + bytes);
  records_ = words_;
}

void ReaderMoments::move_to(std::size_t words_at, std::size_t records_from,
                            std::size_t records_to) {
  for (std::size_t i = 0; i < events_.size(); ++i) {
    store(words_, events_[i]->word, before_[i]);
    store(records_, events_[i]->word, before_[i]);
  }
  for (std::size_t i = 0; i < records_to; ++i) {
    Event const& e = *events_[i];
    if (i < words_at) store(words_, e.word, e.value);
    if (i < records_from || mix(random_, i) % 2 == 0) store(records_, e.word, e.value);
  }
}

void ReaderMoments::move_words_to(std::size_t words_at) {
  for (std::size_t i = 0; i < words_at; ++i) store(words_, events_[i]->word, events_[i]->value);
}

/// A reader that opens the pool at one moment, and settles what it found at another.
std::optional<std::string> ReaderMoments::read_log(Scenario const& scenario, Held const& held,
                                                   std::size_t settled_at,
                                                   Contents const* exactly) {
  auto const header = pm::Pool::header_in(kArenaPath, words_.data());
  if (!header) return header.status().message();
  gphash::LogFollower follower(kArenaPath, header.value(), words_.data(),
                               [&] { return Result<std::uint64_t>(words_.size()); });
  follower.look_at(words_.data(), records_.data());
  if (Status s = follower.follow(); !s.ok()) return "a reader fails: " + s.message();
  std::array<std::vector<std::byte>, kKeys> keys, values;
  std::array<gphash::LogLook::Ask, kKeys> asks;
  for (std::size_t k = 0; k < kKeys; ++k) {
    scenario.add_key(k, keys[k]);
    values[k].resize(kMostValue);
    asks[k].key = keys[k];
    asks[k].target = {values[k].data(), kMostValue, 0};
  }
  gphash::LogLook look(follower, asks);
  look.find();
  look.copy();
  move_words_to(settled_at);
  if (Status s = look.settle(); !s.ok()) return "a reader fails: " + s.message();
  for (std::size_t k = 0; k < kKeys; ++k) {
    gphash::LogLook::Ask const& ask = asks[k];
    if (!ask.settled && exactly == nullptr) continue;
    std::optional<std::uint64_t> value;
    if (ask.status == KeyStatus::ok) {
      value = scenario.find_value(values[k].data(), std::min(ask.target.value_bytes, kMostValue));
      if (!value) return "a reader finds " + name_of(k) + " with a value that is none";
    }
    bool const right = exactly == nullptr ? held(k, value) : value == (*exactly)[k];
    if (!ask.settled || ask.status == KeyStatus::corrupt || !right)
      return "a reader finds " + name_of(k) + " with " +
             (ask.status == KeyStatus::corrupt ? "a damaged value" : shown(value)) +
             (exactly == nullptr ? ", which it never had" : ", and it is " + shown((*exactly)[k]));
  }
  return std::nullopt;
}

std::optional<std::string> ReaderMoments::read(Scenario const& scenario, Held const& held,
                                               Contents const* exactly) const {
  auto const header = pm::Pool::header_in(kArenaPath, words_.data());
  auto const root = pm::newest_root(words_.data());
  if (!header || !root) return std::nullopt;  // it is being written: the reader keeps what it has
  auto const table = gphash::table_of(kArenaPath, header.value(), *root, words_.size());
  if (!table) return std::nullopt;
  gphash::PoolLook const look(words_.data(), records_.data(), table.value());
  std::vector<std::byte> key;
  for (std::size_t k = 0; k < kKeys; ++k, key.clear()) {
    std::uint64_t value = 0;
    std::uint32_t bytes = 0;
    scenario.add_key(k, key);
    KeyStatus const status =
        look.at(key, reinterpret_cast<std::byte*>(&value), sizeof value, bytes);
    bool const found = status == KeyStatus::ok;
    if (found && bytes != sizeof value)
      return "a reader finds " + name_of(k) + " with a value of " + std::to_string(bytes) +
             " bytes";
    if (found && !held(k, value))
      return "a reader finds " + name_of(k) + " with " + std::to_string(value) +
             ", which it never had";
    if (exactly == nullptr) continue;
    if (found != (*exactly)[k].has_value() || (found && value != *(*exactly)[k]))
      return "a reader finds " + name_of(k) + " with " +
             (found ? std::to_string(value) : std::string("nothing")) + ", and it is " +
             shown((*exactly)[k]);
  }
  return std::nullopt;
}

}  // namespace perdure::explore
