// How a store of a B+-tree comes to be: a new pool, one that is there, one that a snapshot makes
// anew. Invariants: an opening looks at every record, and makes the tree of those that count; until
// it knows that nothing is damaged, or has been asked to repair, it changes nothing in the pool.
#include <chrono>
#include <mutex>
#include <string_view>

#include "base/assert.hpp"
#include "pm/heap_headers.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record_numbers.hpp"
#include "pm/record_shape.hpp"
#include "pm/root.hpp"
#include "pm/transaction/format.hpp"
#include "store/btree/btree_store.hpp"
#include "store/checks.hpp"
#include "store/repair_reports.hpp"
#include "store/threads/refusals.hpp"

namespace perdure {
namespace {

/// Superblocks a new pool begins with: header, and the heap for the records expected.
std::uint64_t superblocks_for(pm::PoolHeader const& h, std::uint64_t records) {
  // of leaves, which are half full at least
  std::uint64_t const leaves = h.records_alone() ? 0
                                                 : 1 + records / (btree::Permutation::kSlots / 2) *
                                                           sizeof(btree::Leaf) / h.superblock_bytes;
  if (h.key_bytes == 0 || h.value_bytes == 0)
    return 2 + leaves;  // sizes unknown: the heap grows as values come
  std::uint64_t const each = pm::RecordShape(h).capacity(pm::fixed_stride(h));
  return 1 + leaves + (records + each - 1) / each;
}

Status check_order(CreateOptions const& create) {
  if (create.key_order == KeyOrder::bytes) return {};
  std::uint32_t const n = create.key_bytes;
  if (create.key_order > KeyOrder::signed_integer)
    return {Code::invalid_argument, "key_order " +
                                        std::to_string(static_cast<int>(create.key_order)) +
                                        ": choose bytes, unsigned_integer or signed_integer"};
  if (n == 1 || n == 2 || n == 4 || n == 8) return {};
  return {Code::invalid_argument, "key_order: integer keys have 1, 2, 4 or 8 bytes, not " +
                                      (n == 0 ? std::string("any length") : std::to_string(n)) +
                                      "; choose key_bytes so, or key_order bytes"};
}

Status check_persist(CreateOptions const& create) {
  if (create.persist == Persist::minimal) return {};
  if (create.persist <= Persist::full && create.values == Values::heap) return {};
  if (create.persist == Persist::index && create.values == Values::log) return {};
  bool const known = create.persist <= Persist::full;
  return {
      known ? Code::unsupported : Code::invalid_argument,
      "persist " + std::to_string(static_cast<int>(create.persist)) +
          ": a btree has minimal (0) and index (1) with values in the heap or in a log, and full "
          "(2) with values in the heap; choose one of those"};
}

constexpr std::uint32_t kMostCollectors = 256;  // each is a thread

Status check_value_log(CreateOptions const& create, OpenOptions const& open) {
  if (create.values > Values::log)
    return {Code::invalid_argument,
            "values " + std::to_string(static_cast<int>(create.values)) + ": choose heap or log"};
  std::uint32_t const threads = open.value_log.collectors;
  if (threads >= 1 && threads <= kMostCollectors && open.value_log.most_queued >= 1) return {};
  return {Code::invalid_argument, "value_log: choose 1 to " + std::to_string(kMostCollectors) +
                                      " collectors, and at least 1 for most_queued"};
}

}  // namespace

/// The steps of an opening, on a store that is not open yet.
struct BtreeOpening {
  explicit BtreeOpening(BtreeStore& opened) : core(opened.core_) {}

  Status found() {
    auto const begin = std::chrono::steady_clock::now();
    core.recovery.clean = core.pool.root().clean == 1;
    if (core.pool.read_only() && !core.recovery.clean) return unrecovered_read_only(core.path);
    bool const leaves = core.persist() == Persist::index;
    Status const known = pm::check_names(core.path, core.pool.root(), [&](std::string_view name) {
      return name == pm::kRecordNumbers || name == pm::kValueLogEntry ||
             (name == kBtreeLeaves && leaves) ||
             (name == pm::kUndoLines && core.has_transactions());
    });
    if (!known.ok()) return known;
    auto const segments = pm::ValueLog::segment_bytes(core.pool);
    if (!segments) return core.corrupt(segments.status().message());
    if (segments.value() == 0)
      if (Status s = check_no_value_log(core.path, core.options.value_log); !s.ok()) return s;
    Status const opened = leaves                    ? found_in_leaves(segments.value())
                          : segments.value() != 0   ? found_in_log(segments.value())
                          : core.has_transactions() ? found_whole()
                                                    : found_in_heap();
    if (!opened.ok()) return opened;
    core.recovery.counted = true;
    core.recovery.recover_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {};
  }

