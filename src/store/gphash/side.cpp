#include "store/gphash/side.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "store/gphash/core.hpp"

namespace perdure {

Status answer(Session& session, std::span<KeyStatus> statuses) {
  if (statuses.empty()) return {};
  auto const fetched = session.download(Download::statuses);
  if (!fetched) return fetched.status();
  std::span<std::uint8_t const> const status = fetched.value().statuses;
  PERDURE_ASSERT(status.size() == statuses.size());
  PERDURE_ASSERT(!kCostlyAssertions || std::ranges::count(status, kPending) == 0);
  static_assert(sizeof(KeyStatus) == 1);
  std::memcpy(statuses.data(), status.data(), status.size());
  return {};
}

Status get_by(Engine& engine, Sessions& sessions, Call const& call,
              std::span<std::uint8_t const> first, std::span<KeyStatus> statuses) {
  PERDURE_ASSERT(first.empty() || first.size() == call.keys.count);
  auto taken = sessions.take(engine);
  if (!taken) return taken.status();
  Session& session = **taken;
  Status s = session.upload(call, first);
  if (s.ok()) s = session.get();
  if (s.ok()) s = answer(session, statuses);
  if (s.ok()) s = session.finish();
  sessions.give(std::move(*taken));
  return s;
}

}  // namespace perdure
