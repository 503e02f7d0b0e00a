#include "store/gphash/side.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "store/gphash/core.hpp"

namespace perdure {

Status answer(Session& session, std::span<KeyStatus> statuses) {
  if (statuses.empty()) return {};
  auto const fetched = session.download(Download::statuses);
  if (!fetched) return fetched.status();
  PERDURE_ASSERT(fetched.value().statuses.size() == statuses.size());
  PERDURE_ASSERT(!kCostlyAssertions || std::ranges::count(fetched.value().statuses, kPending) == 0);
  for (std::size_t i = 0; i < statuses.size(); ++i)
    statuses[i] = static_cast<KeyStatus>(fetched.value().statuses[i]);
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
