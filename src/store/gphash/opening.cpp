// How a store comes to be: a new pool, one that is there, one that its log or a snapshot makes
// anew. Invariants: a machine without the device that was asked for touches no file; a pool that is
// made gets its name only when it has been opened, with its log where it has one.
#include <algorithm>
#include <chrono>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "exec/cuda/cuda_info.hpp"
#include "store/checks.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/gphash/log_replay.hpp"
#include "store/gphash/logged_batch.hpp"

namespace perdure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kStartLoadOfLevels =
    0.9;  // levels are sized so that the expected records reach it

/// Asked before a file is touched: a machine without the device must not leave half a pool.
Status can_run(Device device) {
  if (device == Device::cuda) return exec::check_gpu();
  if (!cpu_instruction_set().empty()) return {};
  return {Code::unsupported, "this processor lacks AVX2, which the CPU warps need"};
}

// What a log has of a key, its mirror knows, too: the key, or else its hash.
static_assert(wal::kMostEntryKey == gphash::kMaxIdentityKey);

/// Of a new pool of layout `log`.
Status check_logged(std::string const& path, pm::PoolHeader const& h) {
  auto const refuse = [&](std::string const& what) {
    return bad_argument("pool " + path + ": layout log " + what + "; or choose layout word");
  };
  if (h.levels != 2 || h.hashes != 2 || h.slots != 8)
    return refuse("has the default shape, 2L-2H-8S, alone");
  return {};
}

Result<pm::PoolHeader> header_for(std::string const& path, CreateOptions const& o) {
  Shape const s = o.shape;
  bool const power_of_two = s.slots != 0 && (s.slots & (s.slots - 1)) == 0;
  if (s.levels == 0 || s.hashes == 0 || !power_of_two ||
      std::uint64_t{s.levels} * s.hashes * s.slots > 32) {
    return bad_argument("shape " + std::to_string(s.levels) + "L-" + std::to_string(s.hashes) +
                        "H-" + std::to_string(s.slots) +
                        "S: levels x hashes x slots must be 1 to 32, slots a power of two");
  }
  if (Status fits = check_log_dir(path, o.durability, o.log.dir); !fits.ok()) return fits;
  pm::PoolHeader h{};
  h.layout = static_cast<std::uint8_t>(o.layout);
  h.durability = static_cast<std::uint8_t>(o.durability);
  h.levels = static_cast<std::uint8_t>(s.levels);
  h.hashes = static_cast<std::uint8_t>(s.hashes);
  h.slots = static_cast<std::uint8_t>(s.slots);
  if (Status fits = set_sizes(h, o); !fits.ok()) return fits;
  if (Status fits = h.logged() ? check_logged(path, h) : Status{}; !fits.ok()) return fits;
  return h;
}

/// What an opening of layout `log` has no use for, and sizes that no log of this build has.
Status can_run_logged(std::string const& path, pm::PoolHeader const& h, OpenOptions const& o) {
  if (!h.logged()) return {};
  auto const refuse = [&](std::string const& what) {
    return Status{Code::unsupported, "pool " + path + " has layout log, " + what};
  };
  if (o.memory.cache_bytes != 0 && h.logs_hashes())
    return refuse(
        "and keys that its entries have no room for: it has no record cache; leave cache_bytes "
        "out");
  if (o.memory.residency == Residency::pm)
    return refuse("whose index is in the machine's memory; leave residency out");
  return {};
}

/// Superblocks a new pool begins with: header, levels or the log, and the heap for the records
/// expected.
std::uint64_t superblocks_for(pm::PoolHeader const& h, std::uint32_t top, std::uint64_t records) {
  PERDURE_ASSERT(h.levels > 0 && top + 1 >= h.levels);  // each level has a bucket
  std::uint64_t n = 1;
  for (std::uint32_t i = 0; i < h.levels && !h.logged(); ++i) {
    n += (gphash::level_bytes(h.in_place(), h.key_bytes, h.slots, top - i) + h.superblock_bytes -
          1) /
         h.superblock_bytes;
  }
  if (h.logged()) {
    std::uint64_t const cells = wal::cells_in(h.superblock_bytes, wal::cell_bytes_for(h.key_bytes));
    n += (Entries::kCellsARecord * records + cells - 1) / cells;
  }
  if (h.value_bytes == 0) return n + 1;  // sizes unknown: the heap grows as values come
  std::uint64_t const stride = h.key_bytes == 0
                                   ? pm::stride_for(pm::record_bytes(16, h.value_bytes))  // a guess
                                   : pm::fixed_stride(h);
  std::uint64_t const each = pm::RecordShape(h).capacity(stride);
  return n + (records + each - 1) / each;
}

}  // namespace

