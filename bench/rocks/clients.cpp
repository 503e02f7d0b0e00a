#include "clients.hpp"

#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

namespace perdure::bench::rocks {
namespace {

using Clock = std::chrono::steady_clock;

/// The rounds of one run. All clients meet twice in each: before the calls and after them.
class Rounds {
 public:
  Rounds(Clients const& clients, double most_seconds)
      : clients_(clients),
        most_seconds_(most_seconds),
        barrier_(static_cast<std::ptrdiff_t>(clients.size()), AllMet{this}) {}

  double run() {
    {
      std::vector<std::jthread> threads;
      for (auto const& client : clients_) threads.emplace_back([this, &client] { work(*client); });
    }
    if (first_error_) std::rethrow_exception(first_error_);
    return seconds_;
  }

 private:
  struct AllMet {
    Rounds* rounds;
    void operator()() noexcept { rounds->turn(); }
  };

  void work(Client& client) {
    for (;;) {
      bool more = false;
      attempt([&] { more = client.prepare(); });
      if (more) ++active_;
      barrier_.arrive_and_wait();
      if (over_) return;
      attempt([&] {
        if (more) client.call();
      });
      barrier_.arrive_and_wait();
      attempt([&] {
        if (more) client.check();
      });
      if (time_is_up_) return;
    }
  }

  template <class Phase>
  void attempt(Phase const& phase) {
    try {
      phase();
    } catch (...) {
      std::lock_guard const lock(mutex_);
      if (!first_error_) first_error_ = std::current_exception();
      failed_ = true;
    }
  }

  void turn() {
    calling_ = !calling_;
    if (calling_) {
      over_ = active_ == 0 || failed_;
      active_ = 0;
      begin_ = Clock::now();
    } else {
      seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count();
      time_is_up_ = seconds_ >= most_seconds_;
    }
  }

  Clients const& clients_;
  double const most_seconds_;
  std::atomic<std::size_t> active_ = 0;  // clients with a round to come
  std::atomic<bool> failed_ = false;
  bool over_ = false;
  bool time_is_up_ = false;  // before the next round is prepared: what is prepared is called
  bool calling_ = false;
  Clock::time_point begin_;
  double seconds_ = 0;
  std::mutex mutex_;
  std::exception_ptr first_error_;
  std::barrier<AllMet> barrier_;
};

std::atomic<std::uint64_t> all_checked = 0;

}  // namespace

std::uint64_t answers_checked() { return all_checked; }

Measured run_clients(Clients const& clients, double most_seconds) {
  Measured measured;
  measured.seconds = Rounds(clients, most_seconds).run();
  for (auto const& client : clients) {
    measured.operations += client->operations();
    measured.latencies.add(client->latencies());
    all_checked += client->checked();
  }
  return measured;
}

}  // namespace perdure::bench::rocks
