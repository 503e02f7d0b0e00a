#include "hetero_crew.hpp"

#include <algorithm>
#include <barrier>
#include <mutex>
#include <thread>

namespace perdure::bench::shared {
namespace {

constexpr std::size_t kMeanwhile = 256;  // keys between two looks whether the device has ended

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Thread {
 public:
  Thread(std::shared_ptr<hetero::Sides> const& sides, Member const& member, std::size_t number)
      : member_(member),
        caller_(require(member.table->caller(), "a caller")),
        values_(require(hetero::shared_words(sides, member.batch + kMeanwhile), "answers")),
        walk_(*member.pool, number * member.batch * 7) {}

  void run(double seconds) {
    auto const start = Clock::now();
    do {
      switch (member_.role) {
        case Role::host: here(); break;
        case Role::device: device(false); break;
        case Role::overlapped: device(true); break;
      }
      seconds_ = since(start);
    } while (seconds_ < seconds);
  }

  void add_to(Rates& rates) const {
    rates.host_mops += static_cast<double>(host_) / seconds_ * 1e-6;
    rates.device_mops += static_cast<double>(device_) / seconds_ * 1e-6;
    if (batches_ > 0) rates.wait_us += waited_ / static_cast<double>(batches_) * 1e6;
    if (member_.puts) return;
    check(last_, member_.batch, 0, rates);
    if (meanwhile_used_) check(meanwhile_, kMeanwhile, member_.batch, rates);
  }

 private:
  void here() {
    last_ = walk_.next(member_.batch);
    hetero::Keys const keys = walk_.keys(last_, member_.batch);
    if (member_.puts) {
      require(caller_->put_here(keys, walk_.values(last_, member_.batch)), "put");
    } else {
      caller_->get_here(keys, values_->all().first(member_.batch), member_.ahead);
    }
    host_ += member_.batch;
  }

  void device(bool overlapped) {
    last_ = walk_.next(member_.batch);
    hetero::Keys const keys = walk_.keys(last_, member_.batch);
    require(member_.puts
                ? caller_->begin_put(keys, walk_.values(last_, member_.batch))
                : caller_->begin_get(member_.copy, keys, values_->all().first(member_.batch)),
            "a batch for the device");
    auto const start = Clock::now();
    while (overlapped && !require(caller_->done(), "asking the device")) {
      meanwhile_ = walk_.next(kMeanwhile);
      meanwhile_used_ = true;
      caller_->get_here(walk_.keys(meanwhile_, kMeanwhile),
                        values_->all().subspan(member_.batch, kMeanwhile), member_.ahead);
      host_ += kMeanwhile;
    }
    require(caller_->wait(), "the device's batch");
    waited_ += since(start);
    ++batches_;
    device_ += member_.batch;
  }

  void check(std::size_t at, std::size_t n, std::size_t answers, Rates& rates) const {
    hetero::Keys const keys = walk_.keys(at, n);
    for (std::size_t i = 0; i < n; ++i)
      rates.faults += right(keys[i], values_->all()[answers + i]) ? 0 : 1;
    rates.checked += n;
  }

  Member member_;
  std::unique_ptr<hetero::Caller> caller_;
  std::unique_ptr<hetero::Words> values_;
  Walk walk_;
  std::size_t last_ = 0, meanwhile_ = 0;
  bool meanwhile_used_ = false;
  std::uint64_t host_ = 0, device_ = 0, batches_ = 0;
  double waited_ = 0, seconds_ = 0;
};

}  // namespace

Rates run_crew(std::shared_ptr<hetero::Sides> const& sides, std::vector<Member> const& members,
               double seconds) {
  std::vector<std::unique_ptr<Thread>> crew;
  for (std::size_t i = 0; i < members.size(); ++i)
    crew.push_back(std::make_unique<Thread>(sides, members[i], i));
  std::barrier begin(static_cast<std::ptrdiff_t>(crew.size()));
  std::mutex mutex;
  std::exception_ptr failed;
  {
    std::vector<std::jthread> threads;
    for (auto const& one : crew) {
      threads.emplace_back([&begin, &mutex, &failed, seconds, thread = one.get()] {
        begin.arrive_and_wait();
        try {
          thread->run(seconds);
        } catch (...) {
          std::lock_guard const lock(mutex);
          failed = std::current_exception();
        }
      });
    }
  }
  if (failed) std::rethrow_exception(failed);
  Rates rates;
  for (auto const& one : crew) one->add_to(rates);
  auto const handing = std::count_if(members.begin(), members.end(),
                                     [](Member const& m) { return m.role != Role::host; });
  if (handing > 0) rates.wait_us /= static_cast<double>(handing);
  return rates;
}

}  // namespace perdure::bench::shared
