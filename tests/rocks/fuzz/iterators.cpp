// Actions of iterators: short scans, and iterators that stay open while others write.
#include "rocks/fuzz/actions.hpp"

namespace perdure::test {
namespace {

constexpr std::size_t kMostIterators = 8;

void tell(rocksdb::Iterator const& it, Transcript& said) {
  said.number(it.Valid());
  if (it.Valid()) {
    said.entry(it.key(), it.value());
  } else {
    said.status(it.status()).line();
  }
}

std::unique_ptr<OpenIterator> draw_iterator(Side const& side, Draws& draws) {
  auto open = std::make_unique<OpenIterator>();
  std::size_t const family = open->family = side.draw_family(draws);
  rocksdb::ReadOptions options;
  options.snapshot = open->snapshot = draw_snapshot(side, draws);
  open->can_refresh = options.snapshot == nullptr;
  std::tie(open->lower, open->upper) = side.keys().range(draws);
  open->lower_slice = open->lower;
  open->upper_slice = open->upper;
  std::uint64_t const bounds = draws.below(6);
  if (bounds == 0 || bounds == 1) options.iterate_lower_bound = &open->lower_slice;
  if (bounds == 1 || bounds == 2) options.iterate_upper_bound = &open->upper_slice;
  // Outside of its prefix, what a prefix iterator finds is nobody's promise.
  open->within_prefix = family == kAppends && bounds == 3;
  options.prefix_same_as_start = open->within_prefix;
  options.auto_prefix_mode = !open->within_prefix && draws.once_in(4);
  options.total_order_seek = !open->within_prefix && !options.auto_prefix_mode;
  options.pin_data = draws.once_in(8);
  options.readahead_size = draws.once_in(8) ? 64u << 10 : 0;
  open->iterator.reset(side.db()->NewIterator(options, side.family(family)));
  return open;
}

void move_within_prefix(OpenIterator& open, Side const& side, Draws& draws, Transcript& said) {
  open.iterator->Seek(side.draw_key(draws));
  tell(*open.iterator, said);
  for (std::size_t i = draws.below(20); i > 0 && open.iterator->Valid(); --i) {
    open.iterator->Next();
    tell(*open.iterator, said);
  }
}

void move(OpenIterator& open, Side const& side, Draws& draws, Transcript& said) {
  if (open.within_prefix) return move_within_prefix(open, side, draws, said);
  rocksdb::Iterator& it = *open.iterator;
  for (std::size_t rounds = 1 + draws.below(3); rounds > 0; --rounds) {
    switch (draws.below(6)) {
      case 0: it.SeekToFirst(); break;
      case 1: it.SeekToLast(); break;
      case 2: it.SeekForPrev(side.draw_key(draws)); break;
      case 3: break;  // from where it stands
      default: it.Seek(side.draw_key(draws));
    }
    tell(it, said);
    std::uint64_t const back = draws.below(4);  // of 3 steps
    for (std::size_t i = draws.below(draws.once_in(5) ? 100 : 12); i > 0 && it.Valid(); --i) {
      if (draws.below(3) < back)
        it.Prev();
      else
        it.Next();
      tell(it, said);
    }
  }
}

}  // namespace

void scan(Side& side, Draws& draws, Transcript& said) {
  auto const open = draw_iterator(side, draws);
  move(*open, side, draws, said);
}

/// All families as of one moment.
void scan_families(Side& side, Draws& draws, Transcript& said) {
  Handles families;
  for (auto* handle : side.handles())
    if (handle != nullptr) families.push_back(handle);
  rocksdb::ReadOptions options;
  options.snapshot = draw_snapshot(side, draws);
  options.total_order_seek = true;
  std::vector<rocksdb::Iterator*> iterators;
  said.status(side.db()->NewIterators(options, families, &iterators));
  said.number(iterators.size());
  for (auto* it : iterators) {
    std::unique_ptr<rocksdb::Iterator> const owned(it);
    it->Seek(side.draw_key(draws));
    for (int i = 0; i < 10 && it->Valid(); ++i, it->Next()) tell(*it, said);
    said.status(it->status());
  }
}

void open_iterator(Side& side, Draws& draws, Transcript& said) {
  if (side.iterators.size() == kMostIterators) side.iterators.erase(side.iterators.begin());
  side.iterators.push_back(draw_iterator(side, draws));
  said.status(side.iterators.back()->iterator->status());
}

void use_iterator(Side& side, Draws& draws, Transcript& said) {
  if (side.iterators.empty()) return scan(side, draws, said);
  OpenIterator& open = *side.iterators[draws.below(side.iterators.size())];
  if (open.can_refresh && draws.once_in(8)) said.status(open.iterator->Refresh());
  move(open, side, draws, said);
}

void close_iterator(Side& side, Draws& draws, Transcript& said) {
  if (side.iterators.empty()) return;
  side.iterators.erase(side.iterators.begin() +
                       static_cast<std::ptrdiff_t>(draws.below(side.iterators.size())));
  said.number(side.iterators.size());
}

}  // namespace perdure::test
