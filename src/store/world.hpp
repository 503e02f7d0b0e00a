// Who may run when in a store: readers side by side, a writer alone, in fair turns; and a transaction or a device
// session that has the store from its begin to its end, whichever threads call for it. Invariants:
//  1. Nobody else is in while somebody is alone. There is one writer at a time, and only the writer goes alone.
//  2. Nobody waits for ever: who wants to be alone goes before readers who come after it, and readers who waited while
//     somebody was alone come in before anybody is alone again.
//  3. Nothing here has a thread for its owner: what one thread took, another may let go of.
//  4. Calls inside what a holder holds keep out of each other's way by `inside_`; the holder changes under it alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace perdure::pm {
class Changes;
}

namespace perdure {

/// Numbers are never used again, as ids of threads are.
[[nodiscard]] std::uint64_t this_thread_number() noexcept;

class World {
 public:
  /// Whoever is alone changes the pool of this word; null: there is none any more.
  void announce(pm::Changes* changes) { changes_ = changes; }
  [[nodiscard]] bool announced() const { return changes_ != nullptr; }

  /// Keeps other writers out, and no reader.
  void begin_writing();
  void end_writing();
  /// For the writer.
  void enter_alone();
  void leave_alone();
  void enter_shared();
  void leave_shared();

  /// Who has the world alone hands it to a holder, known by a token: the address of something of its own.
  void hold(void const* token);
  /// The caller is inside alone.
  void hold_no_more();
  /// This thread began what is being held.
  [[nodiscard]] bool is_held_here() const { return thread_.load(std::memory_order_relaxed) == this_thread_number(); }
  /// True: the caller is the holder's, by its token or, without one, by its thread, and is in until it leaves.
  bool enter_inside(void const* token, bool alone);
  /// In for the holder, whoever it is; false: there is none.
  bool enter_as_holder();
  void leave_inside(bool alone) { alone ? inside_.unlock() : inside_.unlock_shared(); }

 private:
  std::mutex mutex_;  // guards the next seven
  std::condition_variable let_in_, empty_, may_write_;
  bool writing_ = false;
  bool alone_ = false, wants_alone_ = false;
  std::uint64_t readers_ = 0;  // who are in
  std::uint64_t waiting_ = 0;  // readers
  std::uint64_t turn_ = 0;     // how often somebody has been alone

  pm::Changes* changes_ = nullptr;  // for who is alone

  std::shared_mutex inside_;
  void const* token_ = nullptr;            // of the holder; guarded by inside_
  std::atomic<std::uint64_t> thread_{0};  // that began it; written under inside_
};

/// How a call got in: through the lock, inside what its holder holds, or, where it named one that is not the holder,
/// not.
enum class Way : std::uint8_t { none, lock, inside };

class WorldShared {
 public:
  explicit WorldShared(World& world, void const* token = nullptr) : world_(world) {
    way_ = world_.enter_inside(token, false) ? Way::inside : token != nullptr ? Way::none : Way::lock;
    if (way_ == Way::lock) world_.enter_shared();
  }
  WorldShared(WorldShared const&) = delete;
  WorldShared& operator=(WorldShared const&) = delete;
  ~WorldShared() {
    if (way_ == Way::lock) world_.leave_shared();
    if (way_ == Way::inside) world_.leave_inside(false);
  }
  [[nodiscard]] Way way() const { return way_; }

 private:
  World& world_;
  Way way_;
};

/// The writer; readers go on. For a snapshot, and the choice of what is cached.
class WorldWriter {
 public:
  explicit WorldWriter(World& world) : world_(world) { world_.begin_writing(); }
  WorldWriter(WorldWriter const&) = delete;
  WorldWriter& operator=(WorldWriter const&) = delete;
  ~WorldWriter() { world_.end_writing(); }

 private:
  World& world_;
};

/// The writer, alone; any thread may destroy it.
class WorldAlone {
 public:
  WorldAlone() = default;
  explicit WorldAlone(World& world, void const* token = nullptr) : world_(&world) {
    way_ = world.enter_inside(token, true) ? Way::inside : token != nullptr ? Way::none : Way::lock;
    if (way_ != Way::lock) return;
    world.begin_writing();
    world.enter_alone();
    alone_ = true;
  }
  WorldAlone(WorldAlone&& other) noexcept { *this = static_cast<WorldAlone&&>(other); }
  WorldAlone& operator=(WorldAlone&& other) noexcept {
    leave();
    world_ = other.world_;
    way_ = other.way_;
    alone_ = other.alone_;
    other.way_ = Way::none;
    return *this;
  }
  ~WorldAlone() { leave(); }

  /// Nothing is written to the world from here on. Writers go on waiting.
  void let_readers_in() {
    if (way_ == Way::lock && alone_) world_->leave_alone();
    alone_ = false;
  }
  /// Alone again.
  void keep_readers_out() {
    if (way_ == Way::lock && !alone_) world_->enter_alone();
    alone_ = way_ == Way::lock;
  }
  [[nodiscard]] Way way() const { return way_; }

 private:
  void leave() {
    if (way_ == Way::inside) world_->leave_inside(true);
    if (way_ == Way::lock) {
      let_readers_in();
      world_->end_writing();
    }
    way_ = Way::none;
  }

  World* world_ = nullptr;
  Way way_ = Way::none;
  bool alone_ = false;
};

}  // namespace perdure
