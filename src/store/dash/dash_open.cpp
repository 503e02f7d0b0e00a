// Making, opening, restoring and closing a store of a Dash index. Opening looks at no record: which
// blocks and records are free is found out beside everything else, and until then new ones come
// from superblocks of their own. Invariant: a pool is marked clean only with a count of its
// records, and when all its segments are sound.
#include <bit>
#include <chrono>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "index/dash/root.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"
#include "store/checks.hpp"
#include "store/dash/dash_store.hpp"
#include "store/repair_reports.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure {
namespace {

constexpr double kStartLoad = 0.7;  // of the segments a table begins with
constexpr std::uint64_t kMostInitialDepth = 20;
// A table of at most this depth, in a pool of at most so many bytes, is swept by the opening;
// others by a thread.
constexpr std::uint32_t kDepthAtOnce = 7;
constexpr std::uint64_t kBytesAtOnce = 64u << 20;

dash::Kind kind_of(Index index) {
  return index == Index::dash_lh ? dash::Kind::linear : dash::Kind::extendible;
}

/// 2^depth segments hold the expected records.
std::uint32_t depth_for(dash::SegmentShape shape, std::uint64_t records) {
  double const each = kStartLoad * shape.buckets * dash::kSlots;
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

DashStore::DashStore(std::string pool_path, OpenOptions const& open_options, pm::Pool pool)
    : Impl(std::move(pool_path), open_options, pool.header()),
      pool_(std::move(pool)),
      space_(pool_, memory_),
      workers_(open_options.threads) {}

DashStore::~DashStore() { stop_sweep(); }

void DashStore::make_engine(dash::SegmentShape segments) {
  pm::PoolHeader const& h = pool_.header();
  DashOptions const o{h.key_bytes, h.value_bytes, options.verify_reads, options.count_accesses,
                      segments,    &given_up_};
  PERDURE_ASSERT(engine_ == nullptr && index() != Index::gphash);
  bool const linear = index() == Index::dash_lh;
  engine_ =
      linear ? make_dash_lh(pool_, memory_, space_, o) : make_dash_eh(pool_, memory_, space_, o);
}

Result<std::unique_ptr<Store::Impl>> DashStore::create(std::string const& path,
                                                       CreateOptions const& create,
                                                       OpenOptions const& open) {
  if (Status s = check_create(path, create); !s.ok()) return s;
  if (Status s = check_open_options(path, create.index, open); !s.ok()) return s;
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
  if (Status s = store->make_table(create.expected_records); !s.ok()) return s;
  if (Status s = store->pool_.keep(); !s.ok()) return s;
  return std::unique_ptr<Impl>(std::move(store));
}

Status DashStore::make_table(std::uint64_t expected_records) {
  PERDURE_ASSERT(!pool_.read_only() && pool_.root().levels == 0);
  auto const place = pool_.take_run(1);
  if (!place.ok()) return place.status();
  dash::SegmentShape const segments;
  bool const records = !dash_inline(pool_.header().key_bytes, pool_.header().value_bytes);
  dash::write_root(pool_.base() + place.value().bytes, kind_of(index()), segments, records);
  make_engine(segments);
  if (Status s = engine_->create(place.value(), depth_for(segments, expected_records)); !s.ok())
    return s;
  pm::Root root = pool_.root();
  root.levels = 1;
  root.level[0] = {place.value().bytes, 0, 0};
  pool_.publish_root(root);
  counted_ = true;
  return {};
}

Result<std::unique_ptr<Store::Impl>> DashStore::open(std::string const& path,
                                                     OpenOptions const& options, pm::Pool pool) {
  if (Status s = check_open_options(path, static_cast<Index>(pool.header().index), options);
      !s.ok())
    return s;
  if (Status s = check_expected(path, options, pool.header()); !s.ok()) return s;
  auto store = std::make_unique<DashStore>(path, options, std::move(pool));
  if (Status s = store->attach(); !s.ok()) return s;
  return std::unique_ptr<Impl>(std::move(store));
}

Result<dash::SegmentShape> DashStore::find_table() {
  std::uint64_t const at = pool_.root().level[0].offset;
  bool const possible = at % pool_.superblock_bytes() == 0 && at != 0 &&
                        at + pool_.superblock_bytes() <= pool_.bytes();
  if (!possible) return Status{Code::corrupt, "its root leads to no index"};
  bool const records = !dash_inline(pool_.header().key_bytes, pool_.header().value_bytes);
  return dash::check_root(pool_.base() + at, kind_of(index()), records, pool_.superblock_bytes());
}

Status DashStore::attach() {
  auto const begin = std::chrono::steady_clock::now();
  auto const refused = [&](Status const& s) {
    bool const damaged = s.code() == Code::corrupt;
    return Status{
        s.code(),
        "pool " + path + ": " + s.message() +
            (damaged ? "; nothing was changed: restore a snapshot or load an export" : "")};
  };
  recovery.clean = pool_.root().clean == 1;
  if (pool_.read_only() && !recovery.clean)
    return {Code::unsupported,
            "pool " + path +
                " was not closed in order; open it once for writing to recover it, then read-only"};
  auto const segments = find_table();
  if (!segments.ok()) return refused(segments.status());
  Offset const index_at{pool_.root().level[0].offset};
  pool_.claim_run(index_at, 1);
  std::vector<std::string> wrong;
  if (recovery.clean) wrong = changed_words(index_at);
  if (!wrong.empty() && !options.repair) return changed_since_close(path, wrong);
  make_engine(segments.value());
  if (options.repair && recovery.clean) {
    if (Status s = repair(index_at, std::move(wrong)); !s.ok()) return s;
  } else if (Status s = engine_->open(index_at, recovery.clean, left_.has_value()); !s.ok()) {
    return refused(s);
  }
  space_.claim_later();
  sequence_ = lease_ = pool_.root().batch_lease;
  if (recovery.clean) {
    records_ = engine_->noted_count();
    counted_ = true;
  }
  PERDURE_ASSERT(engine_ != nullptr && !closed_);
  if (!pool_.read_only()) {
    pm::Root root = pool_.root();
    root.clean = 0;
    pool_.publish_root(root);
    begin_sweep();
  }
  recovery.counted = counted_;
  recovery.records = records_;
  recovery.recover_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {};
}

std::uint64_t DashStore::sum_of_index() const {
  std::byte const* const at = pool_.base() + pool_.root().level[0].offset;
  return dash::sum_of_index(at, index() == Index::dash_lh ? dash::kLinearArrays : 0);
}

std::vector<std::string> DashStore::changed_words(Offset index) {
  auto note = pool_.closing_note();
  if (!note) return {note.status().message()};
  left_ = *note;
  if (!left_ || left_->sum == sum_of_index()) return {};
  return {"the words of its index at byte " + std::to_string(index.bytes) + " have another sum"};
}

std::optional<pm::ClosingNote> DashStore::closing_note() {
  if (pool_.read_only()) return left_;
  PERDURE_ASSERT(counted_);  // and so `records_` is what it holds
  if (!engine_->store_sums()) return std::nullopt;
  pm::ClosingNote note{};
  note.records = records_;
  note.sum = sum_of_index();
  return note;
}

/// The one bit of the index's words that keeps their sum from being what the close noted, put
/// right.
std::string DashStore::mend_index() {
  PERDURE_ASSERT(left_.has_value() && !pool_.read_only());
  std::byte* const at = pool_.base() + pool_.root().level[0].offset;
  std::vector<std::uint64_t> places{offsetof(dash::IndexRoot, directory),
                                    offsetof(dash::IndexRoot, first),
                                    offsetof(dash::IndexRoot, counted)};
  for (std::uint32_t i = 0; index() == Index::dash_lh && i < dash::kLinearArrays; ++i)
    places.push_back(dash::kDirectories + i * sizeof(std::uint64_t));
  for (std::uint64_t const place : places) {
    auto* const word = reinterpret_cast<std::uint64_t*>(at + place);
    for (std::uint32_t bit = 0; bit < 64; ++bit) {
      std::uint64_t const was = pm::load_word(at + place);
      pm::store_word(word, was ^ std::uint64_t{1} << bit);
      if (sum_of_index() == left_->sum)
        return "the word of its index at byte " +
               std::to_string(pool_.root().level[0].offset + place) +
               ": put right, nothing is lost";
      pm::store_word(word, was);
    }
  }
  return {};
}

/// Looks at all segments, and mends those that are damaged. What it does is noted in the pool
/// before it begins, and in full when it has ended.
Status DashStore::repair(Offset index, std::vector<std::string> wrong) {
  PERDURE_ASSERT(options.repair && recovery.clean);
  std::vector<std::string> mended;
  auto const note_found = [&](std::vector<std::string>& lines) {
    for (std::string& line : lines) line = "found: " + line;
    repairs_.add(lines);
    note_changes(recovery, lines);
  };
  auto const lost = [&](std::string const& why) {
    return Status{Code::corrupt, "pool " + path + ": no repair mends that " + why +
                                     "; restore a snapshot or load an export"};
  };
  bool const note_lost = !wrong.empty() && !left_;
  if (!wrong.empty()) {
    note_found(wrong);
    if (note_lost)
      mended.push_back(
          "without the note of the last close its segments' own sums were compared, but neither "
          "the words of its index "
          "nor the number of its records, which may have changed");
    else if (std::string line = mend_index(); !line.empty())
      mended.push_back(std::move(line));
  }
  // That there was a note says that each segment has its sum.
  if (Status s = engine_->open(index, true, left_.has_value() || note_lost); !s.ok())
    return lost(s.message());
  DashFaults damaged;
  static_cast<void>(engine_->positions(damaged));
  if (damaged.count != 0) note_found(damaged.first);
  if (wrong.empty() && damaged.count == 0) return {};
  engine_->begin_mending();
  DashFaults left;
  static_cast<void>(engine_->positions(left));
  std::vector<std::string> const segments = engine_->mended();
  mended.insert(mended.end(), segments.begin(), segments.end());
  repairs_.add(mended);
  if (left.count != 0) return lost(left.first.front());
  DashCount const count = engine_->count();
  mended.push_back(std::to_string(count.records) + " records are left" +
                   (left_ ? " of " + std::to_string(left_->records) : std::string()));
  repairs_.add(std::span(mended).last(1));
  note_changes(recovery, mended);
  recovery.repaired = true;
  if (left_ && left_->records > count.records) {
    recovery.dropped = left_->records - count.records;
    recovery.why_dropped = std::to_string(recovery.dropped) + " records were lost to damage";
  }
  engine_->note_count(count.records);
  return {};
}

void DashStore::begin_sweep() {
  PERDURE_ASSERT(swept_ && !sweeper_.joinable());
  if (engine_->depth() <= kDepthAtOnce && pool_.bytes() <= kBytesAtOnce) {
    // Damage leaves the number of records unknown: recovery().counted and stats() say so.
    if (engine_->sweep([] { return true; })) static_cast<void>(count_if_unknown());
    return;
  }
  swept_ = false;
  sweeper_ = std::thread([this] {
    // Ended early, by a lack of memory or by damage, it leaves unknown what is free: room comes
    // from elsewhere.
    static_cast<void>(caught([this]() -> Status {
      engine_->sweep([this] { return !stop_; });
      return {};
    }));
    std::lock_guard const lock(swept_mutex_);
    swept_ = true;
    swept_changed_.notify_all();
  });
}

void DashStore::stop_sweep() {
  stop_ = true;
  if (sweeper_.joinable()) sweeper_.join();
}

Status DashStore::close() {
  exec::ExclusiveHold const exclusive(open_);
  if (closed_) return {};
  stop_sweep();
  PERDURE_ASSERT(swept_);  // nobody else goes through the table
  closed_ = true;
  // Whatever fails in here, the pool is let go of, and was not closed in order.
  Status const done = given_up_ ? Status{} : caught([this]() -> Status {
    bool const counted = counted_ || count_records();
    last_ = stats_open();
    if (!counted) last_.damage = engine_->why_damaged().message();
    if (pool_.read_only()) return {};
    if (!counted)
      return corrupt("it was not closed in order, for it is damaged (" + last_.damage + ")");
    engine_->note_count(records_);
    auto const note = closing_note();
    pool_.publish_clean(note);
    return note ? Status{} : corrupt("it is damaged (" + engine_->why_damaged().message() + ")");
  });
  engine_.reset();
  pool_.close();
  return done;
}

Result<std::unique_ptr<Store::Impl>> DashStore::restore(std::string const& path,
                                                        RestoreOptions const& restore,
                                                        OpenOptions const& open, pm::Pool pool) {
  CreateOptions create;
  create.index = static_cast<Index>(pool.header().index);
  create.durability =
      restore.durability.value_or(static_cast<Durability>(pool.header().durability));
  create.log.dir = restore.log.dir;
  if (Status s = check_create(path, create); !s.ok()) return s;
  // Before anything is claimed: headers of blocks and records carry the pool's identity.
  pool.take_identity(static_cast<std::uint8_t>(create.durability));
  auto impl = DashStore::open(path, open, std::move(pool));
  if (!impl) return impl;
  if (Status s = static_cast<DashStore&>(**impl).pool_.keep(); !s.ok()) return s;
  return impl;
}

/// Nothing is written meanwhile, and nothing is locked: scans wait as well. Counting goes through
/// all segments, so that none is left whom a get would make sound, or split off.
Status DashStore::snapshot(std::string const& to, SnapshotOptions const& how) {
  exec::SharedHold const open(open_);
  if (Status s = check_open(false); !s.ok()) return s;
  {
    std::unique_lock lock(swept_mutex_);
    swept_changed_.wait(lock, [&] { return swept_; });
  }
  exec::ExclusiveHold const exclusive(changing_);
  if (!count_records())
    return corrupt("no snapshot of a damaged pool is made (" + engine_->why_damaged().message() +
                   ")");
  if (!pool_.read_only()) engine_->note_count(records_);
  wal::ImageInfo info;
  info.pool_id = pool_.header().pool_id;
  return wal::write_snapshot(to, make_options(how), info, {pool_.base(), pool_.bytes()},
                             pool_.closed_head(closing_note()));
}

}  // namespace perdure
