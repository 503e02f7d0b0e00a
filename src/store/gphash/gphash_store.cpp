#include "store/gphash/gphash_store.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unordered_map>

#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "batch/pieces.hpp"
#include "exec/cuda/cuda_info.hpp"
#include "pm/record.hpp"
#include "store/checks.hpp"
#include "store/gphash/device_session.hpp"
#include "store/gphash/transaction.hpp"
#include "store/store_lock.hpp"

namespace perdure {
namespace {

using exec::Counts;
using Clock = std::chrono::steady_clock;

constexpr double kStartLoad = 0.9;  // levels are sized so that the expected records reach it
constexpr char const* kReopen = "; close it and reopen it, on this device or on device cpu";
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status bad(std::string message) { return {Code::invalid_argument, std::move(message)}; }

Result<pm::PoolHeader> header_for(std::string const& path, CreateOptions const& o) {
  Shape const s = o.shape;
  bool const power_of_two = s.slots != 0 && (s.slots & (s.slots - 1)) == 0;
  if (s.levels == 0 || s.hashes == 0 || !power_of_two ||
      std::uint64_t{s.levels} * s.hashes * s.slots > 32) {
    return bad("shape " + std::to_string(s.levels) + "L-" + std::to_string(s.hashes) + "H-" +
               std::to_string(s.slots) +
               "S: levels x hashes x slots must be 1 to 32, slots a power of two");
  }
  if (Status fits = check_log_dir(path, o.durability, o.log.dir); !fits.ok()) return fits;
  pm::PoolHeader h{};
  h.layout = static_cast<std::uint8_t>(o.layout);
  h.durability = static_cast<std::uint8_t>(o.durability);
  h.levels = static_cast<std::uint8_t>(s.levels);
  h.hashes = static_cast<std::uint8_t>(s.hashes);
  h.slots = static_cast<std::uint8_t>(s.slots);
  if (Status fits = set_sizes(h, o); !fits.ok()) return fits;
  return h;
}

/// Superblocks a new pool begins with: header, levels, and the heap for the records expected.
std::uint64_t superblocks_for(pm::PoolHeader const& h, std::uint32_t top, std::uint64_t records) {
  bool const in_place = h.layout == 1;
  std::uint64_t n = 1;
  for (std::uint32_t i = 0; i < h.levels; ++i) {
    n += (gphash::level_bytes(in_place, h.key_bytes, h.slots, top - i) + h.superblock_bytes - 1) /
         h.superblock_bytes;
  }
  if (h.value_bytes == 0) return n + 1;  // sizes unknown: the heap grows as values come
  std::uint64_t const stride = h.key_bytes == 0
                                   ? pm::stride_for(pm::record_bytes(16, h.value_bytes))  // a guess
                                   : pm::fixed_stride(h);
  std::uint64_t const each = pm::RecordShape(h).capacity(stride);
  return n + (records + each - 1) / each;
}

}  // namespace

GphashStore::GphashStore(std::string pool_path, OpenOptions const& open_options, pm::Pool pool)
    : Impl(std::move(pool_path), open_options, pool.header()),
      pool_(std::move(pool)),
      changes_(pool_.base()),
      heap_(pool_),
      table_(pool_, heap_),
      workers_(open_options.threads),
      undo_(pool_),
      dense_(pool_),
      repairs_(pool_) {}

GphashStore::~GphashStore() { end_changes(); }

/// An opening writes, from here on: one that is refused before has left the file as it was.
void GphashStore::begin_opening() {
  if (pool_.read_only() || opening_) return;
  changes_.begin();
  opening_ = true;
}

/// It is open: from here on there are moments between two changes.
void GphashStore::now_open() {
  if (options.live) {
    // What the copy went through was no recovery of the pool, but where a killed process had left
    // it so.
    recovery.clean = recovery.dropped == 0 && recovery.undone == 0 && recovery.duplicates == 0;
    recovery.resize_resumed = false;
    pool_.end_writing();
  }
  if (pool_.read_only()) return;
  opening_ = false;
  changes_.end();
  store_lock_.announce(&changes_);
}

/// Nothing more is written to the pool.
void GphashStore::end_changes() {
  bool const announced = store_lock_.announced();
  store_lock_.announce(nullptr);
  if (pool_.base() != nullptr && process == this_process() && (opening_ || announced))
    changes_.end();
  opening_ = false;
}

// ------------------------------------------------------------------------------------------------
// Opening and closing

/// Asked before a file is touched: a machine without the device must not leave half a pool.
Status GphashStore::can_run(Device device) {
  if (device == Device::cuda) return exec::check_gpu();
  if (!cpu_instruction_set().empty()) return {};
  return {Code::unsupported, "this processor lacks AVX2, which the CPU warps need"};
}

Result<std::unique_ptr<Store::Impl>> GphashStore::create(std::string const& path,
                                                         CreateOptions const& create,
                                                         OpenOptions const& open) {
  auto header = header_for(path, create);
  if (!header) return header.status();
  if (Status s = can_run(open.device); !s.ok()) return s;
  gphash::Shape const shape{create.shape.levels, create.shape.hashes, create.shape.slots};
  std::uint32_t const top =
      gphash::top_level_for(shape, std::max<std::uint64_t>(1, create.expected_records), kStartLoad);
  pm::MapOptions const map{false, open.lock_memory, open.device == Device::cuda};
  auto pool =
      pm::Pool::create(path, *header, superblocks_for(*header, top, create.expected_records),
                       make_options(create.file), map);
  if (!pool) return pool.status();
  auto impl = std::make_unique<GphashStore>(path, open, std::move(*pool));
  impl->begin_opening();
  if (Status s = impl->table_.create(top, impl->workers_); !s.ok()) return s;
  if (Status s = impl->start(); !s.ok()) return s;
  if (Status s = impl->create_log(create); !s.ok()) return s;
  if (Status s = impl->keep(); !s.ok()) return s;
  impl->now_open();
  return std::unique_ptr<Impl>(std::move(impl));
}

Result<std::unique_ptr<Store::Impl>> GphashStore::open(std::string const& path,
                                                       OpenOptions const& options, pm::Pool pool) {
  if (Status s = can_run(options.device); !s.ok()) return s;
  if (pool.header().durability == static_cast<std::uint8_t>(Durability::power)) {
    return bad(
        "pool " + path +
        " is of durability power, and what its file holds may be behind its log; name its log_dir");
  }
  auto store = open_pool(path, options, std::move(pool));
  if (!store) return store.status();
  (*store)->now_open();
  return std::unique_ptr<Impl>(std::move(*store));
}

Result<std::unique_ptr<Store::Impl>> GphashStore::open_logged(std::string const& path,
                                                              OpenOptions const& options) {
  auto const begin = Clock::now();
  if (Status s = can_run(options.device); !s.ok()) return s;
  if (options.read_only)
    return bad("pool " + path + " of durability power opens for writing only: its log is replayed");
  if (Status s = check_log_dir(path, Durability::power, options.log_dir); !s.ok()) return s;
  auto opened = wal::LogDir::open(options.log_dir);
  if (!opened) return opened.status();
  std::shared_ptr<wal::LogDir> power = std::move(*opened);
  auto restored =
      restore_pool(*power, path, {false, options.lock_memory, options.device == Device::cuda});
  if (!restored) return restored.status();
  auto pool = pm::Pool::of(path, std::move(restored->file));
  if (!pool) return pool.status();
  double const map_seconds = seconds_since(begin);
  auto store = open_pool(path, options, std::move(*pool));
  if (!store) return store.status();
  (*store)->recovery.map_seconds = map_seconds;
  if (Status s = (*store)->replay_log(std::move(power), restored->loaded); !s.ok()) return s;
  (*store)->now_open();
  return std::unique_ptr<Impl>(std::move(*store));
}

Result<std::unique_ptr<GphashStore>> GphashStore::open_pool(std::string const& path,
                                                            OpenOptions const& options,
                                                            pm::Pool pool) {
  if (Status s = check_expected(path, options, pool.header()); !s.ok()) return s;
  auto store = std::make_unique<GphashStore>(path, options, std::move(pool));
  if (Status s = store->attach(); !s.ok()) return s;
  if (Status s = store->start(); !s.ok()) return s;
  if (Status s = store->recover(); !s.ok()) return s;
  return store;
}

/// Takes over the runs of superblocks that the root names.
Status GphashStore::attach() {
  if (Status s = table_.attach(); !s.ok()) return {s.code(), "pool " + path + ": " + s.message()};
  if (Status s = undo_.attach(); !s.ok()) return {s.code(), "pool " + path + ": " + s.message()};
  if (Status s = dense_.attach(); !s.ok()) return {s.code(), "pool " + path + ": " + s.message()};
  return {};
}

Status GphashStore::start() {
  EngineOptions e;
  e.base = pool_.base();
  e.in_place = pool_.header().layout == static_cast<std::uint8_t>(Layout::in_place);
  e.default_shape =
      pool_.header().levels == 2 && pool_.header().hashes == 2 && pool_.header().slots == 8;
  e.count_accesses = options.count_accesses;
  e.verify_reads = options.verify_reads;
  e.displacement = options.displacement;
  e.workers = &workers_;
  e.gather = options.memory.gather;
  e.memory_budget = options.memory.budget_bytes;
  e.cache_bytes = options.memory.cache_bytes;
  e.cache_policy = options.memory.cache_policy;
  e.mirrored = options.memory.residency == Residency::mirrored ||
               (options.memory.residency == Residency::automatic &&
                options.device == Device::cuda && !e.in_place);
  if (e.in_place && e.mirrored)
    return bad("pool " + path +
               " has layout in_place, which is never mirrored; open it with residency pm");
  if (options.device == Device::cuda) {
    auto engine = make_cuda_engine(e);
    if (!engine) return engine.status();
    engine_ = std::move(*engine);
  } else {
    engine_ = make_cpu_engine(e);
  }
  Status const s = engine_->set_table(table_.view(), table_.slots());
  if (s.code() != Code::no_space) return s;
  return {s.code(), "pool " + path + ": its device has no memory for " + s.message() +
                        "; free some of it, or open the pool with device cpu"};
}

Status GphashStore::recover() {
  auto const begin = Clock::now();
  recovery.clean = pool_.root().clean == 1;
  if (pool_.read_only() && (!recovery.clean || table_.growing())) {
    return {Code::unsupported,
            "pool " + path +
                " was not closed in order; open it once for writing to recover it, then read-only"};
  }
  std::vector<std::string> wrong;  // of a pool that was closed in order
  bool const grows = table_.growing();
  if (recovery.clean) wrong = changed_words();
  if (left_ && grows && table_.sum(workers_).sum != left_->sum)
    wrong.push_back("the sum of its slots differs");
  if (!wrong.empty() && !options.repair) return changed_since_close(wrong);
  if (!recovery.clean || grows) begin_opening();
  if (recovery.clean && grows) {  // from here on a crash leaves it half moved
    pm::Root root = pool_.root();
    root.clean = 0;
    pool_.publish_root(root);
  }
  if (!recovery.clean && !mutated("recovery_skips_undo")) {
    recovery.undone = undo_.undo(0, [&](Offset word) { return is_logged_word(word); });
    if (recovery.undone > 0 && !mutated("epoch_survives_undo")) undo_.end();
  }
  if (table_.growing() && !mutated("recovery_skips_resize")) {
    recovery.resize_resumed = true;
    ++growths_;
    heap_.guard_superblocks(true);  // which of them hold records is not known yet
    Status s = engine_->refresh();
    if (s.ok()) s = complete_growth();
    heap_.guard_superblocks(false);
    if (!s.ok() && s.code() != Code::no_space) return s;
  }
  gphash::Survey found = table_.survey(workers_);
  if (recovery.clean && !grows) compare_slots(found, wrong);
  auto const because = [&](std::uint64_t slots, char const* what) {
    recovery.dropped += slots;
    if (slots > 0)
      recovery.why_dropped +=
          (recovery.why_dropped.empty() ? "" : "; ") + std::to_string(slots) + " slots " + what;
  };
  if (!wrong.empty()) {
    if (!options.repair) return changed_since_close(wrong);
    begin_opening();
    found = repair(wrong);
    because(repair_dropped_, "were dropped by the repair");
  } else if (!recovery.clean || grows) {
    gphash::Mended const mended = table_.mend_crash(found);
    note_changes(mended.lines);
    recovery.duplicates = mended.dropped;
    because(found.half.size(), "were half inserted");
  }
  because(found.astray, "lead to no record (run verify)");
  if (Status s = engine_->refresh(); !s.ok()) return s;
  table_.pool_grew();
  astray_ = found.astray;
  recovery.records = found.records;
  records_ = found.records;
  sequence_ = pool_.root().batch_lease;
  if (!pool_.read_only()) {
    begin_opening();
    pm::Root root = pool_.root();
    if (!mutated("clean_flag_stays")) root.clean = 0;
    pool_.publish_root(root);
  }
  recovery.recover_seconds = seconds_since(begin);
  return {};
}

/// For those who close or let go of the store: what fails here and did not before, nobody has heard
/// of.
void GphashStore::end_holder() noexcept {
  if (!store_lock_.enter_as_holder()) return;
  auto const session = device_session_;
  auto const transaction = transaction_;
  bool const heard = !failed_.ok();
  store_lock_.leave_inside(false);
  Status done;
  if (session) done = caught([&] { return end(session.get()); });
  if (transaction) done = caught([&] { return end(transaction.get(), false); });
  if (!heard && !done.ok()) unheard_ = std::move(done);
}

Status GphashStore::close() {
  if (store_lock_.is_held_here()) end_holder();  // else it ends first
  ExclusiveLock const store_lock(store_lock_);
  if (closed_) return {};
  closed_ = true;
  // Whatever fails in here, the pool is let go of, and was not closed in order.
  if (Status s = whole_or_failed([&] { return close_in(); }); !s.ok()) unheard_ = std::move(s);
  sessions_.clear();
  engine_.reset();
  power_.reset();
  end_changes();
  pool_.close();
  if (unheard_.ok()) return {};
  return caught([&]() -> Status {
    return {unheard_.code(),
            "pool " + path +
                " was not closed in order, and is recovered when it is opened again, with all that "
                "was acknowledged: " +
                unheard_.message()};
  });
}

Status GphashStore::close_in() {
  if (pool_.read_only() || !failed_.ok()) return {};
  // So that it opens read-only, too. Without room for it, the next open goes on.
  if (table_.growing()) {
    if (Status s = complete_growth(); !s.ok() && s.code() != Code::no_space) return s;
  }
  pool_.publish_clean(closing_note());
  // Should it fail, nothing is lost: the log holds what the older image lacks.
  return power_ ? checkpoint() : Status{};
}

Status GphashStore::check_open(bool writing) const {
  if (closed_) return {Code::closed, "pool " + path + ": this store is closed"};
  if (device_session_) return held_by_this_thread();  // the others wait
  // A level whose entries are on their way is not looked through; and of an atomic batch there may
  // be a part.
  if (!failed_.ok() && (half_undoable_ || table_.growing()))
    return {Code::closed, "pool " + path +
                              " was left in the middle of a change by an earlier failure (" +
                              failed_.message() + "); close and reopen it"};
  if (unlogged_ && !failed_.ok())
    return {
        failed_.code(),
        "pool " + path + " may hold what its log lacks, for " + failed_.message() +
            ": nothing is read that a reopening could take back; close it, mend what failed, and "
            "reopen it"};
  if (!writing) return {};
  if (!failed_.ok())
    return {Code::closed, "pool " + path + " refuses writes since an earlier failure (" +
                              failed_.message() + "); close and reopen it"};
  if (power_ && !power_->log().failure().ok())
    return {Code::closed, "pool " + path + " refuses writes since its log failed (" +
                              power_->log().failure().message() + "); close and reopen it"};
  if (pool_.read_only())
    return bad("pool " + path + " is open read-only; open it without read_only to write");
  return {};
}

// The state of what was in flight is unknown: it may or may not be published. Recovery at the next
// open sorts that out; until then further writes could build on either.
Status GphashStore::fail(Status const& status) {
  failed_ = status;
  std::string const named = status.message().starts_with("pool ") ? "" : "pool " + path + ": ";
  return {
      status.code(),
      named + status.message() +
          "; it refuses writes until it is closed and reopened, on this device or on device cpu"};
}

/// A part of what was being done may be there, and nobody sees it before recovery has looked. Where
/// memory is what lacks, this needs none.
Status GphashStore::failed_by_exception() {
  Status why = status_of_exception();
  if (!changing_) return why;
  if (failed_.ok()) failed_ = std::move(why);
  half_undoable_ = true;
  return caught([this] { return failed_; });
}

Status GphashStore::not_the_transaction() const {
  return {Code::busy,
          "pool " + path +
              ": the transaction named in the call options has ended, or is another pool's"};
}

Status GphashStore::of_batch(Status const& status, std::size_t n) const {
  if (status.code() == Code::no_space)
    return {status.code(), "pool " + path + ": a batch of " + std::to_string(n) +
                               " operations: " + status.message() + "; use smaller batches"};
  if (status.code() == Code::device_error)
    return {status.code(), "pool " + path + ": " + status.message() + kReopen};
  return status;
}

// ------------------------------------------------------------------------------------------------
// Batches

template <class F>
auto GphashStore::reading(void const* transaction, F f) -> decltype(f()) {
  std::shared_ptr<wal::LogDir> power;
  wal::Lsn lsn = 0;
  auto answer = [&]() -> decltype(f()) {
    SharedLock const store_lock(store_lock_, transaction);
    if (store_lock.way() == Way::none) return not_the_transaction();
    if (Status s = check_open(false); !s.ok()) return s;
    power = power_;
    if (power) lsn = power->log().position().lsn;
    return f();
  }();
  if (!power || !answer.ok() || mutated("reads_do_not_wait")) return answer;
  Status const durable = power->log().wait_durable(lsn);  // without the lock: nobody waits with it
  if (durable.ok()) return answer;
  return Status{durable.code(), "pool " + path +
                                    ": what is read may be gone when the pool is reopened, for " +
                                    durable.message() + "; close it, mend the disk, and reopen it"};
}

Status GphashStore::read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) {
  return reading(token_of(how), [&]() -> Status {
    if (Status s = check_batch(path, pool_.header(), call, statuses); !s.ok()) return s;
    return in_pieces(
        call, statuses, how.stop,
        [&](Call const& piece, auto of_piece) { return read_in(piece, of_piece); },
        [](Status const&) { return false; });
  });
}

