// The public face: turns the API's calls into batches.
#include "perdure/store.h"

#include <algorithm>
#include <string_view>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "batch/kinds.hpp"
#include "exec/range.hpp"
#include "store/events.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/gphash/transactions.hpp"
#include "store/index_name.hpp"
#include "store/values_view.hpp"

namespace perdure {

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  PERDURE_ASSERT(impl_ != nullptr && impl_->process == this_process());
}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&& other) noexcept {
  if (this != &other) {
    Impl::release(std::move(impl_));
    impl_ = std::move(other.impl_);
  }
  return *this;
}
Store::~Store() { Impl::release(std::move(impl_)); }

Status Store::belongs_here() const {
  return caught([this] { return impl_ ? impl_->check_process() : moved_elsewhere(); });
}

namespace {

/// Opens or makes a pool, and tells what that came to.
template <class Impl, class F>
Result<std::unique_ptr<Impl>> noted(std::string_view how, std::string const& path,
                                    OpenOptions const& options, F make) {
  auto const begin = events::Clock::now();
  auto impl = caught(make);
  if (!impl) {
    events::not_opened(path, impl.status());
    return impl;
  }
  Impl& made = **impl;
  events::opened(how, path, options, made.recovery, name(made.index), events::seconds_since(begin));
  // Not asked of others than gphash: a Dash index would count its records.
  if (log::heard() && made.index == Index::gphash) events::placed(path, made.stats());
  return impl;
}

}  // namespace

Result<Store> Store::create(std::string const& path, CreateOptions const& create,
                            OpenOptions const& open) {
  exec::Range const range("create");
  log::Delivery const delivery;
  return caught([&]() -> Result<Store> {
    auto impl =
        noted<Impl>("created", path, open, [&] { return Impl::create(path, create, open); });
    if (!impl) return impl.status();
    return Store(std::move(*impl));
  });
}

Result<Store> Store::open(std::string const& path, OpenOptions const& options) {
  exec::Range const range("open");
  log::Delivery const delivery;
  return caught([&]() -> Result<Store> {
    auto impl = noted<Impl>("opened", path, options, [&] { return Impl::open(path, options); });
    if (!impl) return impl.status();
    return Store(std::move(*impl));
  });
}

Result<Store> Store::restore(std::string const& snapshot, std::string const& path,
                             RestoreOptions const& restore, OpenOptions const& open) {
  exec::Range const range("restore");
  log::Delivery const delivery;
  return caught([&]() -> Result<Store> {
    auto impl = noted<Impl>("restored", path, open,
                            [&] { return Impl::restore(snapshot, path, restore, open); });
    if (!impl) return impl.status();
    return Store(std::move(*impl));
  });
}

Status Store::get(Column const& keys, MutableColumn const& values, std::span<KeyStatus> statuses,
                  CallOptions const& options) {
  exec::Range const range("get");
  Call call;
  call.keys = keys;
  call.out = values;
  call.stream = options.stream;
  call.device_statuses = options.device_statuses;
  return answer(impl_.get(), [&](Impl& impl) { return impl.read(call, statuses, options); });
}

Result<VariableValues> Store::get_variable(Column const& keys, std::span<KeyStatus> statuses,
                                           CallOptions const& options) {
  exec::Range const range("get_variable");
  Call call;
  call.keys = keys;
  call.stream = options.stream;
  return answer(impl_.get(),
                [&](Impl& impl) { return impl.read_variable(call, statuses, options); });
}

Result<ValuesView> Store::view(Column const& keys, std::span<KeyStatus> statuses) {
  exec::Range const range("view");
  Call call;
  call.keys = keys;
  return answer(impl_.get(), [&](Impl& impl) -> Result<ValuesView> {
    auto state = impl.view(call, statuses);
    if (!state) return state.status();
    return ValuesView(std::move(*state));
  });
}
ValuesView::ValuesView(std::unique_ptr<State> state) : state_(std::move(state)) {}
ValuesView::ValuesView(ValuesView&&) noexcept = default;
ValuesView& ValuesView::operator=(ValuesView&&) noexcept = default;
ValuesView::~ValuesView() = default;
std::size_t ValuesView::size() const { return state_ ? state_->values.size() : 0; }
std::span<std::byte const> ValuesView::operator[](std::size_t i) const {
  PERDURE_ASSERT(i < size());
  return state_->values[i];
}
std::span<std::byte const> ValuesView::memory() const {
  return state_ ? state_->memory : std::span<std::byte const>{};
}

