#include "store/gphash/core.hpp"

#include <utility>

#include "base/assert.hpp"
#include "pm/record.hpp"
#include "pm/record_numbers.hpp"

namespace perdure {
namespace {

constexpr std::uint64_t kNumbersLeased = 1u << 20;  // from the root at a time

}  // namespace

Result<std::unique_ptr<Session>> Sessions::take(Engine& engine) {
  {
    std::lock_guard const guard(mutex_);
    if (!free_.empty()) {
      auto session = std::move(free_.back());
      free_.pop_back();
      return session;
    }
  }
  return engine.session();
}

void Sessions::give(std::unique_ptr<Session> session) {
  PERDURE_ASSERT(session != nullptr);
  std::lock_guard const guard(mutex_);
  free_.push_back(std::move(session));
  ++batches_;
}

std::uint64_t Sessions::batches() const {
  std::lock_guard const guard(mutex_);
  return batches_;
}

Core::Core(std::string const& pool_path, OpenOptions const& open_options, RecoveryReport& report,
           pm::Pool made)
    : path(pool_path),
      options(open_options),
      recovery(report),
      pool(std::move(made)),
      heap(pool),
      table(pool, heap),
      workers(open_options.threads),
      undo(pool),
      entries(pool),
      dense(pool),
      repairs(pool),
      health(path),
      counters(open_options.count_accesses) {}

std::uint64_t Core::fixed_stride() const {
  pm::PoolHeader const& h = pool.header();
  return h.key_bytes == 0 || h.value_bytes == 0 ? 0 : pm::fixed_stride(h);
}

Status Core::check_open(bool writing) const {
  if (closed) return {Code::closed, "pool " + path + ": this store is closed"};
  if (device_session) return held_by_this_thread();  // the others wait
  if (health.failed()) {
    if (Status s = after_failure(writing); !s.ok()) return s;
  }
  if (!writing) return {};
  if (power && !power->log().failure().ok())
    return {Code::closed, "pool " + path + " refuses writes since its log failed (" +
                              power->log().failure().message() + "); close and reopen it"};
  if (pool.read_only())
    return {Code::invalid_argument,
            "pool " + path + " is open read-only; open it without read_only to write"};
  if (std::size_t const views = viewed->views(); views > 0)
    return {Code::busy, "pool " + path + " is being looked at (views of its values: " +
                            std::to_string(views) + "); destroy them, then write"};
  return {};
}

/// What an earlier failure has left to be done.
Status Core::after_failure(bool writing) const {
  PERDURE_ASSERT(health.failed());
  std::string const why = health.failure().message();
  // A level whose entries are on their way is not looked through; and of an atomic batch there may
  // be a part.
  if (health.half_undoable || table.growing())
    return {Code::closed, "pool " + path +
                              " was left in the middle of a change by an earlier failure (" + why +
                              "); close and reopen it"};
  if (health.unlogged)
    return {health.failure().code(),
            "pool " + path + " may hold what its log lacks, for " + why +
                ": nothing is read that a reopening could take back; close it, mend what failed, "
                "and reopen it"};
  if (!writing) return {};
  return {Code::closed, "pool " + path + " refuses writes since an earlier failure (" + why +
                            "); close and reopen it"};
}

Status Core::held_by_this_thread() const {
  return {Code::busy, "pool " + path + (device_session ? ": a device session" : ": a transaction") +
                          " is open on this thread: end it first"};
}

Status Core::not_the_transaction() const {
  return {Code::busy,
          "pool " + path +
              ": the transaction named in the call options has ended, or is another pool's"};
}

Status Core::of_batch(Status const& status, std::size_t n) const {
  if (status.code() == Code::no_space)
    return {status.code(), "pool " + path + ": a batch of " + std::to_string(n) +
                               " operations: " + status.message() + "; use smaller batches"};
  if (status.code() == Code::device_error)
    return {status.code(), "pool " + path + ": " + status.message() + kReopen};
  return status;
}

Status Core::of_transaction(Status const& status, std::uint64_t n) const {
  if (status.code() != Code::no_space) return of_batch(status, n);
  return {status.code(), "pool " + path + ": a transaction of " + std::to_string(n) +
                             " operations: " + status.message() +
                             "; begin one of fewer (max_operations)"};
}

Status Core::show_table() { return engine->set_table(table.view(), table.slots()); }

Status Core::show_words() {
  if (!logged()) return {};
  auto const mirror = engine->mirror();
  if (!mirror) return mirror.status();
  std::lock_guard const guard(words_mutex_);
  table.show_words(mirror.value());
  return {};
}

void Core::pool_may_have_grown() {
  if (table.view().pool_bytes == pool.bytes()) return;
  PERDURE_ASSERT(table.view().pool_bytes < pool.bytes() && engine != nullptr);
  table.pool_grew();
  engine->set_pool_bytes(pool.bytes());
}

std::uint64_t Core::next_sequence() {
  PERDURE_ASSERT(sequence <= pm::leased_numbers(pool));
  PERDURE_ASSERT(is_exclusive() && !pool.read_only());
  if (sequence == pm::leased_numbers(pool)) pm::lease_numbers(pool, sequence + kNumbersLeased);
  return ++sequence;
}

}  // namespace perdure