Result<VariableValues> GphashStore::read_variable(Call const& call, std::span<KeyStatus> statuses,
                                                  CallOptions const& how) {
  return reading(token_of(how), [&]() -> Result<VariableValues> {
    if (Status s = check_batch(path, pool_.header(), call, statuses); !s.ok()) return s;
    VariableValues all;
    Status const s = in_pieces(
        call, statuses, how.stop,
        [&](Call const& piece, auto of_piece) {
          auto some = read_variable_in(piece, of_piece);
          if (some) append(all, std::move(*some));
          return some.status();
        },
        [](Status const&) { return false; });
    if (!s.ok()) return s;
    return all;
  });
}

Status GphashStore::read_in(Call const& call, std::span<KeyStatus> statuses) {
  if (pool_.header().value_bytes == 0)
    return bad("pool " + path + " has variable-length values; use get_variable");
  if (call.out.data == nullptr && call.keys.count > 0) return bad("the output array is null");
  if (call.keys.count == 0) return {};
  std::vector<std::uint8_t> first;  // of fixed sizes none can be too large: all are pending
  if (call.keys.offsets != nullptr) {
    auto statuses_at_first = first_statuses(pool_.header(), call);
    if (!statuses_at_first) return statuses_at_first.status();
    first = std::move(*statuses_at_first);
  }
  auto session = take_session();
  if (!session) return session.status();
  auto const run = [&]() -> Status {
    if (Status s = (*session)->begin(call, first); !s.ok()) return s;
    if (Status s = (*session)->get(); !s.ok()) return s;
    if (!statuses.empty()) {
      auto status = (*session)->statuses();
      if (!status) return status.status();
      for (std::size_t i = 0; i < statuses.size(); ++i)
        statuses[i] = static_cast<KeyStatus>((*status)[i]);
    }
    return (*session)->finish();
  };
  Status const s = run();
  give_session(std::move(*session));
  return of_batch(s, call.keys.count);
}

