#include "store/threads/core.hpp"

#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "pm/record_numbers.hpp"
#include "pm/root.hpp"
#include "store/index_name.hpp"

namespace perdure::threads {
namespace {

constexpr std::uint64_t kLease = 1u << 20;  // numbers taken from the root at a time

}  // namespace

void BatchNumbers::begin() { sequence_ = lease_ = pm::leased_numbers(pool_); }

std::uint64_t BatchNumbers::take(std::uint64_t n) {
  PERDURE_ASSERT(!pool_.read_only() && n > 0);
  std::uint64_t const last = sequence_.fetch_add(n) + n;
  if (last <= lease_) return last - n + 1;
  std::lock_guard const lock(memory_);
  if (last > lease_) {
    pm::lease_numbers(pool_, last + kLease);
    lease_ = last + kLease;
  }
  return last - n + 1;
}

Core::Core(std::string const& pool_path, OpenOptions const& open_options, RecoveryReport& report,
           pm::Pool made)
    : path(pool_path),
      options(open_options),
      recovery(report),
      pool(std::move(made)),
      repairs(pool),
      space(pool, memory),
      workers(open_options.threads),
      counters(open_options.count_accesses),
      numbers(pool, memory) {}

Status Core::check_open(bool writing) const {
  if (closed) return {Code::closed, "pool " + path + ": this store is closed"};
  PERDURE_ASSERT(operations() != nullptr);
  if (health.given_up())
    return {Code::closed, "pool " + path +
                              " was left in the middle of a change by an earlier failure (" +
                              health.why() + "); close and reopen it"};
  if (writing && pool.read_only())
    return {Code::invalid_argument,
            "pool " + path + " is open read-only; open it without read_only to write"};
  return {};
}

Status Core::lacks(char const* what, char const* way_out) const {
  return {Code::unsupported,
          "pool " + path + ": index " + name(index()) + " has no " + what + "; " + way_out};
}

Status Core::corrupt(std::string const& what) const {
  return {Code::corrupt, "pool " + path + ": " + what +
                             "; run verify, which names all that is damaged, and restore a "
                             "snapshot or load an export"};
}

}  // namespace perdure::threads