 private:
  Status found_in_heap() {
    if (Status s = look_at_headers(); !s.ok()) return s;
    core.space.find_superblocks();
    if (Status s = core.make_tree(0); !s.ok()) return s;
    if (Status s = look_at_records(); !s.ok()) return s;
    core.numbers.begin();
    core.counters.set_records(records.records, true);
    if (!core.pool.read_only()) change();
    core.space.finish_recovery();
    core.space.give(records.superseded);
    core.recovery.records = records.records;
    core.recovery.duplicates = records.superseded.size();
    return {};
  }

  /// `segment_bytes`: of the log that records are in; 0: they are in the heap.
  Status found_in_leaves(std::uint64_t segment_bytes) {
    pm::RootEntry const* const entry = core.pool.root().find(kBtreeLeaves);
    if (entry == nullptr) return core.corrupt("its root names no leaves");
    if (Status s = segment_bytes != 0 ? look_at_leaf_headers() : look_at_headers(); !s.ok())
      return s;
    core.make_engine(segment_bytes);
    BtreeLeaves& leaves = *core.engine->leaves();
    pm::ValueLog* const log = core.engine->log();
    pm::LogRecovered in_log;
    if (log != nullptr) log->recovery().find(in_log);
    core.leaf_blocks.find_superblocks_later();
    BtreeLeavesFound found = look_at_leaves(entry->offset);
    std::uint64_t expected = records.records;
    wrong.insert(wrong.end(), in_log.damage.begin(), in_log.damage.end());
    compare_with_note(expected);
    if (!wrong.empty()) {
      if (!core.options.repair) return refused();
      note(wrong, "found: ");
      std::uint64_t dropped = 0;
      if (Status s = repair_leaves(entry->offset, found, dropped); !s.ok()) return s;
      note_left(core.left ? core.left->records : records.records + dropped);
    }
    if (Status s = leaves.build(found); !s.ok())
      return {s.code(), "pool " + core.path + ": " + s.message()};
    core.numbers.begin();
    core.counters.set_records(records.records, true);
    if (log != nullptr) log->end_count(in_log);
    if (!core.pool.read_only()) {
      begin_writing();
      leaves.settle(found);
    }
    core.leaf_blocks.finish_sweep();
    core.space.finish_recovery();
    if (log != nullptr) core.pool.read_only() ? log->begin_reading() : log->begin();
    core.recovery.records = records.records;
    return {};
  }

  /// A tree that is durable as a whole: nothing is looked at but the log of what undoes a batch;
  /// all of it where a repair is asked for.
  Status found_whole() {
    core.make_engine(0);
    auto recovered = core.engine->recover(core.pool.read_only(), core.options.repair);
    if (!recovered) {
      if (core.options.repair) return core.corrupt(recovered.status().message());
      wrong.push_back(recovered.status().message());
      return refused();
    }
    if (!recovered->mended.empty()) note(recovered->mended, "");
    if (core.options.repair)  // the log's own superblocks are claimed by now
      if (Status s = look_at_headers(); !s.ok()) return s;
    core.space.load_later();
    core.recovery.undone = recovered->undone_lines;
    records.records = recovered->records;
    sum = core.engine->sum();
    if (!recovered->fault.empty()) {
      wrong.push_back(recovered->fault);
      if (!core.options.repair) return refused();
    } else if (core.options.repair) {
      threads::Faults faults;
      core.engine->check_tree(faults);
      wrong = std::move(faults.first);
    }
    if (!wrong.empty())
      if (Status s = make_anew(); !s.ok()) return s;
    if (Status s = judge(recovered->records); !s.ok()) return s;
    core.numbers.begin();
    core.counters.set_records(records.records, true);
    core.recovery.records = records.records;
    if (!core.pool.read_only()) begin_writing();
    return {};
  }
  /// Its closing note says of what there was, so that it counts no more.
  Status make_anew() {
    begin_writing();
    auto made = core.engine->make_anew();
    if (!made) return {made.status().code(), "pool " + core.path + ": " + made.status().message()};
    records.records = made.value();
    return {};
  }

