// Entries that do not add up to their extent's sum: which bits have flipped, and what stays where
// nobody can tell.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "pm/host_verbs.hpp"
#include "wal/entry_damage.hpp"

namespace perdure::wal {
namespace {

constexpr std::uint64_t kCellsAtOnce = 1u << 10;  // that a worker takes
constexpr std::uint64_t kMostPairs = 1u << 30;  // of bits, of which every two in a cell are tried
constexpr std::uint64_t kMostBits = 1u << 24;  // of which every two are tried, in 256 MiB of memory

using Cell = std::array<std::byte, cell_bytes_for(kMostEntryKey)>;

void flip_bit(Cell& cell, std::uint32_t bit) {
  cell[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
}

}  // namespace

std::uint64_t EntryDamage::sum_of_entries(EntryExtent const& extent) const {
  std::atomic<std::uint64_t> sum{0};
  workers_->for_chunks(extent.entries, kCellsAtOnce, [&](std::size_t begin, std::size_t end) {
    sum += cells_.sum_of_cells(extent, begin, end);
  });
  return sum;
}

bool EntryDamage::is_whole(EntryExtent const& extent) const {
  return EntryCells::is_borne_out(extent, [&] { return sum_of_entries(extent.saying()); });
}

std::string EntryDamage::named(std::vector<Flip> const& flips) {
  std::string which;
  for (Flip const& one : flips)
    which += (which.empty() ? "" : ", ") +
             ("bit " + std::to_string(one.bit) + " of entry " + std::to_string(one.cell));
  return which;
}

void EntryDamage::mend_entries(EntryExtent const& extent) {
  EntryExtent const said = extent.saying();
  Offset const head = cells_.offset(extent.first - cells_.head_cells());
  std::string const where = "batch " + std::to_string(extent.number) +
                            " of the log of entries, at byte " + std::to_string(head.bytes);
  if (extent.kind != ExtentKind::commit) {
    if (auto const flips = explained({said, extent.sum - sum_of_entries(said)})) {
      put_flips(extent, *flips);
      return say(where + ": " + named(*flips) + " had changed, put right");
    }
  }
  lossy_ = true;
  std::uint64_t const before = dropped_;
  ExtentHead mended{extent.number, static_cast<std::uint32_t>(extent.entries),
                    static_cast<std::uint32_t>(extent.kind), keep_what_is_sure(said, true), 0};
  put_head(extent.first - cells_.head_cells(), mended);
  say(where + ": of its " + std::to_string(said.entries) + " entries some are damaged, and " +
      std::to_string(dropped_ - before) +
      " that nothing else vouches for were dropped: their keys are gone, and others may have "
      "older values");
}

/// Of the session that waits for this end, which says what its entries came to.
void EntryDamage::mend_session(EntryExtent const& end) {
  EntryExtent const& session = *session_;
  std::uint64_t const missing = end.sum - sum_of_entries(session);
  if (missing == 0) return;
  std::string const where = "the device session of batch " + std::to_string(session.number) +
                            " of the log of entries, at byte " +
                            std::to_string(cells_.offset(session.first).bytes);
  if (auto const flips = explained({session, missing})) {
    put_flips(session, *flips);
    return say(where + ": " + named(*flips) + " had changed, put right");
  }
  lossy_ = true;
  std::uint64_t const before = dropped_;
  put_head(end.first - cells_.head_cells(), {end.number, 0, static_cast<std::uint32_t>(end.kind),
                                             keep_what_is_sure(session, true), 0});
  say(where + ": some of its entries are damaged, and " + std::to_string(dropped_ - before) +
      " that nothing else vouches for were dropped: their keys are gone, and others may have "
      "older values");
}

// ------------------------------------------------------------------------------------------------
// Which bits

/// The one or two that make the sum right, if nothing else does.
std::optional<std::vector<EntryDamage::Flip>> EntryDamage::explained(Sum const& sum) const {
  PERDURE_ASSERT(sum.missing != 0);
  auto found = one_flip(sum);
  if (found.empty()) found = two_in_a_cell(sum);
  if (found.empty()) found = two_in_two_cells(sum);
  if (found.size() != 1) return std::nullopt;
  return std::move(found.front());
}

namespace {

/// Calls f(number, cell, its sum) for each of an extent's entries, side by side.
template <class F>
void each_cell(EntryCells const& cells, EntryExtent const& extent, exec::Workers& workers, F f) {
  workers.for_chunks(extent.entries, kCellsAtOnce, [&](std::size_t begin, std::size_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      Cell cell{};
      cells.copy(extent, i, std::span(cell).first(cells.cell_bytes()));
      f(i, cell, sum_of(cell.data(), cells.cell_bytes()));
    }
  });
}

}  // namespace

std::vector<std::vector<EntryDamage::Flip>> EntryDamage::one_flip(Sum const& sum) const {
  std::uint32_t const bytes = cells_.cell_bytes();
  std::mutex mutex;
  std::vector<std::vector<Flip>> found;
  each_cell(cells_, sum.extent, *workers_, [&](std::uint64_t i, Cell cell, std::uint64_t is) {
    for (std::uint32_t bit = 0; bit < 8 * bytes; ++bit) {
      flip_bit(cell, bit);
      if (sum_of(cell.data(), bytes) - is == sum.missing) {
        std::lock_guard const lock(mutex);
        found.push_back({{i, bit}});
      }
      flip_bit(cell, bit);
    }
  });
  return found;
}

std::vector<std::vector<EntryDamage::Flip>> EntryDamage::two_in_a_cell(Sum const& sum) const {
  std::uint32_t const bytes = cells_.cell_bytes(), bits = 8 * bytes;
  if (sum.extent.entries > kMostPairs / (std::uint64_t{bits} * bits / 2)) return {};
  std::mutex mutex;
  std::vector<std::vector<Flip>> found;
  each_cell(cells_, sum.extent, *workers_, [&](std::uint64_t i, Cell cell, std::uint64_t is) {
    for (std::uint32_t a = 0; a < bits; ++a) {
      flip_bit(cell, a);
      for (std::uint32_t b = a + 1; b < bits; ++b) {
        flip_bit(cell, b);
        if (sum_of(cell.data(), bytes) - is == sum.missing) {
          std::lock_guard const lock(mutex);
          found.push_back({{i, a}, {i, b}});
        }
        flip_bit(cell, b);
      }
      flip_bit(cell, a);
    }
  });
  return found;
}

/// What each bit by itself adds is sorted, and each is looked for that adds the rest.
std::vector<std::vector<EntryDamage::Flip>> EntryDamage::two_in_two_cells(Sum const& sum) const {
  std::uint32_t const bytes = cells_.cell_bytes(), bits = 8 * bytes;
  if (sum.extent.entries > kMostBits / bits) return {};
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> adds;  // what, and which bit of all
  adds.reserve(sum.extent.entries * bits);
  each_cell(cells_, sum.extent, *workers_, [&](std::uint64_t i, Cell cell, std::uint64_t is) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> mine;
    for (std::uint32_t bit = 0; bit < bits; ++bit) {
      flip_bit(cell, bit);
      std::uint64_t const added = sum_of(cell.data(), bytes) - is;
      if (added != 0) mine.emplace_back(added, i * bits + bit);
      flip_bit(cell, bit);
    }
    std::lock_guard const lock(mutex);
    adds.insert(adds.end(), mine.begin(), mine.end());
  });
  std::ranges::sort(adds);
  std::vector<std::vector<Flip>> found;
  for (auto const& [added, a] : adds) {
    std::uint64_t const rest = sum.missing - added;
    for (auto at = std::ranges::lower_bound(adds, std::pair{rest, std::uint64_t{0}});
         at != adds.end() && at->first == rest; ++at) {
      std::uint64_t const b = at->second;
      if (a / bits >= b / bits) continue;  // each pair once
      found.push_back({{a / bits, static_cast<std::uint32_t>(a % bits)},
                       {b / bits, static_cast<std::uint32_t>(b % bits)}});
    }
  }
  return found;
}