/// The steps of an opening, on a store that is not open yet.
struct Opening {
  explicit Opening(GphashStore& opened) : store(opened) {}

  /// The pool as it stands in its file.
  Status found() {
    PERDURE_ASSERT(store.core_.engine == nullptr && store.core_.table.slots() == 0);
    if (Status s = check_no_value_log(store.path, store.options.value_log); !s.ok()) return s;
    if (Status s = check_expected(store.path, store.options, store.core_.pool.header()); !s.ok())
      return s;
    return recovered();
  }

  Status made(std::uint32_t top, CreateOptions const& create) {
    PERDURE_ASSERT(store.core_.engine == nullptr && !store.core_.pool.read_only());
    store.changes_.begin_opening();
    if (Status s = store.core_.table.create(top, store.core_.workers); !s.ok()) return s;
    if (Status s = store.core_.logged() ? store.core_.entries.create() : Status{}; !s.ok())
      return s;
    if (Status s = store.recovery_.start_engine(); !s.ok()) return s;
    return with_log(create);
  }

  Status restored(CreateOptions const& create) {
    store.changes_.begin_opening();
    if (Status s = store.recovery_.attach(); !s.ok()) return s;
    // Of its own identity, so that no log directory of the pool it comes from can be taken for its
    // own.
    store.core_.pool.take_identity(static_cast<std::uint8_t>(create.durability));
    if (Status s = filled(); !s.ok()) return s;
    store.core_.undo.keep();  // a snapshot has nothing of what was before it
    return with_log(create);
  }

  Status replayed(std::shared_ptr<wal::LogDir> power, RestoredPool const& from) {
    PERDURE_ASSERT(store.core_.engine != nullptr);  // found() came before
    return LogReplay(store.core_, store.writer_).run(std::move(power), from.loaded, from.noted);
  }

  void done() {
    PERDURE_ASSERT(store.core_.engine != nullptr && !store.core_.closed);
    store.changes_.opened();
  }

 private:
  Status recovered() {
    if (Status s = store.recovery_.attach(); !s.ok()) return s;
    if (Status s = filled(); !s.ok()) return s;
    store.transactions_.find_last();
    return {};
  }

  Status filled() {
    if (Status s = store.recovery_.start_engine(); !s.ok()) return s;
    if (store.core_.logged()) {
      if (Status s = store.recovery_.repair_entries(); !s.ok()) return s;
      if (Status s = store.writer_.recover_entries(); !s.ok()) return s;
    }
    return store.recovery_.run(store.writer_);
  }

  Status with_log(CreateOptions const& create) {
    PERDURE_ASSERT(store.core_.table.slots() > 0);  // whose image the log begins with
    if (Status s = store.log_.create(create); !s.ok()) return s;
    return store.log_.keep();
  }

  GphashStore& store;
};

GphashStore::GphashStore(std::string pool_path, OpenOptions const& open_options, pm::Pool pool)
    : Impl(std::move(pool_path), open_options, pool.header()),
      core_(path, options, recovery, std::move(pool)) {}