  BtreeLeavesFound look_at_leaves(std::uint64_t first) {
    core.leaf_blocks.begin_sweep();
    core.engine->log() != nullptr ? core.engine->log()->recovery().begin_count()
                                  : core.space.find_superblocks();
    BtreeLeavesFound found = core.engine->leaves()->look(first, core.workers);
    records.records = found.chain.records;
    sum = found.chain.sum;
    wrong = found.chain.wrong;
    // Nobody has a lock after an orderly close, and a reader would wait for it.
    for (std::uint64_t const leaf : found.chain.locked)
      if (core.recovery.clean)
        wrong.push_back("the leaf at byte " + std::to_string(leaf) + " says that it is locked");
    return found;
  }
  /// Links of the chain one by one, and then all entries.
  Status repair_leaves(std::uint64_t first, BtreeLeavesFound& found, std::uint64_t& dropped) {
    auto const noted = core.left ? std::optional(core.left->sum) : std::nullopt;
    for (int passes = 0; passes < 2 && !found.leaves.empty();) {
      passes += found.chain.broken == 0;
      std::vector<std::string> mended;
      dropped += core.engine->leaves()->repair(found, noted, mended);
      note(mended, "");
      found = look_at_leaves(first);
      if (found.chain.faults == 0 && (passes > 0 || sum == noted)) return {};
    }
    return {Code::corrupt, "pool " + core.path + ": no repair mends that " +
                               found.chain.wrong.front() +
                               "; restore a snapshot or load an export"};
  }

  Status found_in_log(std::uint64_t segment_bytes) {
    if (Status s = core.make_tree(segment_bytes); !s.ok()) return s;
    pm::ValueLog& log = *core.engine->log();
    auto const recovered = log.recover(core.workers);
    if (!recovered)
      return {recovered.status().code(), "pool " + core.path + ": " + recovered.status().message()};
    pm::LogRecovered const& found = recovered.value();
    records.records = found.current;
    wrong = found.damage;
    if (Status s = judge(found.current); !s.ok()) return s;
    core.numbers.begin();
    core.counters.set_records(found.current, true);
    core.recovery.records = found.current;
    if (core.pool.read_only()) {
      log.begin_reading();
      return {};
    }
    begin_writing();
    log.begin();
    return {};
  }

  /// Of a pool without a heap.
  Status look_at_leaf_headers() {
    auto const damaged = core.leaf_blocks.damaged();
    for (Offset const at : damaged)
      wrong.push_back("the header of the leaves at byte " + std::to_string(at.bytes) +
                      " is damaged");
    if (wrong.empty()) return {};
    if (!core.options.repair) return refused();
    note(wrong, "found: ");
    note(mend_leaf_headers(), "");
    wrong.clear();
    return {};
  }
  std::vector<std::string> mend_leaf_headers() {
    auto const damaged = core.leaf_blocks.damaged();
    std::vector<std::string> mended;
    for (Offset const at : damaged)
      mended.push_back("the header of the leaves at byte " + std::to_string(at.bytes) +
                       ": put right, nothing is lost");
    core.leaf_blocks.mend(damaged);
    return mended;
  }

