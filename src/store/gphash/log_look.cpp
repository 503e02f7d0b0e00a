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
  for (One& one : each) one.what = seen.index->find(one.key);
  records_ = seen.records;
  version_ = seen.version;
}

void LogLook::copy() {
  std::span const each = std::span(each_).first(count_);
  for (One const& one : each)
    if (one.what != 0) records_.prefetch(one.what);
  for (One const& one : each) {
    bool const there = one.what != 0;
    bool const whole = there && records_.copy(one.what, one.ask->key, one.ask->target);
    one.ask->status = whole ? KeyStatus::ok : there ? KeyStatus::corrupt : KeyStatus::not_found;
  }
}

Status LogLook::settle() {
  std::size_t const before = std::exchange(count_, 0);
  bool const all = follower_.stands(version_);
  if (Status s = all ? Status{} : follower_.follow(); !s.ok()) return s;
  auto const seen = follower_.seen();
  for (One const& one : std::span(each_).first(before)) {
    one.ask->settled = all || seen.index->find(one.key) == one.what;
    if (!one.ask->settled) each_[count_++] = one;
  }
  return {};
}

}  // namespace perdure::gphash