Result<VariableValues> GphashStore::read_variable_in(Call const& call,
                                                     std::span<KeyStatus> statuses) {
  if (call.keys.count == 0) return VariableValues{{0}, {}};
  auto first = first_statuses(pool_.header(), call);
  if (!first) return first.status();
  auto session = take_session();
  if (!session) return session.status();
  auto const run = [&]() -> Result<VariableValues> {
    VariableValues values;
    if (Status s = (*session)->begin(call, *first); !s.ok()) return s;
    auto lengths = (*session)->locate();
    if (!lengths) return lengths.status();
    values.offsets.resize(call.keys.count + 1);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < call.keys.count; ++i) {
      values.offsets[i] = sum;
      sum += static_cast<std::int64_t>((*lengths)[i]);
    }
    values.offsets.back() = sum;
    values.data.resize(static_cast<std::size_t>(sum));
    if (Status s = (*session)->copy_located(values.offsets, values.data.data()); !s.ok()) return s;
    auto status = (*session)->statuses();
    if (!status) return status.status();
    for (std::size_t i = 0; i < statuses.size(); ++i)
      statuses[i] = static_cast<KeyStatus>((*status)[i]);
    if (Status s = (*session)->finish(); !s.ok()) return s;
    return values;
  };
  auto result = run();
  give_session(std::move(*session));
  if (!result) return of_batch(result.status(), call.keys.count);
  return result;
}

