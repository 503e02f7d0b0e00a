// Who watches a simulated run. The simulated warp reports what it does, and so does host code
// through pm/host_verbs.hpp; nobody else does. One observer a thread, none most of the time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure::fault {

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void will_read(void const* at, std::size_t bytes) = 0;  // may change what stands there
  virtual void will_write(void const*, std::size_t) {}  // for those who keep what was there
  virtual void wrote(void const* at, std::size_t bytes) = 0;
  virtual void flush(void const*, std::size_t) {
  }  // lines are on their way; they are there after the next fence
  virtual void fence() = 0;  // by the running warp, or by host code where none runs
  virtual void order() = 0;  // by host code: all that was written before is there after a crash
  // For those whose medium keeps what the host wrote back, or synced, and nothing else.
  virtual void writes_back(void const*, std::size_t) {
  }  // by host code: it is there from its next order() on
  virtual void will_write_file(int, std::uint64_t, void const*, std::size_t) {
  }  // the place, and what it will hold
  virtual void synced(int) {}  // by host code: what the file holds is there after a crash
};

inline thread_local Observer* observer = nullptr;

}  // namespace perdure::fault