Status Store::put(Column const& keys, Column const& values, std::span<KeyStatus> statuses,
                  CallOptions const& options) {
  exec::Range const range("put");
  Call call;
  call.keys = keys;
  call.values = values;
  call.kind = OpKind::put;
  return answer(impl_.get(), [&](Impl& impl) { return impl.write(call, statuses, options); });
}

Status Store::update(Column const& keys, Column const& operands, Rmw rmw, Element element,
                     std::span<KeyStatus> statuses, CallOptions const& options) {
  exec::Range const range("update");
  Call call;
  call.keys = keys;
  call.values = operands;
  call.kind = OpKind::update;
  call.rmw = rmw;
  call.element = element;
  return answer(impl_.get(), [&](Impl& impl) { return impl.write(call, statuses, options); });
}

Status Store::erase(Column const& keys, std::span<KeyStatus> statuses, CallOptions const& options) {
  exec::Range const range("erase");
  Call call;
  call.keys = keys;
  call.kind = OpKind::erase;
  return answer(impl_.get(), [&](Impl& impl) { return impl.write(call, statuses, options); });
}

namespace {

/// `counted`: what its kinds come to.
Status check_mixed(MixedBatch const& batch, std::optional<KindCounts>& counted) {
  if (batch.kinds.size() != batch.keys.count) {
    return {Code::invalid_argument, "kinds has " + std::to_string(batch.kinds.size()) +
                                        " entries for " + std::to_string(batch.keys.count) +
                                        " keys"};
  }
  KindCounts const kinds = counted.emplace(count_kinds(batch.kinds));
  if (kinds.unknown) {
    OpKind const kind =
        *std::ranges::find_if(batch.kinds, [](OpKind each) { return each > OpKind::update; });
    return {Code::invalid_argument,
            "kinds holds " + std::to_string(static_cast<int>(kind)) + ", which names no operation"};
  }
  if (kinds.gets != 0 && batch.out.data == nullptr) {
    return {Code::invalid_argument,
            "a mixed batch with gets needs an output array of fixed-width values; from a pool of "
            "variable-length "
            "values get with get_variable"};
  }
  if (kinds.write_values() != 0 && batch.values.count != batch.keys.count) {
    return {Code::invalid_argument, std::to_string(batch.values.count) + " values for " +
                                        std::to_string(batch.keys.count) + " keys"};
  }
  return {};
}

}  // namespace

Status Store::apply(MixedBatch const& batch, std::span<KeyStatus> statuses,
                    CallOptions const& options) {
  exec::Range const range("apply");
  Call call;
  call.keys = batch.keys;
  call.values = batch.values;
  call.out = batch.out;
  call.kinds = batch.kinds;
  call.rmw = batch.rmw;
  call.element = batch.element;
  return answer(impl_.get(), [&](Impl& impl) {
    Status const s = check_mixed(batch, call.counted);
    return s.ok() ? impl.write(call, statuses, options) : s;
  });
}

Result<Transaction> Store::begin(TransactionOptions const& options) {
  exec::Range const range("begin");
  auto state = answer(impl_.get(), [&](Impl& impl) { return impl.begin(options); });
  if (!state) return caught([&]() -> Result<Transaction> { return state.status(); });
  return Transaction(std::move(*state));
}

namespace {

/// A call of a transaction's: see answer().
template <class F>
Status inside(Transaction::State* state, F call) {
  return caught([&]() -> Status {
    if (state == nullptr) return {Code::closed, "this transaction was moved elsewhere"};
    if (state->process != this_process())
      return {
          Code::closed,
          "this transaction was begun by another process, which forked this one; it is open there"};
    return call(state);
  });
}

/// Aborts one that has not ended. In another process its store is put aside, and it with it.
void release(std::shared_ptr<Transaction::State> const& state) {
  if (!state || state->store == nullptr || state->process != this_process()) return;
  static_cast<void>(caught([&] { return GphashStore::end(state.get(), false); }));
}

}  // namespace

