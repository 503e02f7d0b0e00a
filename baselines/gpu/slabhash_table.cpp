#include "slabhash_table.hpp"

#include <algorithm>

#include "pm/host_verbs.hpp"

namespace perdure::baselines::slabhash {
namespace {

constexpr std::uint64_t kLeastSlabs = 1024;

std::uint64_t* word_at(Arena const& arena, Offset at) {
  return reinterpret_cast<std::uint64_t*>(arena.base() + at.bytes);
}
std::uint64_t load(Arena const& arena, Offset at) { return pm::load_word(arena.base() + at.bytes); }

bool inside(Run const& run, Offset at) {
  return at.bytes >= run.at.bytes && at.bytes < run.at.bytes + run.bytes;
}

}  // namespace

Status TableBase::create(std::uint64_t expected_records) {
  auto first = next_generation(expected_records);
  if (!first) return first.status();
  switch_to(*first);
  growths_ = 0;
  return {};
}

Result<View> TableBase::next_generation(std::uint64_t records) {
  View next = view_;
  while (crowded(records, next.log2_buckets)) ++next.log2_buckets;
  std::uint64_t const buckets = std::uint64_t{1} << next.log2_buckets;
  auto const generation = static_cast<std::uint32_t>(root_ + 1);
  auto run = arena_->add(Use::buckets, generation, buckets * kSlabBytes);
  if (!run) return run.status();
  next.buckets = run->at;
  next.epoch = arena_->word(Arena::kEpoch);  // not that of the batch to come
  // A list that has come to its k-th further slab holds k full ones, so these are enough to begin
  // with.
  if (Status s = add_slabs(next, generation, records / per_slab_); !s.ok()) {
    drop_others();
    return s;
  }
  return next;
}

Status TableBase::add_slabs(View& view, std::uint64_t generation, std::uint64_t slabs) {
  auto run = arena_->add(Use::slabs, static_cast<std::uint32_t>(generation),
                         std::max(slabs, kLeastSlabs) * kSlabBytes);
  if (!run) return run.status();
  view.slabs = run->at;
  view.slab_limit = run->bytes / kSlabBytes;
  if (generation == root_) shared_ = 0;
  return {};
}

void TableBase::switch_to(View const& next) {
  arena_->set_word(Arena::kRoot, ++root_ | std::uint64_t{next.log2_buckets} << 32);
  drop_others();
  view_.buckets = next.buckets;
  view_.log2_buckets = next.log2_buckets;
  view_.slabs = next.slabs;
  view_.slab_limit = next.slab_limit;
  ++growths_;
}

void TableBase::drop_others() {
  for (Run const& run : arena_->runs()) {
    if ((run.use == Use::buckets || run.use == Use::slabs) && run.number != root_)
      arena_->drop(run.at);
  }
}

Status TableBase::begin_batch(std::uint64_t operations) {
  view_.epoch = arena_->word(Arena::kEpoch) + 1;
  if (operations <= log_room_) return {};
  auto run = arena_->add(Use::log, 0, operations * sizeof(UndoEntry));
  if (!run) return run.status();
  if (log_room_ != 0) arena_->drop(view_.log);
  view_.log = run->at;
  log_room_ = run->bytes / sizeof(UndoEntry);
  return {};
}

void TableBase::commit() { arena_->set_word(Arena::kEpoch, view_.epoch); }

Result<std::uint64_t> TableBase::recover(Records& records) {
  root_ = arena_->word(Arena::kRoot) & 0xffffffff;
  view_.log2_buckets = static_cast<std::uint32_t>(arena_->word(Arena::kRoot) >> 32);
  drop_others();
  auto const buckets = arena_->runs_of(Use::buckets);
  if (root_ == 0 || buckets.size() != 1 || view_.log2_buckets > 32 ||
      buckets[0].bytes < kSlabBytes << view_.log2_buckets)
    return Status{Code::corrupt, "the root names no table"};
  view_.buckets = buckets[0].at;
  undo();
  return walk(records);
}

void TableBase::undo() {
  std::uint64_t const interrupted = arena_->word(Arena::kEpoch) + 1;
  for (Run const& run : arena_->runs_of(Use::log)) {
    for (std::uint64_t i = 0; i < run.bytes / sizeof(UndoEntry); ++i) {
      UndoEntry entry;
      pm::read_bytes(&entry, arena_->base() + run.at.bytes + i * sizeof entry, sizeof entry);
      bool const counts = entry.epoch == interrupted &&
                          entry.check == check_of(entry.pointer, entry.before, entry.epoch);
      if (counts) pm::store_word(word_at(*arena_, Offset{entry.pointer}), entry.before);
    }
    if (run.bytes / sizeof(UndoEntry) <= log_room_) continue;
    view_.log = run.at;
    log_room_ = run.bytes / sizeof(UndoEntry);
  }
  arena_->set_word(Arena::kEpoch,
                   interrupted);  // its entries are dead, those not used again as well
}

bool TableBase::holds_slab(Offset slab) const {
  if (slab.bytes % kSlabBytes != 0) return false;
  auto const slabs = arena_->runs_of(Use::slabs);
  return std::any_of(slabs.begin(), slabs.end(), [&](Run const& run) { return inside(run, slab); });
}

Result<std::uint64_t> TableBase::walk(Records& records) {
  std::uint64_t found = 0;
  Offset highest;
  for (std::uint64_t b = 0; b >> view_.log2_buckets == 0; ++b) {
    for (Offset slab = view_.buckets + b * kSlabBytes; slab;
         slab = Offset{load(*arena_, slab + 8 * kNext)}) {
      if (slab.bytes >= view_.buckets.bytes + (kSlabBytes << view_.log2_buckets) ||
          slab.bytes < view_.buckets.bytes) {
        if (!holds_slab(slab)) return Status{Code::corrupt, "a list leads out of its slabs"};
        highest = std::max(highest, slab, [](Offset a, Offset z) { return a.bytes < z.bytes; });
      }
      for (std::uint64_t s = 0; s < per_slab_; ++s) {
        Offset const pointer = slab + 8 * (pointers_at() + s);
        std::uint64_t const word = load(*arena_, pointer);
        if (word == word::kFree) continue;
        if (!records.mark(word::place(word)))
          return Status{Code::corrupt, "a slot leads to no record of its own"};
        ++found;
      }
    }
  }
  find_unused_slabs(highest);
  return found;
}

/// New slabs come from behind the last one that hangs in a list. What lies there may have been
/// written by a batch that never linked it.
void TableBase::find_unused_slabs(Offset highest) {
  for (Run const& run : arena_->runs_of(Use::slabs)) {
    if (highest && !inside(run, highest)) continue;
    view_.slabs = run.at;
    view_.slab_limit = run.bytes / kSlabBytes;
    shared_ = highest ? (highest.bytes - run.at.bytes) / kSlabBytes + 1 : 0;
  }
  pm::zero_bytes(arena_->base() + view_.slabs.bytes + shared_ * kSlabBytes,
                 (view_.slab_limit - shared_) * kSlabBytes);
  pm::order();
}

}  // namespace perdure::baselines::slabhash