void EntryDamage::put_flips(EntryExtent const& extent, std::vector<Flip> const& flips) {
  constexpr std::uint32_t kWordBits = 64;
  std::map<std::uint64_t, std::uint64_t> words;
  for (Flip const& flip : flips) {
    std::uint64_t const at =
        cells_.offset(extent.first + flip.cell).bytes + flip.bit / kWordBits * 8;
    auto const [word, first] = words.try_emplace(at, 0);
    if (first) word->second = pm::load_word(pool_->base() + at);
    word->second ^= std::uint64_t{1} << flip.bit % kWordBits;
  }
  for (auto const& [at, word] : words) put_word(at, word);
}

// ------------------------------------------------------------------------------------------------
// What stays

/// LogEntry::what of an entry that must not stay as it is. Of an undoable commit it becomes one
/// that what undoes its parts does not add up to.
std::optional<std::uint64_t> EntryDamage::instead(std::byte const* cell, bool sure) const {
  LogEntry entry;
  std::memcpy(&entry, cell, sizeof entry);
  if (entry.what == 0 || entry.what == kErases) return std::nullopt;
  if (!says_put(entry.what)) return sure ? kErases : 0;
  Word const word = judge_(cell);
  if (word == Word::kept) return std::nullopt;
  if (!sure && word == Word::nonsense) return 0;
  if (!pool_->header().logs_hashes()) return kErases;
  HashCell hashed;
  std::memcpy(&hashed, cell, sizeof hashed);
  return hashed.old != 0 ? kErases : 0;  // what it replaced goes
}

std::uint64_t EntryDamage::keep_what_is_sure(EntryExtent const& extent, bool sure) {
  std::mutex mutex;
  std::atomic<std::uint64_t> sum{0};
  std::vector<Change> changes;
  each_cell(cells_, extent, *workers_, [&](std::uint64_t i, Cell cell, std::uint64_t is) {
    auto const what = instead(cell.data(), sure);
    if (what) {
      std::memcpy(&cell[offsetof(LogEntry, what)], &*what, sizeof *what);
      is = sum_of(cell.data(), cells_.cell_bytes());
      std::lock_guard const lock(mutex);
      changes.push_back({cells_.offset(extent.first + i) + offsetof(LogEntry, what), *what});
    }
    sum += is;
  });
  dropped_ += changes.size();
  changes_.insert(changes_.end(), changes.begin(), changes.end());
  return sum;
}

}  // namespace perdure::wal