  /// What says of superblocks that they are the heap's, or hold leaves.
  Status look_at_headers() {
    pm::HeapHeaders const headers(core.pool);
    for (Offset const at : headers.broken())
      wrong.push_back("the header of the superblock at byte " + std::to_string(at.bytes) +
                      " is damaged");
    if (wrong.empty()) return {};
    if (!core.options.repair) return refused();
    note(wrong, "found: ");
    std::vector<std::string> mended;
    auto const mendable = headers.damaged();
    for (auto const& one : mendable)
      mended.push_back("the header of the records at byte " + std::to_string(one.at.bytes) +
                       ": put right, nothing is lost");
    headers.mend(mendable);
    if (core.persist() == Persist::index)
      for (std::string& line : mend_leaf_headers()) mended.push_back(std::move(line));
    for (Offset const at : headers.broken()) {
      mended.push_back("the superblock at byte " + std::to_string(at.bytes) +
                       ": its header says nothing any more, and what was in it is lost");
      pm::store_word(reinterpret_cast<std::uint64_t*>(core.pool.base() + at.bytes), 0);
    }
    note(mended, "");
    wrong.clear();
    return {};
  }

  Status look_at_records() {
    if (Status s = rebuild(); !s.ok()) return s;
    for (std::uint64_t const record : records.damaged) {
      if (wrong.size() == kMostFaults) break;
      wrong.push_back("the record at byte " + std::to_string(record) +
                      " is damaged: its checksum or its sizes do not fit");
    }
    return judge(records.records + records.damaged.size());
  }

  /// Of so many records, what counts of them is known, and what is wrong.
  Status judge(std::uint64_t expected) {
    compare_with_note(expected);
    if (wrong.empty()) return {};
    if (!core.options.repair) return refused();
    note(wrong, "found: ");
    note_left(expected);
    return {};
  }
  void note_left(std::uint64_t expected) {
    core.recovery.dropped = expected > records.records ? expected - records.records : 0;
    std::vector<std::string> const left{std::to_string(records.records) + " records are left of " +
                                        std::to_string(expected)};
    note(left, "");
    if (core.recovery.dropped != 0)
      core.recovery.why_dropped =
          std::to_string(core.recovery.dropped) + " records were lost to damage";
  }
  void compare_with_note(std::uint64_t& expected) {
    if (!core.recovery.clean) return;
    auto noted = core.pool.closing_note();
    if (!noted) wrong.push_back(noted.status().message());
    if (!noted || !*noted) return;
    core.left = *noted;
    expected = core.left->records;
    compare(*core.left);
  }
  void compare(pm::ClosingNote const& left) {
    std::uint64_t const n = records.records + records.damaged.size();
    if (n != left.records)
      wrong.push_back("there are " + std::to_string(n) + " records, where that close left " +
                      std::to_string(left.records));
    if (sum && *sum != left.sum)
      wrong.push_back("the leaves of its tree have another sum than that close left");
    if (!records.superseded.empty())
      wrong.push_back(std::to_string(records.superseded.size()) + " keys stand twice");
  }

