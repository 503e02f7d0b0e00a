#include "clevel_table.hpp"

#include "pm/host_verbs.hpp"

namespace perdure::baselines::clevel {

Table::Table(Arena& arena) : arena_(&arena) {
  view_.context = Arena::word_at(Arena::kRoot);
  view_.key_bytes = arena.header().key_bytes;
}

std::uint64_t Table::slots() const {
  std::uint64_t slots = 0;
  for (std::uint32_t k = context_.bottom; k <= context_.top; ++k)
    slots += std::uint64_t{kSlots} << k;
  return slots;
}

void Table::set_shared(std::uint64_t word) {
  Context const next = Context::of(word);
  growths_ += next.top - context_.top;
  context_ = next;
}

Status Table::add_level(std::uint32_t number) {
  if (number >= kMaxLevels)
    return {Code::no_space, "Clevel has no level beyond " + std::to_string(kMaxLevels - 1)};
  auto const run = arena_->add(Use::level, number, kBucketBytes << number);
  if (!run) return run.status();
  view_.level[number] = run.value().at;
  view_.most = number;
  return {};
}

/// Two levels that are 80 % full with so many records: Clevel's load factor reaches 85 % (figure
/// 7).
Status Table::create(std::uint64_t expected_records) {
  Context first{0, 1};
  while ((std::uint64_t{kSlots} << first.bottom) * 3 * 4 < expected_records * 5) {
    ++first.bottom;
    ++first.top;
  }
  if (Status s = add_level(first.bottom); !s.ok()) return s;
  if (Status s = add_level(first.top); !s.ok()) return s;
  arena_->set_word(Arena::kRoot, first.as_word());
  context_ = first;
  return {};
}

Status Table::more_room() { return add_level(view_.most + 1); }

void Table::drop_bottom() {
  Offset const emptied = view_.level[context_.bottom];
  ++context_.bottom;
  arena_->set_word(Arena::kRoot, context_.as_word());
  arena_->drop(emptied);
}

/// From the top down, so that of an item that a crash left in two levels the lower copy goes.
Result<std::uint64_t> Table::recover(Records& records) {
  context_ = Context::of(arena_->word(Arena::kRoot));
  for (Run const& run : arena_->runs_of(Use::level)) {
    bool const live = run.number >= context_.bottom && run.number <= context_.top;
    live ? void(view_.level[run.number] = run.at) : arena_->drop(run.at);
  }
  view_.most = context_.top;
  std::uint64_t found = 0;
  for (std::uint32_t k = context_.top + 1; k-- > context_.bottom;) {
    if (k >= kMaxLevels || !view_.level[k])
      return Status{Code::corrupt, "the context names a level that is not there"};
    for (std::uint64_t s = 0; s < std::uint64_t{kSlots} << k; ++s) {
      std::byte* const slot = arena_->base() + view_.level[k].bytes + 8 * s;
      std::uint64_t const item = pm::load_word(slot);
      if (item == word::kEmpty) continue;
      records.mark(word::place(item))
          ? void(++found)
          : pm::store_word(reinterpret_cast<std::uint64_t*>(slot), word::kEmpty);
    }
  }
  pm::order();
  return found;
}

}  // namespace perdure::baselines::clevel
