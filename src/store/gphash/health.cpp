#include "store/gphash/health.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"

namespace perdure {

Status Health::fail(Status const& status) {
  PERDURE_ASSERT(!status.ok());
  failure_ = status;
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
}

/// Nobody sees what is half done before recovery has looked. Where memory is what lacks, this needs
/// none.
Status Health::failed_by_exception() {
  Status why = status_of_exception();
  PERDURE_ASSERT(!why.ok());
  if (!changing) return why;
  if (failure_.ok()) failure_ = std::move(why);
  half_undoable = true;
  return caught([this] { return failure_; });
}

}  // namespace perdure
