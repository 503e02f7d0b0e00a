#include "long_call.hpp"

#include <nanobind/stl/string.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>

#include "errors.hpp"

namespace perdure::python {
namespace {

namespace nb = nanobind;

constexpr std::size_t kLongOperations = 1u << 16;
constexpr std::uint64_t kLongBytes = 32u << 20;
constexpr auto kMoment = std::chrono::milliseconds(10);  // between two looks for signals

/// While it lives the calling thread, and those it begins, take none but those that say what the
/// thread itself did.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int const own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
      sigdelset(&all, own);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  NoSignals(NoSignals const&) = delete;
  NoSignals& operator=(NoSignals const&) = delete;
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

std::string what_was_done(Status const& answer) {
  if (answer.ok()) return "this call had come to its end, and all of it has been done";
  if (answer.code() == Code::stopped) return answer.message();
  return "this call ended with " + std::string(name(answer.code())) + ": " + answer.message();
}

}  // namespace

std::uint64_t bytes_of(Column const& column) {
  if (column.count == 0) return 0;
  return column.offsets == nullptr
             ? column.count * column.width
             : static_cast<std::uint64_t>(column.offsets[column.count] - column.offsets[0]);
}

bool is_long(Store const& store, std::uintptr_t stream, Column const& keys,
             std::uint64_t value_bytes) {
  bool const large = keys.count > kLongOperations || bytes_of(keys) + value_bytes > kLongBytes;
  return large && stream == 0 && store.device() == Device::cpu;
}

bool on_main_thread() {
  nb::module_ const threading = nb::module_::import_("threading");
  return threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"));
}

void await_turn(Store const& store) {
  std::uint64_t const holder = store.held_elsewhere();
  if (holder == 0 || !on_main_thread()) return;
  std::chrono::microseconds pause{50};
  while (store.held_elsewhere() == holder) {  // in a child that a handler forks nothing is
    {
      ReleasedGil const released;
      std::this_thread::sleep_for(pause);
    }
    pause = std::min<std::chrono::microseconds>(2 * pause, kMoment);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

bool Watch::start(std::function<void(Stop)> work) {
  NoSignals const none;
  try {
    thread_ = std::thread([this, work = std::move(work)] {
      try {
        work(&stop_);
      } catch (...) {
        thrown_ = std::current_exception();
      }
      std::lock_guard const lock(mutex_);
      ended_ = true;
      end_.notify_all();
    });
    return true;
  } catch (std::system_error const&) {
    return false;
  }
}

bool Watch::wait(std::optional<nb::python_error>& raised) {
  pid_t const process = ::getpid();
  while (!ended_within_a_moment(raised.has_value())) {
    if (PyErr_CheckSignals() != 0) {
      raised.emplace();
      stop_ = true;
    }
    if (::getpid() != process) return false;
  }
  thread_.join();
  if (thrown_ && !raised) std::rethrow_exception(thrown_);
  return true;
}

bool Watch::ended_within_a_moment(bool for_ever) {
  ReleasedGil const released;
  std::unique_lock lock(mutex_);
  if (for_ever) end_.wait(lock, [this] { return ended_; });
  return end_.wait_for(lock, kMoment, [this] { return ended_; });
}

void raise_after(nb::python_error& raised, Status const& answer,
                 std::span<KeyStatus const> statuses) {
  auto const set = [&](auto change) {
    try {
      change(raised.value());
    } catch (nb::python_error const&) {  // an exception of the user's that takes neither: it is
                                         // raised as it is
    }
  };
  set([&](nb::handle error) { error.attr("add_note")("perdure: " + what_was_done(answer)); });
  if (!statuses.empty() && (answer.ok() || answer.code() == Code::stopped)) {
    auto const done =
        std::find(statuses.begin(), statuses.end(), KeyStatus::not_tried) - statuses.begin();
    set([&](nb::handle error) { error.attr("operations_done") = static_cast<std::int64_t>(done); });
  }
  throw std::move(raised);
}

void raise_in_child(std::optional<nb::python_error>& raised) {
  if (raised) throw std::move(*raised);
  throw StatusError({Code::closed,
                     "a signal handler forked this process while a store's call was under way in "
                     "its parent, where it "
                     "goes on; nothing of it is here"});
}

}  // namespace perdure::python
