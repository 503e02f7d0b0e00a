// How a store of a Dash index comes to be: a new pool, one that is there, one that a snapshot makes
// anew. Invariant: opening looks at no record, unless it was asked to repair; which blocks and
// records are free the sweeper finds out (dash_sweeper.hpp).
#include <bit>
#include <chrono>
#include <string_view>

#include "base/assert.hpp"
#include "index/dash/root.hpp"
#include "pm/record.hpp"
#include "pm/record_numbers.hpp"
#include "pm/root.hpp"
#include "store/checks.hpp"
#include "store/dash/dash_store.hpp"
#include "store/repair_reports.hpp"
#include "store/threads/refusals.hpp"

namespace perdure {
namespace {

constexpr double kStartLoadOfSegments = 0.7;  // of the segments a table begins with
constexpr std::uint64_t kMostInitialDepth = 20;

dash::Kind kind_of(Index index) {
  return index == Index::dash_lh ? dash::Kind::linear : dash::Kind::extendible;
}

/// 2^depth segments hold the expected records.
std::uint32_t depth_for(dash::SegmentShape shape, std::uint64_t records) {
  double const each = kStartLoadOfSegments * shape.buckets * dash::kSlots;
  auto const segments = static_cast<std::uint64_t>(static_cast<double>(records) / each) + 1;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(
      kMostInitialDepth, static_cast<std::uint64_t>(std::bit_width(segments - 1))));
}

/// Superblocks a new pool begins with: header, index, directory, segments, and the heap for the
/// records expected.
std::uint64_t superblocks_for(pm::PoolHeader const& h, dash::SegmentShape shape,
                              std::uint64_t records) {
  std::uint64_t const depth = depth_for(shape, records);
  std::uint64_t const blocks = (h.superblock_bytes - pm::kBlockAlign) / shape.bytes();
  // beside the index
  bool const fits = dash::kDirectories + (std::uint64_t{16} << depth) <= h.superblock_bytes;
  std::uint64_t const directory =
      fits ? 0 : ((std::uint64_t{8} << depth) + h.superblock_bytes - 1) / h.superblock_bytes;
  std::uint64_t const n = 2 + directory + ((std::uint64_t{1} << depth) + blocks - 1) / blocks;
  if (dash_inline(h.key_bytes, h.value_bytes)) return n;
  if (h.key_bytes == 0 || h.value_bytes == 0)
    return n + 1;  // sizes unknown: the heap grows as values come
  std::uint64_t const each = pm::RecordShape(h).capacity(pm::fixed_stride(h));
  return n + (records + each - 1) / each;
}

}  // namespace

/// The steps of an opening, on a store that is not open yet.
struct DashOpening {
  explicit DashOpening(DashStore& opened) : store(opened), core(opened.core_) {}

  Status made(std::uint64_t expected_records) {
    PERDURE_ASSERT(!core.pool.read_only() && core.index_at().bytes == 0);
    auto const address = core.pool.take_run(1);
    if (!address.ok()) return address.status();
    dash::SegmentShape const segments;
    bool const records = !dash_inline(core.pool.header().key_bytes, core.pool.header().value_bytes);
    dash::write_root(core.pool.base() + address.value().bytes, kind_of(core.index()), segments,
                     records);
    core.make_engine(segments);
    if (Status s = core.engine->create(address.value(), depth_for(segments, expected_records));
        !s.ok())
      return s;
    pm::Root root = core.pool.root();
    root.set(dash::kIndexName, address.value().bytes, 0);
    core.pool.publish_root(root);
    core.counters.set_records(0, true);
    return {};
  }

