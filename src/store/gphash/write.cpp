// Write batches: their records, from the host's heap or from what the engine borrowed of it; rounds
// of (plan, order, publish, order), and room made where keys found none (growth.cpp). Invariant: a
// record is handed back only after the ordering point that commits the batch which unlinked it.
#include <algorithm>
#include <unordered_map>

#include "base/hooks.hpp"
#include "batch/pieces.hpp"
#include "pm/record.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/gphash/transaction.hpp"

namespace perdure {
namespace {

using exec::Counts;

constexpr std::uint64_t kLease = 1u << 20;  // batch numbers taken from the root at a time
constexpr std::uint64_t kManyOperations = 1u << 14;
constexpr int kMaxRounds = 64;  // of one batch; each either settles a group or grows the table

}  // namespace

/// A write batch: alone on the pool and into the log, then, while others go on, onto the disk.
Status GphashStore::write(Call call, std::span<KeyStatus> statuses, CallOptions const& how) {
  call.stream = how.stream;
  std::shared_ptr<wal::LogDir> power;
  wal::Lsn lsn = 0;
  Status done;
  {
    ExclusiveLock store_lock(store_lock_, token_of(how));
    if (store_lock.way() == Way::none) return not_the_transaction();
    if (Status s = check_open(true); !s.ok()) return s;
    if (Status s = check_batch(path, pool_.header(), call, statuses); !s.ok()) return s;
    call.keep = power_ != nullptr;
    if (store_lock.way() == Way::inside) {
      if (how.transaction == nullptr)
        return {Code::busy, "pool " + path +
                                ": a transaction is open on this thread: name it in the call "
                                "options of each write, or "
                                "end it"};
      return whole_or_failed([&] { return write_in(transaction_->open, call, statuses); });
    }
    done = whole_or_failed([&] {
      return how.atomic ? write_atomic(call, statuses) : write_alone(call, statuses, how);
    });
    power = power_;
    if (power) lsn = power->log().position().lsn;
    checkpoint_in_time(store_lock);
  }
  if (!power || mutated("batch_acknowledged_early")) return done;
  Status const kept = power->log().wait_durable(lsn);
  return kept.ok() ? done : kept;
}

/// Takes records, brings the batch over. The engine gives none to a batch that may be undone, whose
/// records are noted one by one.
Status GphashStore::prepare(Call const& call, std::span<KeyStatus> statuses, bool undoable,
                            Running& batch) {
  batch.lent = engine_->can_borrow() && fixed_stride() != 0 && !undoable;
  if (Status s = batch.lent ? lend_records() : take_records_back(); !s.ok()) return s;
  return batch.lent ? prepare_lent(call, statuses, batch) : prepare_host(call, statuses, batch);
}

Status GphashStore::prepare_host(Call const& call, std::span<KeyStatus> statuses, Running& batch) {
  auto first = first_statuses(pool_.header(), call);
  if (!first) return first.status();
  if (Status s = reserve(call, *first, batch.reserved, batch.any_fits); !s.ok()) {
    std::fill(statuses.begin(), statuses.end(), KeyStatus::no_space);
    return s;
  }
  auto const begin = [&]() -> Status {
    std::uint64_t sequence = 0;
    if (Status s = next_sequence(sequence); !s.ok()) return s;
    auto session = take_session();
    if (!session) return session.status();
    batch.session = std::move(*session);
    if (Status s = batch.session->begin(call, *first); !s.ok()) return of_batch(s, call.keys.count);
    return of_batch(batch.session->prepare(batch.reserved, batch.any_fits, sequence),
                    call.keys.count);
  };
  Status const begun = caught(begin);
  if (!begun.ok()) release_all(batch.reserved);
  return begun;
}

/// As prepare_host(), with records that the engine takes from those lent to it.
Status GphashStore::prepare_lent(Call const& call, std::span<KeyStatus> statuses, Running& batch) {
  std::uint64_t records =
      call.kind == OpKind::put || call.kind == OpKind::update ? call.keys.count : 0;
  if (!call.kinds.empty()) {
    records = static_cast<std::uint64_t>(
        std::count_if(call.kinds.begin(), call.kinds.end(),
                      [](OpKind kind) { return kind == OpKind::put || kind == OpKind::update; }));
  }
  std::uint64_t sequence = 0;
  if (Status s = next_sequence(sequence); !s.ok()) return s;
  auto session = take_session();
  if (!session) return session.status();
  batch.session = std::move(*session);
  if (Status s = batch.session->begin(call, {}); !s.ok()) return of_batch(s, call.keys.count);
  Status const taken = take_lent(records, [&]() -> Result<bool> {
    auto prepared = batch.session->prepare_lent(records, sequence);
    return prepared ? prepared : Result<bool>(of_batch(prepared.status(), call.keys.count));
  });
  if (taken.code() == Code::no_space) {
    std::fill(statuses.begin(), statuses.end(), KeyStatus::no_space);
    give_session(std::move(batch.session));
  }
  return taken;
}

Status GphashStore::take_lent(std::uint64_t records, std::function<Result<bool>()> const& take) {
  Status refused;
  for (;;) {
    auto enough = take();
    if (!enough) return enough.status();
    if (*enough) return {};
    if (!refused.ok()) return refused;
    // Half as many again as there are, where they are to be had, so that few batches come here.
    std::uint64_t const needed = (records + loan_->capacity - 1) / loan_->capacity;
    std::uint64_t const more = pool_.superblocks_in_use() / 2;
    if (Status s = take_records_back(); !s.ok()) return s;
    refused = heap_.add_superblocks(fixed_stride(), needed, more);
    if (Status s = pool_may_have_grown(); !s.ok()) return s;
    if (Status s = lend_records(); !s.ok()) return s;
  }
}

std::uint64_t GphashStore::fixed_stride() const {
  pm::PoolHeader const& h = pool_.header();
  return h.key_bytes == 0 || h.value_bytes == 0 ? 0 : pm::fixed_stride(h);
}

Status GphashStore::lend_records() {
  if (loan_) return {};
  pm::RecordHeap::Loan loan = heap_.lend(fixed_stride());
  Status const borrowed = engine_->borrow(loan);
  if (borrowed.ok())
    loan_ = std::move(loan);
  else
    heap_.take_back(loan);
  if (borrowed.code() != Code::no_space) return borrowed;
  return {borrowed.code(), "pool " + path + ": the map of its free records: " + borrowed.message() +
                               "; free memory of the device, or reopen the pool with residency pm"};
}

Status GphashStore::take_records_back() {
  if (!loan_) return {};
  if (Status s = engine_->give_back(*loan_); !s.ok()) return s;
  heap_.take_back(*loan_);
  loan_.reset();
  return {};
}

/// A batch that may be half there after a crash, but that nobody sees half of. A log has its
/// batches whole.
Status GphashStore::write_alone(Call const& call, std::span<KeyStatus> statuses,
                                CallOptions const& how) {
  return in_pieces(
      call, statuses, power_ ? nullptr : how.stop,
      [&](Call const& piece, auto of_piece) { return write_piece(piece, of_piece); },
      [&](Status const& s) { return s.code() == Code::no_space && failed_.ok(); });
}

/// Of a write batch, what happens on the pool: rounds of (plan, order, publish, order), then what
/// was not used and what was unlinked is handed back.
Status GphashStore::write_piece(Call const& call, std::span<KeyStatus> statuses) {
  if (call.keys.count == 0) return {};
  changing_ = true;
  if (Status s = advance_growth(call.keys.count); !s.ok()) return fail(s);
  changing_ = false;
  Running batch;
  if (Status s = prepare(call, statuses, false, batch); !s.ok()) return s;
  changing_ = true;
  unlogged_ = power_ != nullptr;
  if (Status s = run_rounds(batch, call.keys.count); !s.ok()) return fail(s);
  if (Status s = finish_records(batch); !s.ok()) return fail(s);
  if (!statuses.empty() || power_) {
    auto status = batch.session->statuses();
    if (!status) return fail(status.status());
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      statuses[i] =
          (*status)[i] == kPending ? KeyStatus::no_space : static_cast<KeyStatus>((*status)[i]);
    }
    if (power_) {
      auto const kept = batch.session->kept();
      if (!kept) return fail(kept.status());
      if (Status s = log_batch(kept.value(), *status); !s.ok()) return fail(s);
      unlogged_ = false;
    }
  }
  if (Status s = batch.session->finish(); !s.ok()) return fail(s);
  give_session(std::move(batch.session));
  if (!batch.full) return {};
  std::string const why =
      batch.not_grown.message().empty() ? "" : " (" + batch.not_grown.message() + ")";
  return {Code::no_space, "pool " + path + ": the table is full and could not grow" + why +
                              "; some operations took no effect (see their statuses)"};
}

