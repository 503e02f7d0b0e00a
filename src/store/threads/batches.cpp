// Batches of a store of host threads, each from its arrays to its answers: enter, validate, run,
// answer. Gets are cut into chunks and writes into parts by their keys' hashes, which the workers
// take. Invariant: operations on one key stay in array order, for one worker has all of them.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "batch/hash_parts.hpp"
#include "batch/pieces.hpp"
#include "exec/counts.hpp"
#include "store/checks.hpp"
#include "store/index_name.hpp"
#include "store/threads/batches.hpp"

namespace perdure::threads {
namespace {

// operations of a batch of gets that a worker takes at a time: all workers have some before one has
// the most
constexpr std::size_t kLeastChunk = 256, kMostChunk = 1024;
// smaller batches of writes are not split over workers
constexpr std::size_t kSplitFrom = 4096;
// keys of a load that somebody may stop: an index takes so many in some 100 ms
constexpr std::size_t kMostLoadedAtOnce = 1u << 21;

Status check_call(Core const& core, Call const& call, std::span<KeyStatus> statuses) {
  if (Status s = check_batch(core.path, core.pool.header(), call, statuses); !s.ok()) return s;
  bool const on_device =
      (call.keys.data != nullptr && call.keys.space == MemorySpace::device) ||
      (call.values.data != nullptr && call.values.space == MemorySpace::device) ||
      (call.out.data != nullptr && call.out.space == MemorySpace::device) ||
      call.device_statuses != nullptr;
  if (!on_device) return {};
  return bad_argument(
      "pool " + core.path + ": index " + name(core.index()) +
      " is for threads of the host, and an array of this batch lies in device memory; bring "
      "a host array, or "
      "use a pool of index gphash");
}

/// What all runs of a piece came to.
class Outcome {
 public:
  explicit Outcome(Core& core) : core_(core) {}

  void add(Tally const& tally) {
    core_.counters.add(tally);
    damaged_ += tally.damaged;
    if (tally.refused == 0) return;
    refused_ += tally.refused;
    std::lock_guard const lock(mutex_);
    why_refused_ = tally.why_refused;
  }
  /// What the call says of its n operations, each of which has been some worker's.
  Status answer(std::vector<std::uint8_t> const& from, std::span<KeyStatus> to, std::size_t n) {
    PERDURE_ASSERT(to.size() <= from.size());
    PERDURE_ASSERT(!kCostlyAssertions || std::ranges::count(from, kPending) == 0);
    static_assert(sizeof(KeyStatus) == 1);
    if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
    core_.counters.add_batch();
    PERDURE_ASSERT(damaged_ <= n && refused_ <= n);
    if (damaged_ != 0)
      return core_.corrupt(of(damaged_, n) + " met damage (" +
                           core_.operations()->why_damaged().message() +
                           ") and took no effect (see their statuses)");
    if (refused_ == 0) return {};
    return {Code::no_space, "pool " + core_.path + ": " + of(refused_, n) + " found no room (" +
                                why_refused_.message() +
                                ") and took no effect (see their statuses)"};
  }

 private:
  static std::string of(std::uint64_t some, std::size_t n) {
    return std::to_string(some) + " of " + std::to_string(n) + " operations";
  }

  Core& core_;
  std::atomic<std::uint64_t> refused_{0}, damaged_{0};
  std::mutex mutex_;
  Status why_refused_;  // guarded by mutex_, while runs go on
};

std::size_t chunk_of(exec::Workers const& workers, std::size_t n) {
  return std::clamp(n / workers.threads(), kLeastChunk, kMostChunk);
}

/// run(ops) for all operations of a batch of writes, split stably by the top bits of their hashes.
template <class Run>
void for_each_part(exec::Workers& workers, Call const& call, Run run) {
  std::size_t const n = call.keys.count;
  if (n < kSplitFrom || workers.threads() == 1) return run(Ops{nullptr, 0, n});
  exec::ByteColumn const keys{call.keys.data, call.keys.offsets, call.keys.width};
  HashParts const parts(workers, n,
                        [&](std::size_t i) { return hash_bytes(keys.at(i), keys.size(i)); });
  PERDURE_ASSERT(parts.begin(0) == 0 && parts.begin(parts.count()) == n);  // all of it, once
  workers.for_chunks(parts.count(), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t p = first; p < last; ++p)
      run(Ops{parts.order(), parts.begin(p), parts.begin(p + 1) - parts.begin(p)});
  });
}

}  // namespace