Result<std::unique_ptr<Store::Impl>> GphashStore::create(std::string const& path,
                                                         CreateOptions const& create,
                                                         OpenOptions const& open) {
  auto header = header_for(path, create);
  if (!header) return header.status();
  if (Status s = can_run(open.device); !s.ok()) return s;
  if (Status s = check_no_value_log(path, open.value_log); !s.ok()) return s;
  if (Status s = can_run_logged(path, *header, open); !s.ok()) return s;
  gphash::Shape const shape{create.shape.levels, create.shape.hashes, create.shape.slots};
  std::uint32_t const top = gphash::top_level_for(
      shape, std::max<std::uint64_t>(1, create.expected_records), kStartLoadOfLevels);
  pm::MapOptions const map{false, open.lock_memory, open.device == Device::cuda};
  auto pool =
      pm::Pool::create(path, *header, superblocks_for(*header, top, create.expected_records),
                       make_options(create.file), map);
  if (!pool) return pool.status();
  auto store = std::make_unique<GphashStore>(path, open, std::move(*pool));
  Opening opening(*store);
  if (Status s = opening.made(top, create); !s.ok()) return s;
  opening.done();
  return std::unique_ptr<Impl>(std::move(store));
}

Result<std::unique_ptr<Store::Impl>> GphashStore::open(std::string const& path,
                                                       OpenOptions const& options, pm::Pool pool) {
  if (Status s = can_run(options.device); !s.ok()) return s;
  if (pool.header().durability == static_cast<std::uint8_t>(Durability::power)) {
    return bad_argument(
        "pool " + path +
        " is of durability power, and what its file holds may be behind its log; name its "
        "log_dir");
  }
  if (Status s = can_run_logged(path, pool.header(), options); !s.ok()) return s;
  auto store = std::make_unique<GphashStore>(path, options, std::move(pool));
  Opening opening(*store);
  if (Status s = opening.found(); !s.ok()) return s;
  opening.done();
  return std::unique_ptr<Impl>(std::move(store));
}

Result<std::unique_ptr<Store::Impl>> GphashStore::open_logged(std::string const& path,
                                                              OpenOptions const& options) {
  auto const begin = Clock::now();
  if (Status s = can_run(options.device); !s.ok()) return s;
  if (options.read_only)
    return bad_argument("pool " + path +
                        " of durability power opens for writing only: its log is replayed");
  if (Status s = check_log_dir(path, Durability::power, options.log_dir); !s.ok()) return s;
  auto opened = wal::LogDir::open(options.log_dir);
  if (!opened) return opened.status();
  std::shared_ptr<wal::LogDir> power = std::move(*opened);
  auto restored =
      restore_pool(*power, path, {false, options.lock_memory, options.device == Device::cuda});
  if (!restored) return restored.status();
  auto pool = pm::Pool::of_image(path, std::move(restored->file));
  if (!pool) return pool.status();
  if (Status s = can_run_logged(path, pool->header(), options); !s.ok()) return s;
  double const map_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  auto store = std::make_unique<GphashStore>(path, options, std::move(*pool));
  Opening opening(*store);
  if (Status s = opening.found(); !s.ok()) return s;
  store->recovery.map_seconds = map_seconds;
  if (Status s = opening.replayed(std::move(power), *restored); !s.ok()) return s;
  opening.done();
  return std::unique_ptr<Impl>(std::move(store));
}

Result<std::unique_ptr<Store::Impl>> GphashStore::restore(std::string const& path,
                                                          RestoreOptions const& restore,
                                                          OpenOptions const& open, pm::Pool pool) {
  if (Status s = can_run(open.device); !s.ok()) return s;
  CreateOptions create;
  create.durability =
      restore.durability.value_or(static_cast<Durability>(pool.header().durability));
  create.file.overwrite = restore.file.overwrite;
  create.file.force = restore.file.force;
  create.file.mode = restore.file.mode;
  create.log.dir = restore.log.dir;
  create.log.bytes = restore.log.bytes;
  if (Status s = check_log_dir(path, create.durability, create.log.dir); !s.ok()) return s;
  if (Status s = check_expected(path, open, pool.header()); !s.ok()) return s;
  if (Status s = can_run_logged(path, pool.header(), open); !s.ok()) return s;
  auto store = std::make_unique<GphashStore>(path, open, std::move(pool));
  Opening opening(*store);
  if (Status s = opening.restored(create); !s.ok()) return s;
  opening.done();
  return std::unique_ptr<Impl>(std::move(store));
}

}  // namespace perdure
