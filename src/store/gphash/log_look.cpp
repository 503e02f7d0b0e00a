#include "store/gphash/log_look.hpp"

#include <utility>

#include "base/assert.hpp"

namespace perdure::gphash {
namespace {

constexpr int kLooksAtLog = 64;  // at keys that change while they are looked up

}  // namespace

LogLook::LogLook(LogFollower& follower, std::span<Ask> asks)
    : follower_(follower), records_(follower.seen().records) {
  PERDURE_ASSERT(asks.size() <= kMost);
  auto const seen = follower.seen();
  for (Ask& ask : asks) {
    One& one = each_[count_++];
    one.ask = &ask;
    one.key = seen.index->key_of(ask.key);
  }
}

Status LogLook::get() {
  for (int n = 0; n < kLooksAtLog && count_ != 0; ++n) {
    find();
    copy();
    if (Status s = settle(); !s.ok()) return s;
  }
  for (One const& one : std::span(each_).first(count_)) one.ask->status = KeyStatus::not_found;
  return {};
}

void LogLook::find() {
  std::span const each = std::span(each_).first(count_);
  auto const seen = follower_.seen();
  for (One const& one : each) seen.index->prefetch(one.key);
  more_.clear();
  for (One& one : each) {
    one.count = 0;
    one.others = more_.size();
    seen.index->each(one.key, [&](std::uint64_t what) {
      if (one.count++ == 0)
        one.what = what;
      else
        more_.push_back(what);
    });
  }
  records_ = seen.records;
  version_ = seen.version;
}

void LogLook::copy() {
  std::span const each = std::span(each_).first(count_);
  for (One const& one : each)
    if (one.count != 0) records_.prefetch(one.what);
  for (One const& one : each) {
    KeyStatus& status = one.ask->status;
    status = KeyStatus::not_found;
    for (std::size_t i = 0; i < one.count && status != KeyStatus::ok; ++i) {
      auto const copied = records_.copy(what(one, i), one.ask->key, one.ask->target);
      if (copied == LogRecords::Copied::damaged) status = KeyStatus::corrupt;
      if (copied == LogRecords::Copied::whole) status = KeyStatus::ok;
    }
  }
}

/// Whether the same entries may be the key's.
bool LogLook::stands(EntryIndex const& index, One const& one) const {
  std::size_t n = 0;
  bool same = true;
  index.each(one.key, [&](std::uint64_t now) {
    same = same && n < one.count && what(one, n) == now;
    ++n;
  });
  return same && n == one.count;
}

Status LogLook::settle() {
  std::size_t const before = std::exchange(count_, 0);
  bool const all = follower_.stands(version_);
  if (Status s = all ? Status{} : follower_.follow(); !s.ok()) return s;
  auto const seen = follower_.seen();
  for (One const& one : std::span(each_).first(before)) {
    one.ask->settled = all || stands(*seen.index, one);
    if (!one.ask->settled) each_[count_++] = one;
  }
  return {};
}

}  // namespace perdure::gphash
