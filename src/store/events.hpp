// What stores say of themselves (perdure/logging.h), whatever the index. Each is noted once its
// call knows its end, and delivered when the call has let go of all locks (log::Delivery). They
// answer nothing, and throw nothing.
#pragma once

#include <chrono>
#include <string>

#include "base/log.hpp"
#include "perdure/reports.h"
#include "perdure/status.h"

namespace perdure {
struct OpenOptions;
}

namespace perdure::events {

using Clock = std::chrono::steady_clock;

[[nodiscard]] inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What opening a pool came to. `how`: "opened", "created" or "restored".
void opened(std::string_view how, std::string const& path, OpenOptions const& options,
            RecoveryReport const& found, char const* index, double seconds) noexcept;
/// Where mirror, gets or log have to do with less than was asked for.
void placed(std::string const& path, Stats const& stats) noexcept;
/// A pool that was not opened or made.
void not_opened(std::string const& path, Status const& why) noexcept;
/// A call that failed. Those for lack of space and for damage are worth a word even though the
/// caller has the status.
void failed(std::string const& path, Status const& why) noexcept;
void closed(std::string const& path, Status const& how, double seconds) noexcept;
void verified(std::string const& path, VerifyReport const& found, double seconds) noexcept;
void cached(std::string const& path, CacheReport const& found) noexcept;
void snapshot_taken(std::string const& path, std::string const& to, double seconds) noexcept;
void acknowledged(std::string const& path) noexcept;

}  // namespace perdure::events