  Status found() {
    auto const begin = std::chrono::steady_clock::now();
    auto const refused = [&](Status const& s) {
      bool const damaged = s.code() == Code::corrupt;
      return Status{
          s.code(),
          "pool " + core.path + ": " + s.message() +
              (damaged ? "; nothing was changed: restore a snapshot or load an export" : "")};
    };
    core.recovery.clean = core.pool.root().clean == 1;
    if (core.pool.read_only() && !core.recovery.clean) return unrecovered_read_only(core.path);
    Status const known = pm::check_names(core.path, core.pool.root(), [](std::string_view name) {
      return name == dash::kIndexName || name == pm::kRecordNumbers;
    });
    if (!known.ok()) return known;
    auto const segments = find_table();
    if (!segments.ok()) return refused(segments.status());
    Offset const index_at = core.index_at();
    core.pool.claim_run(index_at, 1);
    std::vector<std::string> wrong;
    if (core.recovery.clean) wrong = store.recovery_.changed_words(index_at);
    if (!wrong.empty() && !core.options.repair) return changed_since_close(core.path, wrong);
    core.make_engine(segments.value());
    if (core.options.repair && core.recovery.clean) {
      if (Status s = store.recovery_.repair(index_at, std::move(wrong)); !s.ok()) return s;
    } else if (Status s =
                   core.engine->open(index_at, core.recovery.clean, store.recovery_.has_note());
               !s.ok()) {
      return refused(s);
    }
    core.space.claim_later();
    core.numbers.begin();
    if (core.recovery.clean) core.counters.set_records(core.engine->noted_count(), true);
    PERDURE_ASSERT(core.engine != nullptr && !core.closed);
    if (!core.pool.read_only()) {
      pm::Root root = core.pool.root();
      root.clean = 0;
      core.pool.publish_root(root);
      store.sweeper_.begin();
    }
    core.recovery.counted = core.counters.counted();
    core.recovery.records = core.counters.records();
    core.recovery.recover_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {};
  }

 private:
  Result<dash::SegmentShape> find_table() {
    std::uint64_t const at = core.index_at().bytes;
    bool const possible = at % core.pool.superblock_bytes() == 0 && at != 0 &&
                          at + core.pool.superblock_bytes() <= core.pool.bytes();
    if (!possible) return Status{Code::corrupt, "its root leads to no index"};
    bool const records = !dash_inline(core.pool.header().key_bytes, core.pool.header().value_bytes);
    return dash::check_root(core.pool.base() + at, kind_of(core.index()), records,
                            core.pool.superblock_bytes());
  }

  DashStore& store;
  DashCore& core;
};

DashStore::DashStore(std::string pool_path, OpenOptions const& open_options, pm::Pool pool)
    : ThreadsStore(std::move(pool_path), open_options, pool.header()),
      core_(path, options, recovery, std::move(pool)) {}

Result<std::unique_ptr<Store::Impl>> DashStore::create(std::string const& path,
                                                       CreateOptions const& create,
                                                       OpenOptions const& open) {
  if (Status s = threads::check_create(path, create); !s.ok()) return s;
  if (Status s = threads::check_open(path, create.index, open); !s.ok()) return s;
  pm::PoolHeader header{};
  header.index = static_cast<std::uint8_t>(create.index);
  header.durability = static_cast<std::uint8_t>(create.durability);
  header.levels = header.hashes = header.slots = 1;
  if (Status s = set_sizes(header, create); !s.ok()) return s;
  std::uint64_t const superblocks = superblocks_for(header, {}, create.expected_records);
  auto pool = pm::Pool::create(path, header, superblocks, make_options(create.file),
                               {false, open.lock_memory, false});
  if (!pool) return pool.status();
  auto store = std::make_unique<DashStore>(path, open, std::move(*pool));
  if (Status s = DashOpening(*store).made(create.expected_records); !s.ok()) return s;
  if (Status s = store->core_.pool.keep(); !s.ok()) return s;
  return std::unique_ptr<Impl>(std::move(store));
}

Result<std::unique_ptr<Store::Impl>> DashStore::open(std::string const& path,
                                                     OpenOptions const& options, pm::Pool pool) {
  if (Status s = threads::check_open(path, static_cast<Index>(pool.header().index), options);
      !s.ok())
    return s;
  if (Status s = check_expected(path, options, pool.header()); !s.ok()) return s;
  auto store = std::make_unique<DashStore>(path, options, std::move(pool));
  if (Status s = DashOpening(*store).found(); !s.ok()) return s;
  return std::unique_ptr<Impl>(std::move(store));
}

Result<std::unique_ptr<Store::Impl>> DashStore::restore(std::string const& path,
                                                        RestoreOptions const& restore,
                                                        OpenOptions const& open, pm::Pool pool) {
  CreateOptions create;
  create.index = static_cast<Index>(pool.header().index);
  create.durability =
      restore.durability.value_or(static_cast<Durability>(pool.header().durability));
  create.log.dir = restore.log.dir;
  if (Status s = threads::check_create(path, create); !s.ok()) return s;
  // Before anything is claimed: headers of blocks and records carry the pool's identity.
  pool.take_identity(static_cast<std::uint8_t>(create.durability));
  auto impl = DashStore::open(path, open, std::move(pool));
  if (!impl) return impl;
  if (Status s = static_cast<DashStore&>(**impl).core_.pool.keep(); !s.ok()) return s;
  return impl;
}

}  // namespace perdure
