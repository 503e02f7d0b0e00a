#include "store/gphash/health.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/log.hpp"

namespace perdure {
namespace {

void tell(std::string const& path, Status const& why) noexcept try {
  if (!log::heard()) return;
  log::note(LogLevel::error, "writing_ended", path,
            "writes no more until it is reopened: " + why.message(),
            {{"code", std::string(name(why.code()))}});
} catch (...) {  // where memory is what lacks
}

}  // namespace

Status Health::fail(Status const& status) {
  PERDURE_ASSERT(!status.ok());
  failure_ = status;
  tell(path_, failure_);
  std::string const named = status.message().starts_with("pool ") ? "" : "pool " + path_ + ": ";
  return {
      status.code(),
      named + status.message() +
          "; it refuses writes until it is closed and reopened, on this device or on device cpu"};
}

void Health::fail_unheard(Status status) {
  static_cast<void>(caught([&]() -> Status {
    unheard = status;
    return {};
  }));
  PERDURE_ASSERT(!status.ok());
  failure_ = std::move(status);
  tell(path_, failure_);
}

/// Nobody sees what is half done before recovery has looked. Where memory is what lacks, this needs
/// none.
Status Health::failed_by_exception() {
  Status why = status_of_exception();
  PERDURE_ASSERT(!why.ok());
  if (!changing) return why;
  if (failure_.ok()) {
    failure_ = std::move(why);
    tell(path_, failure_);
  }
  half_undoable = true;
  return caught([this] { return failure_; });
}

}  // namespace perdure