/// Records that were unlinked, or not used: the batch has committed.
Status GphashStore::finish_records(Running& batch) {
  if (batch.lent && loan_) return batch.session->give_back_lent();
  if (batch.lent) {  // the heap has its superblocks back, for there was no memory to lend them
                     // again after a growth
    auto reserved = batch.session->reserved();
    if (!reserved) return reserved.status();
    batch.reserved.assign(reserved->begin(), reserved->end());
  }
  auto const came_to = outcome(batch);
  if (!came_to) return came_to.status();
  release_unused(batch, came_to.value());
  if (came_to.value()) release_all(came_to.value()->unlinked);
  return {};
}

Status GphashStore::run_rounds(Running& batch, std::uint64_t operations) {
  bool const many = operations >= kManyOperations;
  // else most searches for room may be in vain
  bool displace = !many || load_with(operations) <= 1;
  bool refused = false;  // growth
  std::uint64_t waited = 0, last_full = operations;
  for (int round = 0; round < kMaxRounds; ++round) {
    auto planned = batch.session->plan(displace, nullptr);
    if (!planned) return planned.status();
    auto published = batch.session->publish();
    if (!published) return published.status();
    batch.done += *planned;
    batch.done += *published;
    add(*planned);
    add(*published);
    if ((*planned)[Counts::displaced] != 0 && !mutated("scan_ignores_displacement")) ++generation_;
    std::uint64_t const pending = (*planned)[Counts::pending] + (*published)[Counts::pending];
    if (pending == 0) return {};
    std::uint64_t const full = (*planned)[Counts::full] + (*published)[Counts::full];
    if (full == 0) continue;
    if (many && !is_bulk(full)) {
      // Others of the batch have claimed all slots of some keys; now some of those can be
      // displaced.
      bool const fewer = full <= std::exchange(last_full, full) / 2;
      if (!std::exchange(displace, true) || fewer) {
        auto refused_units = engine_->take_refused();  // by keys that may yet find room
        if (!refused_units) return refused_units.status();
        continue;
      }
    }
    if (!refused) {
      Status const s = options.grow ? make_room(full) : Status{Code::no_space, ""};
      if (!s.ok() && s.code() != Code::no_space) return s;
      refused = !s.ok();
      batch.not_grown = s;
    } else if (pending >= waited || round > kMaxRounds / 2) {
      // Displacements of the last round may have held slots whose keys need no room: those come
      // now.
      if (!displace) break;
      displace = false;
    }
    waited = pending;
  }
  batch.full = true;
  return {};
}

