#include "store/threads/look.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "batch/pieces.hpp"

namespace perdure::threads {

void add_faults(Faults&& faults, VerifyReport& report) {
  report.fault_count += faults.count;
  report.faults.insert(report.faults.end(), std::make_move_iterator(faults.first.begin()),
                       std::make_move_iterator(faults.first.end()));
}

void look_at_all(exec::Workers& workers, std::size_t n, std::size_t each,
                 std::atomic<bool> const* stop, VerifyReport& report,
                 std::function<void(std::size_t, std::size_t, Faults&)> const& check) {
  std::mutex mutex;
  workers.for_chunks(n, each, [&](std::size_t first, std::size_t end) {
    if (stopped(stop)) return;
    Faults faults;
    check(first, end, faults);
    std::lock_guard const lock(mutex);
    report.records += faults.good;
    add_faults(std::move(faults), report);
  });
  std::sort(report.faults.begin(), report.faults.end());
}

void expect_count(std::uint64_t found, std::uint64_t counted, std::string const& what,
                  VerifyReport& report) {
  if (report.fault_count != 0 || found == counted) return;
  ++report.fault_count;
  report.faults.push_back("there are " + std::to_string(found) + " " + what + ", where " +
                          std::to_string(counted) + " were counted");
}

}  // namespace perdure::threads