Transaction::Transaction(std::shared_ptr<State> state) : state_(std::move(state)) {
  PERDURE_ASSERT(state_ != nullptr && state_->process == this_process());
}
Transaction::Transaction(Transaction&&) noexcept = default;
Transaction& Transaction::operator=(Transaction&& other) noexcept {
  if (this != &other) {
    release(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
Transaction::~Transaction() { release(state_); }
Status Transaction::write_step(std::uint64_t step, CUstream_st* stream) {
  exec::Range const range("write_step");
  return inside(state_.get(),
                [&](State* state) { return GphashStore::write_step(state, step, stream); });
}
Status Transaction::commit() {
  exec::Range const range("commit");
  return inside(state_.get(), [](State* state) { return GphashStore::end(state, true); });
}
Status Transaction::abort() {
  exec::Range const range("abort");
  return inside(state_.get(), [](State* state) { return GphashStore::end(state, false); });
}

Status Store::register_dense(std::vector<DenseBuffer> const& buffers) {
  exec::Range const range("register_dense");
  return answer(impl_.get(), [&](Impl& impl) { return impl.register_dense(buffers); });
}

Result<std::optional<std::uint64_t>> Store::restore_step(CUstream_st* stream) {
  exec::Range const range("restore_step");
  return answer(impl_.get(), [&](Impl& impl) { return impl.restore_step(stream); });
}

Status Store::revert() {
  exec::Range const range("revert");
  return answer(impl_.get(), [](Impl& impl) { return impl.revert(); });
}

Result<bool> Store::can_revert() {
  return answer(impl_.get(), [](Impl& impl) { return impl.can_revert(); });
}

Result<CacheReport> Store::load_cache() {
  exec::Range const range("load_cache");
  return answer(impl_.get(), [&](Impl& impl) {
    auto found = impl.load_cache();
    if (found) events::cached(impl.path, *found);
    return found;
  });
}

Result<ScanPage> Store::scan(ScanCursor const& from, std::size_t limit,
                             std::atomic<bool> const* stop) {
  exec::Range const range("scan");
  return answer(impl_.get(), [&](Impl& impl) { return impl.scan(from, limit, stop); });
}
Result<RangePage> Store::range(RangeQuery const& query, std::atomic<bool> const* stop) {
  exec::Range const range("range");
  return answer(impl_.get(), [&](Impl& impl) { return impl.range(query, stop); });
}
Result<std::uint64_t> Store::count_range(RangeQuery const& query) {
  exec::Range const range("count_range");
  return answer(impl_.get(), [&](Impl& impl) { return impl.count_range(query); });
}
Status Store::snapshot(std::string const& path, SnapshotOptions const& options) {
  exec::Range const range("snapshot");
  return answer(impl_.get(), [&](Impl& impl) -> Status {
    if (auto const id = pm::id_of(path); id != pm::FileId{} && id == pm::id_of(impl.path))
      return {Code::invalid_argument,
              "snapshot " + path + " is the pool itself; name another file"};
    auto const begin = events::Clock::now();
    Status const s = impl.snapshot(path, options);
    if (s.ok()) events::snapshot_taken(impl.path, path, events::seconds_since(begin));
    return s;
  });
}
Result<VerifyReport> Store::verify(std::atomic<bool> const* stop) {
  exec::Range const range("verify");
  return answer(impl_.get(), [&](Impl& impl) {
    auto const begin = events::Clock::now();
    auto found = impl.verify(stop);
    if (found) events::verified(impl.path, *found, events::seconds_since(begin));
    return found;
  });
}
std::uint64_t Store::held_elsewhere() const noexcept {
  return impl_ && impl_->process == this_process() ? impl_->held_elsewhere() : 0;
}
Stats Store::stats() const { return belongs_here().ok() ? impl_->stats() : Stats{}; }
void Store::reset_counts() {
  if (belongs_here().ok()) impl_->reset_counts();
}
Status Store::acknowledge_repair() {
  exec::Range const range("acknowledge_repair");
  return answer(impl_.get(), [](Impl& impl) {
    Status const s = impl.acknowledge_repair();
    if (s.ok()) events::acknowledged(impl.path);
    return s;
  });
}
RecoveryReport const& Store::recovery() const {
  static RecoveryReport const none;
  return impl_ ? impl_->recovery : none;
}
Survival Store::survives() const { return belongs_here().ok() ? impl_->survives() : Survival{}; }
std::string const& Store::path() const {
  static std::string const none;
  return impl_ ? impl_->path : none;
}
std::uint32_t Store::key_bytes() const { return impl_ ? impl_->key_bytes : 0; }
std::uint32_t Store::value_bytes() const { return impl_ ? impl_->value_bytes : 0; }
ValueType Store::value_type() const { return impl_ ? impl_->value_type : ValueType{}; }
KeyOrder Store::key_order() const { return impl_ ? impl_->key_order : KeyOrder::bytes; }
Index Store::index() const { return impl_ ? impl_->index : Index::gphash; }
Device Store::device() const { return impl_ ? impl_->options.device : Device::cpu; }
Status Store::close() {
  exec::Range const range("close");
  return answer(impl_.get(), [&](Impl& impl) { return Impl::close_noted(impl); });
}

}  // namespace perdure