Result<std::unique_ptr<Session>> GphashStore::take_session() {
  {
    std::lock_guard const lock(sessions_mutex_);
    if (!sessions_.empty()) {
      auto session = std::move(sessions_.back());
      sessions_.pop_back();
      return session;
    }
  }
  return engine_->session();
}

void GphashStore::give_session(std::unique_ptr<Session> session) {
  {
    std::lock_guard const lock(stats_mutex_);
    ++batches_;
  }
  std::lock_guard const lock(sessions_mutex_);
  sessions_.push_back(std::move(session));
}

// ------------------------------------------------------------------------------------------------
// Looking around

void GphashStore::add(Counts const& counts) {
  std::lock_guard const lock(stats_mutex_);
  records_ += counts[Counts::inserted];
  records_ -= counts[Counts::erased];
  displacements_ += counts[Counts::displaced];
  if (!options.count_accesses) return;
  accesses_.pm_reads += counts[Counts::reads];
  accesses_.pm_writes += counts[Counts::writes];
  accesses_.cache_hits += counts[Counts::cached];
  accesses_.orders += counts[Counts::orders];
}

Stats GphashStore::stats() {
  SharedLock const store_lock(store_lock_);
  Stats s;
  pm::PoolHeader const& h = pool_.header();
  if (engine_) {
    add(engine_->get_counts());
    s.machine = engine_->describe();
    MirrorReport const mirror = engine_->mirror();
    s.memory.mirror_bytes = mirror.bytes;
    s.memory.residency = mirror.bytes > 0 ? Residency::mirrored : Residency::pm;
    s.memory.note = mirror.lacks;
    s.memory.cache_records = mirror.cache_records;
    s.memory.cache_bytes = mirror.cache_bytes;
  }
  std::lock_guard const lock(stats_mutex_);
  s.records = records_;
  s.slots = table_.usable_slots();
  s.load_factor = static_cast<double>(s.records) / static_cast<double>(s.slots);
  s.growths = growths_;
  s.displacements = displacements_;
  s.batches = batches_;
  s.space.pool_bytes = pool_.bytes();
  s.space.used_bytes = pool_.superblocks_in_use() * pool_.superblock_bytes();
  s.space.dense_bytes = dense_.bytes();
  s.accesses = accesses_;
  s.key_bytes = h.key_bytes;
  s.value_bytes = h.value_bytes;
  s.value_type = value_type;
  s.max_key_bytes = h.max_key_bytes;
  s.max_value_bytes = h.max_value_bytes;
  s.units_left = table_.units_left();
  s.top_level = table_.top_level();
  s.shape = {h.levels, h.hashes, h.slots};
  s.layout = static_cast<Layout>(h.layout);
  s.device = options.device;
  s.medium = pool_.medium();
  if (power_) {
    s.log.used_bytes = power_->log().used_bytes();
    s.log.checkpoints = power_->checkpoints_written();
    s.log.method = power_->log().method().describe();
  }
  return s;
}

