// Values as a reader gets them: copied where they are small, else where the memtable has them.
//
// Invariant: a memtable stays as long as a value of it is pinned; those of one call keep it
// together, for each by itself would make all threads count on one word.
#pragma once

#include <rocksdb/slice.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lsm/entry.hpp"
#include "lsm/rocks/view.hpp"

namespace perdure::lsm {

class ValuePins {
 public:
  /// Of values in the view's memtables; those of up to so many bytes are copied.
  ValuePins(ViewPtr view, std::uint64_t copied) : view_(std::move(view)), copied_(copied) {}
  ValuePins(ValuePins const&) = delete;
  ValuePins& operator=(ValuePins const&) = delete;
  ~ValuePins() {
    if (held_ != nullptr) release(held_, nullptr);
  }

  void pin(Answer const& found, rocksdb::PinnableSlice* value);

 private:
  struct Held {
    ViewPtr view;
    std::atomic<std::size_t> holders = 1;  // values, and the call
  };
  static void release(void* held, void*);

  ViewPtr const view_;
  std::uint64_t const copied_;
  Held* held_ = nullptr;
};

}  // namespace perdure::lsm
