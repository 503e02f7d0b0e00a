#include "store/gphash/read.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "batch/pieces.hpp"
#include "store/checks.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/gphash/reading.hpp"
#include "store/gphash/side.hpp"

namespace perdure {
namespace {}  // namespace

Status GphashStore::read(Call const& call, std::span<KeyStatus> statuses, CallOptions const& how) {
  return reading(token_of(how), [&]() -> Status {
    if (Status s = check_batch(path, core_.pool.header(), call, statuses); !s.ok()) return s;
    return in_pieces(
        call, statuses, how.stop,
        [&](Call const& piece, auto of_piece) { return reader_.get(piece, of_piece); },
        [](Status const&) { return false; });
  });
}

Result<VariableValues> GphashStore::read_variable(Call const& call, std::span<KeyStatus> statuses,
                                                  CallOptions const& how) {
  return reading(token_of(how), [&]() -> Result<VariableValues> {
    if (Status s = check_batch(path, core_.pool.header(), call, statuses); !s.ok()) return s;
    VariableValues all;
    Status const s = in_pieces(
        call, statuses, how.stop,
        [&](Call const& piece, auto of_piece) {
          auto some = reader_.get_variable(piece, of_piece);
          if (some) append(all, std::move(*some));
          return some.status();
        },
        [](Status const&) { return false; });
    if (!s.ok()) return s;
    return all;
  });
}

Result<ScanPage> GphashStore::scan(ScanCursor const& from, std::size_t limit,
                                   std::atomic<bool> const* stop) {
  return reading(nullptr, [&] { return reader_.scan(from, limit, stop); });
}

Status BatchReader::get(Call const& call, std::span<KeyStatus> statuses) {
  if (call.out.data == nullptr && call.keys.count > 0)
    return bad_argument("the output array is null");
  if (call.keys.count == 0) return {};
  std::vector<std::uint8_t> first;  // of fixed sizes none can be too large: all are pending
  if (call.keys.offsets != nullptr) {
    auto found = first_statuses(core_.pool.header(), call);
    if (!found) return found.status();
    first = std::move(*found);
  }
  Status const s = shared_.takes(call)
                       ? shared_.get(call, first, statuses)
                       : get_by(*core_.engine, core_.sessions, call, first, statuses);
  return core_.of_batch(s, call.keys.count);
}

Result<VariableValues> BatchReader::get_variable(Call const& call, std::span<KeyStatus> statuses) {
  if (call.keys.count == 0) return VariableValues{{0}, {}};
  auto first = first_statuses(core_.pool.header(), call);
  if (!first) return first.status();
  auto taken = core_.sessions.take(*core_.engine);
  if (!taken) return taken.status();
  Session& session = **taken;
  VariableValues values;
  auto const run = [&]() -> Status {
    if (Status s = session.upload(call, *first); !s.ok()) return s;
    auto got = session.get_variable();
    if (!got) return got.status();
    PERDURE_ASSERT(got->offsets.size() == call.keys.count + 1);
    values = std::move(*got);
    if (Status s = answer(session, statuses); !s.ok()) return s;
    return session.finish();
  };
  Status const done = run();
  core_.sessions.give(std::move(*taken));
  if (!done.ok()) return core_.of_batch(done, call.keys.count);
  return values;
}

Result<ScanPage> BatchReader::scan(ScanCursor const& from, std::size_t limit,
                                   std::atomic<bool> const* stop) {
  gphash::Table& table = core_.table;
  if (from.generation != 0 && from.generation != core_.generation) {
    return Status{
        Code::busy,
        "pool " + core_.path +
            ": keys moved during this scan (the table grew, or made room); start it again"};
  }
  if (Status s = core_.show_words(); !s.ok()) return s;
  ScanPage page;
  page.keys.offsets.push_back(0);
  page.values.offsets.push_back(0);
  auto const append = [](VariableValues& to, std::span<std::byte const> bytes) {
    to.data.insert(to.data.end(), bytes.begin(), bytes.end());
    to.offsets.push_back(static_cast<std::int64_t>(to.data.size()));
  };
  std::uint64_t at = from.slot;
  for (std::size_t found = 0; at < table.slots() && found < limit; ++at) {
    if (at % kPieceOperations == 0 && stopped(stop)) return look_stopped(core_.path, "scan");
    auto const entry = table.entry(at);
    if (!entry || !entry->readable) continue;
    if (core_.options.verify_reads && !table.intact(*entry))
      return Status{Code::corrupt,
                    "pool " + core_.path + ": the scan met a damaged record (" + table.name(at) +
                        ": record's checksum does not match); run verify, which names all that is "
                        "damaged, and restore a snapshot, or scan with verify_reads off"};
    append(page.keys, entry->key);
    append(page.values, entry->value);
    ++found;
  }
  PERDURE_ASSERT(page.keys.offsets.size() == page.values.offsets.size());
  PERDURE_ASSERT(page.keys.offsets.size() <= limit + 1 || limit == ~std::size_t{0});
  page.next = {at, core_.generation, at >= table.slots()};
  return page;
}

}  // namespace perdure
