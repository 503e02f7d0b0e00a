// Invariant: the lock is held while the list of handles is looked at, never while a store works or
// Python code runs, and across a fork; so a child finds it free, and the list whole.
#include "row_handles.hpp"

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "perdure/pool_reader.h"
#include "perdure/store.h"
#include "row_calls.hpp"

namespace perdure::python {
namespace {

namespace nb = nanobind;

/// A store or a reader, kept alive as the Python object that holds it.
struct Source {
  Store* store = nullptr;
  PoolReader* reader = nullptr;
  PyObject* object = nullptr;

  Source() = default;
  Source(Source const&) = delete;
  Source& operator=(Source const&) = delete;
  /// On whatever thread returns last, so without the GIL. Once Python has ended nothing can be
  /// freed.
  ~Source() {
    if (!nb::is_alive()) return;
    nb::gil_scoped_acquire const held;
    Py_XDECREF(object);
  }
};

class Handles {
 public:
  Handles() { pthread_atfork(&before_fork, &after_fork, &after_fork); }

  std::int64_t keep(std::shared_ptr<Source const> source) {
    std::lock_guard const lock(mutex_);
    sources_.emplace(++last_, std::move(source));
    return last_;
  }
  /// What it named, so that it is destroyed once the lock is free.
  std::shared_ptr<Source const> forget(std::int64_t handle) {
    std::lock_guard const lock(mutex_);
    auto node = sources_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  std::shared_ptr<Source const> find(std::int64_t handle) {
    std::lock_guard const lock(mutex_);
    auto const at = sources_.find(handle);
    return at == sources_.end() ? nullptr : at->second;
  }

 private:
  static void before_fork();
  static void after_fork();
  std::mutex mutex_;
  std::unordered_map<std::int64_t, std::shared_ptr<Source const>> sources_;  // guarded by mutex_
  std::int64_t last_ = 0;                                                    // guarded by mutex_
};

/// Never destroyed: threads of PyTorch may outlive Python.
Handles& handles() {
  static auto* const all = new Handles;
  return *all;
}

void Handles::before_fork() { handles().mutex_.lock(); }
void Handles::after_fork() { handles().mutex_.unlock(); }

thread_local std::optional<Status> last_failure;

void tell(std::string_view message, RowError* error) {
  std::size_t const bytes = std::min(message.size(), sizeof(error->message) - 1);
  std::memcpy(error->message, message.data(), bytes);
  error->message[bytes] = '\0';
}

bool failed(Status status, RowError* error) {
  tell(status.message(), error);
  last_failure = std::move(status);
  return false;
}

Status unknown(std::int64_t handle) {
  return {Code::closed, "store " + std::to_string(handle) +
                            ": no open store has this number; perdure.torch.ops.number_of "
                            "answers that of one"};
}

/// call(source), with what it throws as a Status.
template <class Call>
bool answer(std::int64_t handle, RowError* error, Call call) noexcept {
  last_failure.reset();
  try {
    auto const source = handles().find(handle);
    Status status = source == nullptr ? unknown(handle) : call(*source);
    return status.ok() || failed(std::move(status), error);
  } catch (std::bad_alloc const&) {
    tell("no memory for a batch of this size; look up fewer keys at once", error);
    return false;
  }
}

bool shape_of(std::int64_t handle, RowShape* shape, RowError* error) noexcept {
  return answer(handle, error, [shape](Source const& source) {
    if (source.store != nullptr) {
      Store const& store = *source.store;
      *shape = {store.key_bytes(), store.value_bytes(), store.device() == Device::cuda, false};
      return store.belongs_here();
    }
    *shape = {source.reader->key_bytes(), source.reader->value_bytes(), false, true};
    return Status{};
  });
}

Status get_from(Store& store, Column const& keys, RowBatch const& batch,
                std::span<KeyStatus> statuses) {
  MutableColumn const rows{batch.rows, batch.row_bytes, batch.count, keys.space};
  return store.get(keys, rows, statuses, {.stream = batch.stream});
}

Status get_from(PoolReader& reader, Column const& keys, RowBatch const& batch,
                std::span<KeyStatus> statuses) {
  std::vector<PoolReader::Target> targets(batch.count);
  for (std::size_t i = 0; i < batch.count; ++i)
    targets[i] = {batch.rows + i * batch.row_bytes, batch.row_bytes};
  if (reader.value_bytes() != 0) return reader.get(keys, targets, statuses);
  std::vector<std::uint32_t> lengths(batch.count);
  Status const done = reader.get(keys, targets, statuses, lengths);
  for (std::size_t i = 0; i < batch.count; ++i)
    if (statuses[i] == KeyStatus::ok && lengths[i] != batch.row_bytes)
      statuses[i] = KeyStatus::size_mismatch;
  return done;
}

bool get(std::int64_t handle, RowBatch const* batch, RowError* error) noexcept {
  return answer(handle, error, [batch](Source const& source) {
    static_assert(sizeof(KeyStatus) == 1);
    std::span const statuses{reinterpret_cast<KeyStatus*>(batch->statuses), batch->count};
    bool const stores = source.store != nullptr;
    Column const keys{.data = batch->keys,
                      .width = stores ? source.store->key_bytes() : source.reader->key_bytes(),
                      .count = batch->count,
                      .space = batch->on_gpu ? MemorySpace::device : MemorySpace::host};
    return stores ? get_from(*source.store, keys, *batch, statuses)
                  : get_from(*source.reader, keys, *batch, statuses);
  });
}

constexpr RowCalls kCalls{.version = kRowCallsVersion, .shape = &shape_of, .get = &get};

std::int64_t keep(nb::handle object) {
  auto source = std::make_shared<Source>();
  if (!nb::try_cast(object, source->store)) source->reader = nb::cast<PoolReader*>(object);
  source->object = object.inc_ref().ptr();
  return handles().keep(std::move(source));
}

/// Whatever the last call of this thread failed with, as its exception; None where it did not.
void raise_row_error() {
  if (!last_failure) return;
  Status const status = std::exchange(last_failure, std::nullopt).value();
  raise_unless_ok(status);
}

}  // namespace

void bind_row_handles(nb::module_& module) {
  handles();  // its handlers of forks are there before the first one
  module.def("keep_rows", &keep, nb::arg("source"));
  module.def(
      "forget_rows", [](std::int64_t handle) { handles().forget(handle); }, nb::arg("handle"));
  module.def("raise_row_error", &raise_row_error);
  module.def("row_calls", [] { return nb::capsule(&kCalls, kRowCallsName); });
}

}  // namespace perdure::python
