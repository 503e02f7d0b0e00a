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
  if (core_.in_place() || core_.logged())
    return unsupported("device sessions need a pool of layout word");
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
  Status const room = core_.health.whole_or_failed([&]() -> Status {
    if (Status s = transactions_.keep_last(); !s.ok()) return s;
    core_.health.changing = true;
    if (Status s = growth_.grow_for(how.records, kSessionLoad); !s.ok()) return s;
    if (Status s = records_.begin_lease(); !s.ok()) return s;
    std::uint64_t const sequence = core_.next_sequence();
    return records_.take_leased(how.records, [&] { return (*run)->begin(how.records, sequence); });
  });
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

Status DeviceSessions::end(DeviceSession::State& session) {
  std::shared_ptr<DeviceSession::State> keep;  // `session` may be the last to hold it
  ExclusiveLock store_lock;
  ExclusiveLock const inside(core_.lock, &session);
  if (inside.way() == Way::none) return session_ended();  // on another thread
  PERDURE_ASSERT(core_.device_session.get() == &session && session.run != nullptr);
  Status const done = core_.health.whole_or_failed([&]() -> Status {
    core_.health.changing = true;
    auto const counts = session.run->end();
    if (!counts.ok()) return core_.health.fail(counts.status());
    core_.counters.add(counts.value());
    return {};
  });
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