Status GphashStore::reserve(Call const& call, std::span<std::uint8_t const> status,
                            std::vector<std::uint64_t>& reserved, bool& any_fits) {
  pm::PoolHeader const& h = pool_.header();
  std::size_t const n = call.keys.count;
  reserved.assign(n, 0);
  bool const key_in_slot =
      h.layout == static_cast<std::uint8_t>(Layout::in_place) && h.key_bytes != 0;
  auto const size = [](Column const& c, std::size_t i) {
    return c.offsets == nullptr ? std::uint64_t{c.width}
                                : static_cast<std::uint64_t>(c.offsets[i + 1] - c.offsets[i]);
  };
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_stride;
  std::uint64_t const fixed = fixed_stride();
  any_fits =
      fixed != 0 && call.kinds.empty() && (call.kind == OpKind::put || call.kind == OpKind::update);
  if (any_fits) {
    if (Status s = heap_.reserve(fixed, n, reserved.data()); !s.ok()) return s;
    return pool_may_have_grown();
  }
  for (std::size_t i = 0; i < n; ++i) {
    OpKind const kind = call.kinds.empty() ? call.kind : call.kinds[i];
    if (status[i] != kPending || (kind != OpKind::put && kind != OpKind::update)) continue;
    std::uint64_t const stride =
        fixed != 0 ? fixed
                   : pm::stride_for(pm::record_bytes(key_in_slot ? 0 : size(call.keys, i),
                                                     size(call.values, i)));
    by_stride[stride].push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<std::uint64_t> records;
  for (auto const& [stride, operations] : by_stride) {
    records.resize(operations.size());
    if (Status s = heap_.reserve(stride, records.size(), records.data()); !s.ok()) {
      for (std::uint64_t& record : reserved) {
        if (record != 0) heap_.release(Offset{record});
        record = 0;
      }
      return s;
    }
    for (std::size_t k = 0; k < operations.size(); ++k) reserved[operations[k]] = records[k];
  }
  return pool_may_have_grown();
}

Status GphashStore::pool_may_have_grown() {
  if (table_.view().pool_bytes == pool_.bytes()) return {};
  table_.pool_grew();
  engine_->set_pool_bytes(pool_.bytes());
  return {};
}

Result<std::optional<Outcome>> GphashStore::outcome(Running& batch) {
  bool const plain = batch.any_fits && batch.done[Counts::used] == batch.reserved.size() &&
                     batch.done[Counts::unlinked] == 0;
  if (plain) return std::optional<Outcome>{};
  auto outcome = batch.session->outcome();
  if (!outcome) return outcome.status();
  return std::optional<Outcome>{*outcome};
}

void GphashStore::release_unused(Running const& batch, std::optional<Outcome> const& outcome) {
  if (!outcome) return;
  for (std::size_t i = 0; i < batch.reserved.size(); ++i) {
    if (batch.reserved[i] != 0 && outcome->used[i] == 0) heap_.release(Offset{batch.reserved[i]});
  }
}

/// Of records that were unlinked: only once the batch that did so has committed.
void GphashStore::release_all(std::span<std::uint64_t const> records) {
  for (std::uint64_t const record : records) {
    if (record != 0) heap_.release(Offset{record});
  }
}

Status GphashStore::next_sequence(std::uint64_t& sequence) {
  if (sequence_ == pool_.root().batch_lease) {
    pm::Root root = pool_.root();
    root.batch_lease += kLease;
    pool_.publish_root(root);
  }
  sequence = ++sequence_;
  return {};
}

}  // namespace perdure