void GphashStore::reset_counts() {
  SharedLock const store_lock(store_lock_);
  if (engine_) engine_->get_counts();
  std::lock_guard const lock(stats_mutex_);
  accesses_ = {};
}

/// Emptied alone, so that no get that saw the old contents still reads them; chosen and filled
/// while gets go on, and no writer changes what is being copied.
Result<CacheReport> GphashStore::load_cache() {
  if (options.memory.cache_bytes == 0)
    return Status{Code::unsupported,
                  "pool " + path + " was opened without a record cache: set cache_bytes"};
  bool const of_buckets = pool_.header().layout == static_cast<std::uint8_t>(Layout::in_place);
  if (!of_buckets && (pool_.header().key_bytes == 0 || pool_.header().value_bytes == 0))
    return Status{
        Code::unsupported,
        "pool " + path + " has records of varying sizes, which the record cache does not take"};
  if (store_lock_.is_held_here()) return held_by_this_thread();
  auto const begin = Clock::now();
  auto const not_loaded = [&](Status const& s) {
    char const* const way_out = s.code() == Code::no_space ? "; open it with a smaller cache_bytes"
                                : s.code() == Code::device_error ? kReopen
                                                                 : "";
    return Status{s.code(), "pool " + path + ": its cache is not loaded: " + s.message() + way_out};
  };
  WriterLock const no_writers(store_lock_);  // nor does anyone close the store
  {
    SharedLock const store_lock(store_lock_);
    if (Status s = check_open(false); !s.ok()) return s;
    if (Status s = engine_->choose_cache(); !s.ok()) return not_loaded(s);
  }
  store_lock_.lock_exclusive();
  Status const emptied = caught([&] { return engine_->empty_cache(); });
  store_lock_.unlock_exclusive();
  if (!emptied.ok()) return not_loaded(emptied);
  SharedLock const store_lock(store_lock_);
  auto report = engine_->fill_cache();
  if (!report) return not_loaded(report.status());
  report->seconds = seconds_since(begin);
  return report;
}