  Status rebuild() {
    auto const superblocks = core.space.superblocks();
    std::mutex mutex;
    core.workers.for_chunks(superblocks.size(), 1, [&](std::size_t first, std::size_t last) {
      BtreeFound mine;
      core.engine->rebuild(std::span(superblocks).subspan(first, last - first), mine);
      std::lock_guard const lock(mutex);
      records.records += mine.records;
      auto const append = [](auto& to, auto const& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(records.superseded, mine.superseded);
      append(records.damaged, mine.damaged);
      if (!mine.full.ok()) records.full = mine.full;
    });
    if (records.full.ok()) return {};
    return {records.full.code(), "pool " + core.path + ": " + records.full.message()};
  }

  /// From here on the pool is open for writing, and what does not count is free.
  void change() {
    begin_writing();
    core.engine->free_records(records.damaged);
    core.engine->free_records(records.superseded);
  }

  void begin_writing() {
    pm::Root root = core.pool.root();
    root.clean = 0;
    core.pool.publish_root(root);
  }

  Status refused() const {
    if (core.recovery.clean) return changed_since_close(core.path, wrong);
    return {Code::corrupt,
            "pool " + core.path + ": " + wrong.front() +
                (wrong.size() > 1 ? ", and " + std::to_string(wrong.size() - 1) + " more" : "") +
                "; nothing was changed: restore a snapshot, or open it with repair (repair=True, "
                "perdure verify --repair), which drops what is damaged and says so"};
  }
  void note(std::vector<std::string> const& lines, std::string const& before) {
    std::vector<std::string> all;
    for (std::string const& line : lines) all.push_back(before + line);
    core.repairs.add(all);
    note_changes(core.recovery, all);
    core.recovery.repaired = true;
  }

  BtreeCore& core;
  BtreeFound records;
  std::optional<std::uint64_t> sum;  // of durable leaves
  std::vector<std::string> wrong;
};

Result<std::unique_ptr<Store::Impl>> BtreeStore::create(std::string const& path,
                                                        CreateOptions const& create,
                                                        OpenOptions const& open) {
  if (Status s = threads::check_create(path, create); !s.ok()) return s;
  if (Status s = threads::check_open(path, create.index, open); !s.ok()) return s;
  if (Status s = check_order(create); !s.ok()) return s;
  if (Status s = check_value_log(create, open); !s.ok()) return s;
  if (Status s = check_persist(create); !s.ok()) return s;
  if (create.values != Values::log)
    if (Status s = check_no_value_log(path, open.value_log); !s.ok()) return s;
  pm::PoolHeader header{};
  header.index = static_cast<std::uint8_t>(create.index);
  header.durability = static_cast<std::uint8_t>(create.durability);
  header.key_order = static_cast<std::uint8_t>(create.key_order);
  header.persist = static_cast<std::uint8_t>(create.persist);
  header.levels = header.hashes = header.slots = 1;
  if (Status s = set_sizes(header, create); !s.ok()) return s;
  auto pool = pm::Pool::create(path, header, superblocks_for(header, create.expected_records),
                               make_options(create.file), {false, open.lock_memory, false});
  if (!pool) return pool.status();
  auto store = std::make_unique<BtreeStore>(path, open, std::move(*pool));
  // A segment is a superblock: of 4 MiB, but where a pool is too small for those.
  std::uint64_t const segments =
      create.values == Values::log ? store->core_.pool.superblock_bytes() : 0;
  if (segments != 0) pm::ValueLog::announce(store->core_.pool, segments);
  if (Status s = store->core_.make_tree(segments); !s.ok()) return s;
  if (BtreeLeaves* const leaves = store->core_.engine->leaves(); leaves != nullptr) {
    pm::Root root = store->core_.pool.root();
    root.set(kBtreeLeaves, leaves->first(), 0);
    store->core_.pool.publish_root(root);
  }
  store->core_.counters.set_records(0, true);
  if (segments != 0) store->core_.engine->log()->begin();
  if (Status s = store->core_.pool.keep(); !s.ok()) return s;
  return std::unique_ptr<Impl>(std::move(store));
}

Result<std::unique_ptr<Store::Impl>> BtreeStore::open(std::string const& path,
                                                      OpenOptions const& options, pm::Pool pool) {
  if (Status s = threads::check_open(path, Index::btree, options); !s.ok()) return s;
  if (Status s = check_value_log({}, options); !s.ok()) return s;
  if (Status s = check_expected(path, options, pool.header()); !s.ok()) return s;
  auto store = std::make_unique<BtreeStore>(path, options, std::move(pool));
  if (Status s = BtreeOpening(*store).found(); !s.ok()) return s;
  return std::unique_ptr<Impl>(std::move(store));
}

Result<std::unique_ptr<Store::Impl>> BtreeStore::restore(std::string const& path,
                                                         RestoreOptions const& restore,
                                                         OpenOptions const& open, pm::Pool pool) {
  CreateOptions create;
  create.index = Index::btree;
  create.durability =
      restore.durability.value_or(static_cast<Durability>(pool.header().durability));
  create.log.dir = restore.log.dir;
  if (Status s = threads::check_create(path, create); !s.ok()) return s;
  // Before anything is claimed: headers of records carry the pool's identity.
  auto const old = pool.header().pool_id;
  pool.take_identity(static_cast<std::uint8_t>(create.durability));
  auto const segments = pm::ValueLog::segment_bytes(pool);
  if (segments.ok() && segments.value() != 0) pm::take_log_identity(pool, old, segments.value());
  auto impl = BtreeStore::open(path, open, std::move(pool));
  if (!impl) return impl;
  if (Status s = static_cast<BtreeStore&>(**impl).core_.pool.keep(); !s.ok()) return s;
  return impl;
}

}  // namespace perdure
