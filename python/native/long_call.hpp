// Long work of the engine, during which Python's signal handlers run. On Python's main thread a
// long call goes to a thread of its own, and the main thread waits for it, looking for signals: so
// handlers run promptly, hold no lock of the engine, and may use the store. One that raises stops
// the call between two pieces of its batch. Invariants: whatever is raised, the thread has ended
// first; and the exception says what has been done.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "arrays.hpp"
#include "gil.hpp"
#include "perdure/store.h"

namespace perdure::python {

using Stop = std::atomic<bool> const*;

/// Work that takes long enough for somebody to want it stopped, and that runs anywhere. Not on a
/// GPU, which is done sooner, and whose streams may belong to the caller's thread.
[[nodiscard]] bool is_long(Store const& store, std::uintptr_t stream, Column const& keys,
                           std::uint64_t value_bytes);
[[nodiscard]] std::uint64_t bytes_of(Column const& column);
[[nodiscard]] bool on_main_thread();

/// Runs `work` in a thread that takes no signals. What a handler raised, if one did.
class Watch {
 public:
  virtual ~Watch() = default;
  /// The thread cannot be had: false, and nothing has run.
  [[nodiscard]] bool start(std::function<void(Stop)> work);
  /// Until it has ended. Answers false in a child that a handler forked, where the thread is not.
  [[nodiscard]] bool wait(std::optional<nanobind::python_error>& raised);

 private:
  bool ended_within_a_moment(bool for_ever);
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;  // guarded by mutex_
  std::exception_ptr thrown_;
  std::thread thread_;
};

/// On Python's main thread, before a call that would wait for the transaction of another thread:
/// until that has ended, looking for signals, so that Ctrl-C ends the wait before anything has been
/// done. The call itself may wait for one that comes next.
void await_turn(Store const& store);

/// Adds to the exception what has been done, and throws it.
[[noreturn]] void raise_after(nanobind::python_error& raised, Status const& answer,
                              std::span<KeyStatus const> statuses);
[[noreturn]] void raise_in_child(std::optional<nanobind::python_error>& raised);

inline Status status_in(Status const& answer) { return answer; }
template <class T>
Status status_in(Result<T> const& answer) {
  return answer.status();
}

/// call(stop), with the GIL released. `statuses` are those that it fills.
template <class Call>
auto long_call(bool is_long, std::span<KeyStatus const> statuses, Call call) {
  using Answer = decltype(call(Stop{}));
  std::atomic<bool> const never{false};
  auto const here = [&](Stop stop) { return without_gil([&] { return call(stop); }); };
  if (!is_long) return here(nullptr);
  if (!on_main_thread()) return here(&never);
  struct Watched : Watch {
    std::optional<Answer> answer;
  };
  auto watched = std::make_unique<Watched>();
  bool const started =
      watched->start([&call, at = &watched->answer](Stop stop) { at->emplace(call(stop)); });
  if (!started) return here(&never);
  std::optional<nanobind::python_error> raised;
  if (!watched->wait(raised)) {
    static_cast<void>(watched.release());  // the parent's thread was at work in it
    raise_in_child(raised);
  }
  if (raised) raise_after(*raised, status_in(*watched->answer), statuses);
  return std::move(*watched->answer);
}

}  // namespace perdure::python
