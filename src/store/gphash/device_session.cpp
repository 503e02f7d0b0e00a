#include "store/gphash/device_session.hpp"

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/cuda/cuda_info.hpp"
#include "exec/range.hpp"
#include "pm/host_verbs.hpp"
#include "store/gphash/device_access.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/gphash/kernels/device_table.hpp"

namespace perdure {
namespace {

// No word is displaced inside a session, so it begins with this load at most, its records included.
constexpr double kSessionLoad = 0.75;

Status session_ended() { return {Code::closed, "this device session has ended already"}; }

}  // namespace

Status DeviceSessions::check(bool anywhere) const {
  pm::PoolHeader const& h = core_.pool.header();
  auto const unsupported = [&](char const* why) {
    return Status{Code::unsupported, "pool " + core_.path + ": " + why};
  };
  if (core_.in_place()) return unsupported("device sessions need a pool of layout word or log");
  if (core_.fixed_stride() == 0)
    return unsupported(
        "device sessions need keys and values of fixed sizes: set key_bytes and value_bytes");
  if (core_.power)
    return unsupported(
        "a device session's writes would miss the log of durability power; use batches");
  if (anywhere) return {};
  if (core_.options.device != Device::cuda)
    return unsupported(
        "device sessions are for kernels on a GPU: open it with device cuda, or use batches");
  if (h.levels != 2 || h.hashes != 2 || h.slots != 8)
    return unsupported("device sessions need a pool of the default shape, 2L-2H-8S");
  return exec::check_recorded(exec::Reliance::sessions, exec::gpu_info().description);
}

Result<std::shared_ptr<DeviceSession::State>> DeviceSessions::begin(GphashStore& store,
                                                                    DeviceSessionOptions const& how,
                                                                    bool anywhere) {
  if (core_.lock.is_held_here()) return core_.held_by_this_thread();
  ExclusiveLock store_lock(core_.lock);
  if (Status s = core_.check_open(true); !s.ok()) return s;
  if (Status s = check(anywhere); !s.ok()) return s;
  PERDURE_ASSERT(core_.transaction == nullptr && core_.device_session == nullptr);
  auto run = core_.engine->device_run();
  if (!run)
    return Status{run.status().code(), "pool " + core_.path + ": " + run.status().message()};
  auto state = std::make_shared<DeviceSession::State>();
  Status const room =
      core_.health.whole_or_failed([&]() -> Status { return make_room(how, **run); });
  if (!room.ok()) return room;
  // Superblocks added just now, before any word leads into them: in a session no phase of a batch
  // orders them.
  PERDURE_ASSERT(records_.leased());
  if (!mutated("device_no_order_before_session")) pm::order();
  state->store = &store;
  state->run = std::move(*run);
  state->store_lock = std::move(store_lock);
  core_.device_session = state;
  core_.lock.hold(state.get());
  return state;
}

/// Of layout `log`, for a session: one for each record and each erase.
Result<std::uint64_t> DeviceSessions::cells_of(DeviceSessionOptions const& how) const {
  if (!core_.logged()) return std::uint64_t{0};
  std::uint64_t const erases = how.erases.value_or(how.records);
  constexpr std::uint64_t kMost = ~std::uint32_t{0};  // of an extent, and of a region
  // Where in its first segment it begins is counted, too.
  std::uint64_t const most = kMost - core_.entries.cells_each();
  if (how.records <= most && erases <= most - how.records) return how.records + erases;
  return Status{Code::invalid_argument,
                "pool " + core_.path + ": a device session of " + std::to_string(how.records) +
                    " records and " + std::to_string(erases) +
                    " erases; in layout log it may have " + std::to_string(most) +
                    " of both together: begin several, one after the other"};
}

Status DeviceSessions::make_room(DeviceSessionOptions const& how, DeviceRun& run) {
  auto const cells = cells_of(how);
  if (!cells) return cells.status();
  if (Status s = transactions_.keep_last(); !s.ok()) return s;
  core_.health.changing = true;
  if (Status s = growth_.grow_for(how.records, kSessionLoad); !s.ok()) return s;
  if (core_.logged()) {
    Status const s = writer_.make_room_for_entries(cells.value());
    if (!s.ok()) return {s.code(), "pool " + core_.path + ": " + s.message()};
  }
  if (Status s = records_.begin_lease(); !s.ok()) return s;
  DeviceRoom room{how.records, core_.next_sequence()};
  if (core_.logged()) {
    room.erases = how.erases.value_or(how.records);
    room.segments = core_.entries.segments_for(cells.value());
    room.entries = core_.entries.next();
  }
  if (Status s = records_.take_leased(how.records, [&] { return run.begin(room); }); !s.ok())
    return s;
  if (core_.logged()) core_.entries.begin_session(room.sequence, cells.value(), core_.workers);
  return {};
}

/// Records are used again only once no crash brings back what led to them.
Status DeviceSessions::finish(DeviceRun& run) {
  core_.health.changing = true;
  auto const counts = run.end();
  if (!counts.ok()) return core_.health.fail(counts.status());
  core_.counters.add(counts.value());
  if (core_.logged()) core_.entries.end_session(core_.next_sequence(), core_.workers);
  if (Status s = run.release(); !s.ok()) return core_.health.fail(s);
  return {};
}

Status DeviceSessions::end(DeviceSession::State& session) {
  std::shared_ptr<DeviceSession::State> keep;  // `session` may be the last to hold it
  ExclusiveLock store_lock;
  ExclusiveLock const inside(core_.lock, &session);
  if (inside.way() == Way::none) return session_ended();  // on another thread
  PERDURE_ASSERT(core_.device_session.get() == &session && session.run != nullptr);
  Status const done = core_.health.whole_or_failed([&] { return finish(*session.run); });
  store_lock = std::move(session.store_lock);
  PERDURE_ASSERT(store_lock.way() == Way::lock);
  keep = std::move(core_.device_session);
  session.store = nullptr;
  core_.lock.hold_no_more();
  return done;
}

Status GphashStore::end(DeviceSession::State* session) {
  GphashStore* const store = session != nullptr ? session->store.load() : nullptr;
  return store != nullptr ? store->device_sessions_.end(*session) : session_ended();
}

// ------------------------------------------------------------------------------------------------
// The public face

Result<DeviceSession> Store::device_session(DeviceSessionOptions const& options) {
  exec::Range const range("device_session");
  auto state = answer(impl_.get(), [&](Impl& impl) { return impl.device_session(options, false); });
  if (!state) return caught([&]() -> Result<DeviceSession> { return state.status(); });
  return DeviceSession(std::move(*state));
}

namespace {

Status belongs_here(DeviceSession::State const* state) {
  if (state == nullptr || state->process == this_process()) return {};
  return {
      Code::closed,
      "this device session was begun by another process, which forked this one; it is open there"};
}

/// Ends it; one that a fork brought here is only put aside, ended or not.
void release(std::shared_ptr<DeviceSession::State> state) noexcept {
  if (!state) return;
  if (state->process == this_process()) {
    static_cast<void>(caught([&] { return GphashStore::end(state.get()); }));
    return;
  }
  DeviceSession::State* const it = state.get();
  it->itself = std::move(state);
  put_aside(std::unique_ptr<DeviceSession::State>(it));
}

}  // namespace

DeviceSession::DeviceSession(std::shared_ptr<State> state) : state_(std::move(state)) {
  PERDURE_ASSERT(state_ != nullptr && state_->run != nullptr);
}
DeviceSession::DeviceSession(DeviceSession&&) noexcept = default;
DeviceSession& DeviceSession::operator=(DeviceSession&& other) noexcept {
  if (this != &other) {
    release(std::move(state_));
    state_ = std::move(other.state_);
  }
  return *this;
}
DeviceSession::~DeviceSession() { release(std::move(state_)); }
DeviceView const& DeviceSession::table() const {
  static DeviceView const none;
  return state_ ? state_->run->view() : none;
}
Status DeviceSession::end() {
  exec::Range const range("device_session end");
  return caught([this] {
    Status const s = belongs_here(state_.get());
    return s.ok() ? GphashStore::end(state_.get()) : s;
  });
}

Result<DeviceSession> DeviceAccess::open(Store& store, DeviceSessionOptions const& options) {
  auto state = answer(store.impl_.get(),
                      [&](Store::Impl& impl) { return impl.device_session(options, true); });
  if (!state) return caught([&]() -> Result<DeviceSession> { return state.status(); });
  return DeviceSession(std::move(*state));
}

Result<std::uint64_t> DeviceAccess::records_in_use(Store& store) {
  return static_cast<GphashStore&>(*store.impl_).records_in_use();
}

Status DeviceAccess::run(DeviceSession& session, DeviceOps const& ops) {
  return caught([&]() -> Status {
    if (Status s = belongs_here(session.state_.get()); !s.ok()) return s;
    if (!session.state_ || session.state_->store == nullptr)
      return {Code::closed, "this device session has ended already"};
    return session.state_->run->run(ops);
  });
}

}  // namespace perdure
