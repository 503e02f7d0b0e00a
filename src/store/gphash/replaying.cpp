// Cells of the log of entries, put into the table. In one batch, as a rule. A batch decides one key
// of those of one hash in a pass, the first that waits, so such keys may be too many for its
// passes, or one that finds no room stands before the one that would leave it. Anybody can make
// keys of more than 8 bytes that agree in their hash: so what a batch could not do is done in two
// steps, neither of which can fail for them. All keys that the cells name are taken out; then those
// are put that are there afterwards, of which the table had room for all.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "pm/host_verbs.hpp"
#include "store/gphash/write.hpp"

namespace perdure {
namespace {

/// No more than a batch has passes, so that each of them has its turn.
constexpr std::uint64_t kFewCells = kMostPasses / 2;

/// Some of them, side by side.
struct SomeCells {
  CellsToReplay cells;
  std::vector<std::uint32_t> heads;

  SomeCells(CellsToReplay const& of, std::uint64_t begin, std::uint64_t n) : cells(of) {
    cells.region.first += begin;
    cells.count = n;
    auto const first = std::ranges::lower_bound(of.heads, begin);
    for (auto head = first; head != of.heads.end() && *head < begin + n; ++head)
      heads.push_back(static_cast<std::uint32_t>(*head - begin));
    cells.heads = heads;
  }
};

}  // namespace

Status BatchWriter::replay(CellsToReplay const& cells) {
  Status const done = replay_at_once(cells);
  // Entries of keys of more than 8 bytes are as large as a head, so each can be passed over alone.
  bool const keys_may_agree =
      !core_.pool.header().logs_hashes() && wal::head_cells_of(cells.region.cell_bytes) == 1;
  if (done.code() != Code::no_space || !keys_may_agree) return done;
  CellsToReplay out = cells;
  out.takes_out = true;
  if (Status s = take_out(out); !s.ok()) return s;
  return put_what_stays(cells);
}

Status BatchWriter::replay_at_once(CellsToReplay const& cells) {
  Call call;
  call.keys.count = cells.count;
  WriteBatch batch(call, {});
  batch.replays = true;
  core_.health.changing = true;
  auto session = core_.sessions.take(*core_.engine);
  if (!session) return session.status();
  batch.session = std::move(*session);
  if (Status s = batch.session->replay(cells); !s.ok()) return core_.of_batch(s, cells.count);
  if (Status s = passes(batch); !s.ok()) return s;
  if (batch.full) return table_is_full(batch);
  if (Status s = batch.session->finish(); !s.ok()) return s;
  core_.sessions.give(std::move(batch.session));
  core_.health.changing = false;
  return {};
}

Status BatchWriter::take_out(CellsToReplay const& cells) {
  PERDURE_ASSERT(cells.takes_out);
  Status const done = replay_at_once(cells);
  if (done.code() != Code::no_space || cells.count <= kFewCells) return done;
  std::uint64_t const half = cells.count / 2;
  if (Status s = take_out(SomeCells(cells, 0, half).cells); !s.ok()) return s;
  return take_out(SomeCells(cells, half, cells.count - half).cells);
}

std::byte const* BatchWriter::cell_of(CellsToReplay const& cells, std::uint64_t number) const {
  wal::EntryRegion const& region = cells.region;
  std::uint64_t const at = region.first + number;
  return core_.pool.base() + wal::cell_in(cells.segments[at / region.cells_each],
                                          at % region.cells_each, region.cell_bytes)
                                 .bytes;
}

/// The last cell of each key, where it puts one: the others are passed over as heads are.
Status BatchWriter::put_what_stays(CellsToReplay const& cells) {
  std::uint32_t const key_bytes = core_.pool.header().key_bytes;
  std::vector<bool> passed(cells.count);
  for (std::uint32_t const head : cells.heads) passed[head] = true;
  std::vector<std::uint32_t> saying;
  for (std::uint32_t i = 0; i < cells.count; ++i) {
    wal::LogEntry entry;
    pm::read_bytes(&entry, cell_of(cells, i), sizeof entry);
    if (!passed[i] && entry.what != 0) saying.push_back(i);
    passed[i] = true;
  }
  auto const key_at = [&](std::uint32_t i) {
    std::byte const* const cell = cell_of(cells, i);
    std::string key(key_bytes, 0);
    constexpr std::uint32_t kFirst = sizeof(wal::LogEntry::key);
    std::memcpy(key.data(), cell, kFirst);
    std::memcpy(key.data() + kFirst, cell + sizeof(wal::LogEntry), key_bytes - kFirst);
    return key;
  };
  std::ranges::stable_sort(saying, {}, key_at);
  for (std::size_t k = 0; k < saying.size(); ++k) {
    bool const last = k + 1 == saying.size() || key_at(saying[k]) != key_at(saying[k + 1]);
    wal::LogEntry entry;
    pm::read_bytes(&entry, cell_of(cells, saying[k]), sizeof entry);
    if (last && wal::says_put(entry.what)) passed[saying[k]] = false;
  }
  std::vector<std::uint32_t> heads;
  for (std::uint32_t i = 0; i < cells.count; ++i)
    if (passed[i]) heads.push_back(i);
  CellsToReplay stay = cells;
  stay.heads = heads;
  return replay_at_once(stay);
}

}  // namespace perdure