Result<ScanPage> GphashStore::scan(ScanCursor const& from, std::size_t limit,
                                   std::atomic<bool> const* stop) {
  return reading(nullptr, [&] { return scan_in(from, limit, stop); });
}

Result<ScanPage> GphashStore::scan_in(ScanCursor const& from, std::size_t limit,
                                      std::atomic<bool> const* stop) {
  if (from.generation != 0 && from.generation != generation_) {
    return Status{
        Code::busy,
        "pool " + path +
            ": keys moved during this scan (the table grew, or made room); start it again"};
  }
  ScanPage page;
  page.keys.offsets.push_back(0);
  page.values.offsets.push_back(0);
  auto const append = [](VariableValues& to, std::span<std::byte const> bytes) {
    to.data.insert(to.data.end(), bytes.begin(), bytes.end());
    to.offsets.push_back(static_cast<std::int64_t>(to.data.size()));
  };
  std::uint64_t at = from.slot;
  for (std::size_t found = 0; at < table_.slots() && found < limit; ++at) {
    if (at % kPieceOperations == 0 && stopped(stop)) return look_stopped(path, "scan");
    auto const entry = table_.entry(at);
    if (!entry || !entry->readable) continue;
    if (options.verify_reads && !table_.intact(*entry))
      return Status{Code::corrupt,
                    "pool " + path + ": the scan met a damaged record (" + table_.name(at) +
                        ": record's checksum does not match); run verify, which names all that is "
                        "damaged, and restore a snapshot, or scan with verify_reads off"};
    append(page.keys, entry->key);
    append(page.values, entry->value);
    ++found;
  }
  page.next = {at, generation_, at >= table_.slots()};
  return page;
}

