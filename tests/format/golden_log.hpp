// The golden pools of layout `log`: what was written to each, by rule, and so what is in it. The
// story has an extent of every kind. Invariant: as golden.hpp's.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "golden.hpp"

namespace perdure::test {

/// How its writer left it.
enum class Left { closed, closed_to_revert, killed, killed_in_session, killed_in_transaction };

struct GoldenLog {
  char const* name;
  std::uint32_t key_bytes;  // 0: of any length
  std::uint32_t value_bytes;  // 0: of any length
  Left left;

  [[nodiscard]] bool any_length() const { return key_bytes == 0 || value_bytes == 0; }
};

inline void PrintTo(GoldenLog const& golden, std::ostream* out) { *out << golden.name; }

/// Entries of one part, of two, of three, and of hashes.
inline constexpr GoldenLog kGoldenLogs[] = {
    {"log_8", 8, 16, Left::closed},
    {"log_24", 24, 16, Left::killed_in_session},
    {"log_32", 32, 16, Left::killed_in_transaction},
    {"log_40", 40, 16, Left::killed_in_session},
    {"log_any_values", 8, 0, Left::killed},
    {"log_any_keys", 0, 0, Left::closed_to_revert},
};

inline std::string golden_log_text(std::uint64_t n, std::uint32_t bytes, char const* any) {
  if (bytes == 0) return any + std::to_string(n * n);
  std::string text;
  while (text.size() < bytes) text += u64_text((n + text.size()) * 0x9e3779b97f4a7c15u);
  return text.substr(0, bytes);
}
inline std::string golden_log_key(GoldenLog const& golden, std::uint64_t n) {
  return golden_log_text(n, golden.key_bytes, "key-");
}
inline std::string golden_log_value(GoldenLog const& golden, std::uint64_t n, std::uint64_t ver) {
  return golden_log_text(n + 1000 * ver, golden.value_bytes, n % 3 == 0 ? "" : "a value: ");
}

/// What is done to it, in this order.
struct GoldenWrites {
  enum class How {
    batch,
    changes_nothing,  // so often that the log is written anew behind it
    transaction,
    revertible,
    session,
    torn_session,
    torn_transaction
  };

  std::uint64_t every;  // it puts every so many of the keys; 0: none
  std::uint64_t version;  // of their values
  std::uint64_t erases;  // then it erases this one
  How how = How::batch;
};

inline std::vector<GoldenWrites> golden_log_story(GoldenLog const& golden) {
  using How = GoldenWrites::How;
  std::vector<GoldenWrites> story;
  story.push_back({1, 10, 5});
  story.push_back({2, 11, 28});
  story.push_back({0, 0, kGoldenRecords, How::changes_nothing});
  story.push_back({3, 20, 13});
  story.push_back({7, 21, 49, How::transaction});
  story.push_back({9, 22, 63, How::revertible});
  if (!golden.any_length()) story.push_back({11, 23, 22, How::session});
  story.push_back({15, 24, 45});
  if (golden.left == Left::killed_in_session) story.push_back({17, 25, 34, How::torn_session});
  if (golden.left == Left::killed_in_transaction)
    story.push_back({19, 26, 38, How::torn_transaction});
  if (golden.left == Left::closed_to_revert) story.push_back({21, 27, 42, How::revertible});
  return story;
}

inline std::vector<std::uint64_t> golden_log_keys(GoldenWrites const& writes) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t n = 0; writes.every != 0 && n < kGoldenRecords; n += writes.every)
    numbers.push_back(n);
  return numbers;
}

/// What they come to.
inline Contents golden_log_contents(GoldenLog const& golden,
                                    std::vector<GoldenWrites> const& story) {
  Contents contents;
  for (GoldenWrites const& writes : story) {
    if (writes.how == GoldenWrites::How::torn_transaction) continue;
    for (std::uint64_t const n : golden_log_keys(writes))
      contents[golden_log_key(golden, n)] = golden_log_value(golden, n, writes.version);
    contents.erase(golden_log_key(golden, writes.erases));
  }
  return contents;
}

}  // namespace perdure::test
