// Gets of a batch by one side: the store's device, or the host's threads beside it.
#pragma once

#include <cstdint>
#include <span>

#include "batch/call.hpp"
#include "perdure/status.h"
#include "store/gphash/engine/engine.hpp"

namespace perdure {

class Sessions;

/// The status of each operation to the caller.
Status answer(Session& session, std::span<KeyStatus> statuses);
/// `first`: the initial status of each operation; empty: all are pending.
Status get_by(Engine& engine, Sessions& sessions, Call const& call,
              std::span<std::uint8_t const> first, std::span<KeyStatus> statuses);

}  // namespace perdure