/// A batch of gets, beside all others. A `stop` cuts it into pieces; else it is one.
Status Batches::read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) {
  exec::SharedHold const open(core_.open);
  CommittedHold const committed(core_);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  if (how.transaction != nullptr)
    return core_.lacks("transactions", "get without one, or use a pool of index gphash");
  if (Status s = check_call(core_, call, statuses); !s.ok()) return s;
  if (call.out.data == nullptr && call.keys.count > 0)
    return bad_argument("the output array is null");

  auto const run = [&](Call const& piece, std::span<KeyStatus> answers) -> Status {
    std::size_t const n = piece.keys.count;
    if (n == 0) return {};
    auto status = first_statuses(core_.pool.header(), piece);
    if (!status) return status.status();
    Batch const batch{&piece, status->data(), 0};
    Outcome outcome(core_);
    core_.workers.for_chunks(n, chunk_of(core_.workers, n),
                             [&](std::size_t begin, std::size_t end) {
                               Tally tally;
                               core_.operations()->get(batch, {nullptr, begin, end - begin}, tally);
                               outcome.add(tally);
                             });
    return outcome.answer(*status, answers, n);
  };
  return in_pieces(call, statuses, how.stop, run,
                   [](Status const& s) { return s.code() == Code::corrupt; });
}

/// The same, of any values: each chunk's are gathered by themselves, and then put one behind the
/// other.
Result<VariableValues> Batches::read_variable(Call const& call, std::span<KeyStatus> statuses,
                                              CallOptions const& how) {
  exec::SharedHold const open(core_.open);
  CommittedHold const committed(core_);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  if (how.transaction != nullptr)
    return core_.lacks("transactions", "get without one, or use a pool of index gphash");
  if (Status s = check_call(core_, call, statuses); !s.ok()) return s;

  VariableValues all;
  auto const run = [&](Call const& piece, std::span<KeyStatus> answers) -> Status {
    std::size_t const n = piece.keys.count;
    VariableValues values{{0}, {}};
    if (n == 0) {
      append(all, std::move(values));
      return {};
    }
    auto status = first_statuses(core_.pool.header(), piece);
    if (!status) return status.status();
    Batch const batch{&piece, status->data(), 0};
    values.offsets.resize(n + 1);
    std::size_t const chunk = chunk_of(core_.workers, n);
    std::vector<std::vector<std::byte>> chunks((n + chunk - 1) / chunk);
    Outcome outcome(core_);
    core_.workers.for_chunks(chunks.size(), 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t c = first; c < last; ++c) {
        std::size_t const begin = c * chunk;
        Tally tally;
        core_.operations()->get_variable(batch, {nullptr, begin, std::min(chunk, n - begin)},
                                         chunks[c], values.offsets.data(), tally);
        outcome.add(tally);
      }
    });
    std::int64_t sum = 0;
    for (std::int64_t& offset : values.offsets) sum += std::exchange(offset, sum);
    values.data.reserve(static_cast<std::size_t>(values.offsets[n]));
    for (auto const& part : chunks) values.data.insert(values.data.end(), part.begin(), part.end());
    PERDURE_ASSERT(values.data.size() == static_cast<std::size_t>(values.offsets[n]));
    Status answered = outcome.answer(*status, answers, n);
    if (answered.ok()) append(all, std::move(values));
    return answered;
  };
  Status const done = in_pieces(call, statuses, how.stop, run, [](Status const&) { return false; });
  if (!done.ok()) return done;
  return all;
}

template <class F>
Status Batches::change(F f) {
  if (!core_.has_transactions()) return core_.health.whole_or_failed(f);
  Engine& engine = *core_.operations();
  Status const done = core_.health.whole_or_undone(
      [&] {
        engine.begin();
        Status const ran = f();
        return ran.ok() ? engine.commit(core_.counters.records()) : ran;
      },
      [&]() -> Status {
        auto const records = engine.undo();
        if (records.ok()) core_.counters.set_records(records.value(), true);
        return records.status();
      });
  if (done.ok() || core_.health.given_up()) return done;
  return {done.code(),
          "pool " + core_.path + ": nothing of this batch took effect: " + done.message()};
}

