// Watches a simulated run (fault/observer.hpp), and tells what it does to its words of durable
// memory to the two who want to know: who records what it writes, and who stands in for the medium
// that it recovers from. Invariant: every change of a word is kept in the arena, so that it can be
// undone.
#pragma once

#include "explore/crashed_medium.hpp"
#include "explore/recorder.hpp"
#include "explore/sim_arena.hpp"
#include "fault/observer.hpp"

namespace perdure::explore {

class Tracker final : public fault::Observer {
 public:
  Tracker(Arena& a, Model model) : recorder(a, model), crashed(a), arena_(&a) {}

  void will_read(void const* at, std::size_t bytes) override;
  void wrote(void const* at, std::size_t bytes) override;
  void flush(void const* at, std::size_t bytes) override { recorder.flush(at, bytes); }
  void fence() override { recorder.fence(); }
  void order() override;
  /// An ordering point of a thread of a run orders what that thread wrote, and no more.
  void threads_order(bool on) { threads_order_ = on; }

  Recorder recorder;
  CrashedMedium crashed;

 private:
  Arena* arena_;
  bool threads_order_ = false;
};

}  // namespace perdure::explore
