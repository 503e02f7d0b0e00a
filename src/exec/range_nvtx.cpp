#include "exec/range.hpp"

#include <nvtx3/nvtx3.hpp>

namespace perdure::exec {
namespace {

struct Domain {
  static constexpr char const* name = "perdure";
};

}  // namespace

Range::Range(char const* name) {
  nvtxDomainRangePushEx(nvtx3::domain::get<Domain>(), nvtx3::event_attributes{name}.get());
}
Range::~Range() { nvtxDomainRangePop(nvtx3::domain::get<Domain>()); }

}  // namespace perdure::exec