VerifyReport GphashStore::look_at_slots(std::atomic<bool> const* stop) {
  VerifyReport report;
  std::mutex mutex;
  workers_.for_chunks(table_.slots(), 1 << 14, [&](std::size_t begin, std::size_t end) {
    if (stopped(stop)) return;
    std::uint64_t good = 0;
    for (std::uint64_t number = begin; number < end; ++number) {
      auto const entry = table_.entry(number);
      if (!entry) continue;
      std::string const fault = table_.fault(number, *entry);
      if (fault.empty()) {
        ++good;
        continue;
      }
      std::lock_guard const lock(mutex);
      ++report.fault_count;
      if (report.faults.size() < kMostFaults) {
        report.faults.push_back(table_.name(number) + ": " + fault);
      }
    }
    std::lock_guard const lock(mutex);
    report.records += good;
  });
  std::sort(report.faults.begin(), report.faults.end());
  return report;
}

Result<VerifyReport> GphashStore::verify(std::atomic<bool> const* stop) {
  SharedLock const store_lock(store_lock_);
  if (Status s = check_open(false); !s.ok()) return s;
  VerifyReport report = look_at_slots(stop);
  if (stopped(stop)) return look_stopped(path, "verify");
  report.dropped = recovery.dropped;
  if (!dense_.fault().empty()) {
    ++report.fault_count;
    report.faults.insert(report.faults.begin(), dense_.fault());
  }
  add_unacknowledged(repairs_.waiting(), report);
  return report;
}

}  // namespace perdure
