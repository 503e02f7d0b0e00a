#include "store/gphash/log_look.hpp"

#include <array>

#include "base/assert.hpp"

namespace perdure::gphash {
namespace {

constexpr int kLooksAtLog = 64;  // at keys that change while they are looked up

}  // namespace

/// Those that have no answer yet, and what was found for them.
struct LogLook::Looking {
  struct One {
    Ask* ask;
    EntryIndex::Key key;
    std::uint64_t what;
  };
  std::array<One, kMost> each;
  std::size_t count = 0;
  std::uint64_t version = 0;  // of the index that it was found in
};

Status LogLook::get(std::span<Ask> asks) const {
  PERDURE_ASSERT(asks.size() <= kMost);
  Looking looking;
  for (Ask& ask : asks) looking.each[looking.count++].ask = &ask;
  {
    auto const seen = follower_.seen();
    for (std::size_t i = 0; i < looking.count; ++i)
      looking.each[i].key = seen.index->key_of(looking.each[i].ask->key);
  }
  for (int n = 0; n < kLooksAtLog && looking.count != 0; ++n)
    if (Status s = look(looking); !s.ok()) return s;
  // A key that always changes counts as absent.
  for (std::size_t i = 0; i < looking.count; ++i)
    looking.each[i].ask->status = KeyStatus::not_found;
  return {};
}

/// Copies what entries lead to, and keeps those whose entries were not what they are, once all that
/// had come by then is known.
Status LogLook::look(Looking& looking) const {
  std::span const each = std::span(looking.each).first(looking.count);
  LogRecords records = [&] {
    auto const seen = follower_.seen();
    for (auto const& one : each) seen.index->prefetch(one.key);
    for (auto& one : each) one.what = seen.index->find(one.key);
    looking.version = seen.version;
    return seen.records;
  }();
  for (auto const& one : each)
    if (one.what != 0) records.prefetch(one.what);
  for (auto const& one : each) {
    bool const there = one.what != 0;
    bool const whole = there && records.copy(one.what, one.ask->key, one.ask->target);
    one.ask->status = whole ? KeyStatus::ok : there ? KeyStatus::corrupt : KeyStatus::not_found;
  }
  if (follower_.stands(looking.version)) {
    looking.count = 0;
    return {};
  }
  if (Status s = follower_.follow(); !s.ok()) return s;
  auto const seen = follower_.seen();
  std::size_t left = 0;
  for (auto const& one : each)
    if (seen.index->find(one.key) != one.what) looking.each[left++] = one;
  looking.count = left;
  return {};
}

}  // namespace perdure::gphash