/// What an atomic batch says that cannot be done as a whole, whose refused operations keep their
/// statuses.
Status refuse_whole(std::vector<std::uint8_t> const& status, std::span<KeyStatus> answers) {
  Status refusal;
  for (std::size_t i = 0; i < status.size(); ++i) {
    auto const each = static_cast<KeyStatus>(status[i]);
    bool const done = each == KeyStatus::ok || each == KeyStatus::not_found;
    if (done) continue;
    if (i < answers.size()) answers[i] = each;
    if (!refusal.ok()) continue;
    bool const full = each == KeyStatus::no_space, damaged = each == KeyStatus::corrupt;
    std::string const which = " for operation " + std::to_string(i);
    refusal = {full      ? Code::no_space
               : damaged ? Code::corrupt
                         : Code::invalid_argument,
               (full ? "there is no room" + which
                     : (damaged ? "a damaged record stands in the way" : "its value does not fit") +
                           which) +
                   "; write it without `atomic`, or leave that out"};
  }
  return refusal;
}

/// What is wrong with the call write() says.
bool Batches::load(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) {
  bool const puts = call.kinds.empty() && call.kind == OpKind::put;
  bool const plain = how.transaction == nullptr && !how.atomic;
  bool const soon = how.stop == nullptr || call.keys.count <= kMostLoadedAtOnce;
  if (!puts || !plain || !soon || call.keys.count < kSplitFrom || core_.counters.records() != 0)
    return false;
  exec::SharedHold const open(core_.open);
  exec::ExclusiveHold const changing(core_.changing);
  if (!core_.check_open(true).ok() || core_.counters.records() != 0) return false;
  if (!check_call(core_, call, statuses).ok()) return false;
  auto status = first_statuses(core_.pool.header(), call);
  if (!status || std::ranges::count(*status, kPending) != std::ssize(*status)) return false;
  Batch const batch{&call, status->data(), core_.numbers.take(call.keys.count)};
  Outcome outcome(core_);
  bool loaded = false;
  Status const ran = change([&]() -> Status {
    Tally tally;
    loaded = core_.operations()->load(batch, core_.workers, how.stop, tally);
    if (loaded) outcome.add(tally);
    return {};
  });
  if (!ran.ok() || !loaded) return false;
  return outcome.answer(*status, statuses, call.keys.count).ok();
}

/// A batch of writes, beside all others: each operation takes effect by itself, and is durable
/// before anybody sees it. Or, where it is a transaction, alone: all of it is, once it has
/// committed.
Status Batches::write(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) {
  exec::SharedHold const open(core_.open);
  BatchHold const changing(core_);
  if (Status s = core_.check_open(true); !s.ok()) return s;
  if (Status s = check_call(core_, call, statuses); !s.ok()) return s;
  if (how.transaction != nullptr)
    return core_.lacks("transactions",
                       "write the batch without one, or use a pool of index gphash");
  if (how.atomic && !core_.has_transactions())
    return core_.lacks(
        "atomic batches",
        "write it without `atomic`, or use a pool of index gphash, or a btree's with "
        "persist full");
  if (call.keys.count == 0) return {};

  auto const run = [&](Call const& piece, std::span<KeyStatus> answers) -> Status {
    auto status = first_statuses(core_.pool.header(), piece);
    if (!status) return status.status();
    std::uint64_t const numbers = core_.operations()->numbers_each() ? piece.keys.count : 1;
    Batch const batch{&piece, status->data(), core_.numbers.take(numbers)};
    Outcome outcome(core_);
    std::fill(answers.begin(), answers.end(), KeyStatus::not_tried);
    Status const ran = change([&]() -> Status {
      for_each_part(core_.workers, piece, [&](Ops const& ops) {
        Tally tally;
        core_.operations()->write(batch, ops, tally);
        outcome.add(tally);
      });
      return how.atomic ? refuse_whole(*status, answers) : Status{};
    });
    if (!ran.ok()) return ran;
    return outcome.answer(*status, answers, piece.keys.count);
  };
  // A transaction is one piece: it runs to its end.
  bool const whole = core_.has_transactions() && !stopped(how.stop);
  return in_pieces(call, statuses, whole ? nullptr : how.stop, run, [&](Status const& s) {
    return !core_.health.given_up() && (s.code() == Code::no_space || s.code() == Code::corrupt);
  });
}

}  // namespace perdure::threads
