// Threads that a simulation runs in place of real ones: who would wait for another in one of the
// base's locks lets it go on instead, and says what it locks, so that the simulation knows whose
// writes come first. One of it a real thread, none most of the time. Invariant: no thread of a
// simulation ever sleeps.
#pragma once

namespace perdure::fault {

class SimulatedThreads {
 public:
  SimulatedThreads() = default;
  SimulatedThreads(SimulatedThreads const&) = delete;
  SimulatedThreads& operator=(SimulatedThreads const&) = delete;
  virtual ~SimulatedThreads() = default;

  /// The running one waits for another.
  virtual void give_way() = 0;
  /// It is about to lock something, has locked it, and is about to release it.
  virtual void locks() = 0;
  virtual void locked(void const* lock) = 0;
  virtual void unlocks(void const* lock) = 0;
};

inline thread_local SimulatedThreads* simulated_threads = nullptr;

inline bool simulated() { return simulated_threads != nullptr; }
inline void give_way() { simulated_threads->give_way(); }
inline void locks() {
  if (simulated()) simulated_threads->locks();
}
inline void locked(void const* lock) {
  if (simulated()) simulated_threads->locked(lock);
}
inline void unlocks(void const* lock) {
  if (simulated()) simulated_threads->unlocks(lock);
}

}  // namespace perdure::fault
