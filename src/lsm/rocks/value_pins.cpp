#include "lsm/rocks/value_pins.hpp"

#include "lsm/rocks/merging.hpp"

namespace perdure::lsm {

using rocksdb::Slice;

void ValuePins::pin(Answer const& found, rocksdb::PinnableSlice* value) {
  if (found.inside)
    return value->PinSelf(Slice(reinterpret_cast<char const*>(&found.word), found.size));
  Slice const slice = slice_of(found.value());
  if (found.size <= copied_) return value->PinSelf(slice);
  if (held_ == nullptr) held_ = new Held{view_};
  held_->holders.fetch_add(1, std::memory_order_relaxed);
  value->PinSlice(slice, &ValuePins::release, held_, nullptr);
}

void ValuePins::release(void* held, void*) {
  auto* const mine = static_cast<Held*>(held);
  if (mine->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete mine;
}

}  // namespace perdure::lsm
