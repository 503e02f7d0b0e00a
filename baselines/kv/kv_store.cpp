// The pool that a design lies in, and its sessions.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "index/btree/layout.hpp"
#include "kv_baseline.hpp"
#include "kv_design.hpp"
#include "pm/record_shape.hpp"

namespace perdure::kv_baselines {
namespace {

constexpr std::uint64_t kSuperblock = pm::kMaxSuperblock;
constexpr std::uint32_t kKeyBytes = 8;

bool has_log(Options const& o) { return o.design.starts_with("log"); }

pm::PoolHeader header_of(Options const& o) {
  pm::PoolHeader header{};
  header.index = static_cast<std::uint8_t>(Index::btree);
  header.superblock_bytes = kSuperblock;
  header.max_bytes = o.max_bytes / kSuperblock * kSuperblock;
  header.key_bytes = header.max_key_bytes = kKeyBytes;
  header.value_bytes = header.max_value_bytes = o.value_bytes;
  Persist const persist = o.design == "heap-full"        ? Persist::full
                          : o.design.ends_with("-index") ? Persist::index
                                                         : Persist::minimal;
  header.persist = static_cast<std::uint8_t>(persist);
  header.levels = header.hashes = header.slots = 1;
  return header;
}

PartSeconds seconds_of(PartClock const& clock) {
  return {clock.ns(pm::Part::index) * 1e-9, clock.ns(pm::Part::space) * 1e-9,
          clock.ns(pm::Part::value) * 1e-9};
}

class SessionOn final : public Session {
 public:
  SessionOn(Design& design, threads::BatchNumbers& numbers, std::uint32_t value_bytes, AnyHost host)
      : design_(design), numbers_(numbers), value_bytes_(value_bytes), host_(std::move(host)) {}

  std::uint64_t apply(Batch const& batch) override {
    std::size_t const n = batch.keys.size();
    Call call;
    call.keys = {reinterpret_cast<std::byte const*>(batch.keys.data()), nullptr, kKeyBytes, n};
    call.values = {batch.values.data(), nullptr, value_bytes_, n};
    call.out = {batch.out.data(), value_bytes_, n};
    if (batch.kinds.size() == 1)
      call.kind = batch.kinds[0];
    else
      call.kinds = batch.kinds;
    statuses_.assign(n, kPending);
    threads::Tally tally;
    enters(host_, pm::Part::space);
    design_.run(host_, {&call, statuses_.data(), numbers_.take(n)}, tally);
    std::visit([](auto& h) { h.leaves(); }, host_);
    if (tally.refused != 0) last_ = std::move(tally.why_refused);
    auto const ok = static_cast<std::uint8_t>(KeyStatus::ok);
    return n - static_cast<std::uint64_t>(std::ranges::count(statuses_, ok));
  }
  [[nodiscard]] Status last_status() const override { return last_; }
  std::uint64_t scan(
      std::uint64_t from, std::size_t most,
      std::function<void(std::uint64_t, std::span<std::byte const>)> const& visit) override {
    BtreeRange range;
    range.start = std::as_bytes(std::span(&from, 1));
    auto const each = [&](std::span<std::byte const> key, std::span<std::byte const> value) {
      std::uint64_t number = 0;
      std::memcpy(&number, key.data(), sizeof number);
      visit(number, value);
    };
    return design_.range(host_, range, most, each).records;
  }
  [[nodiscard]] Counts counts() const override {
    auto const* const counted = std::get_if<Counted>(&host_);
    if (counted == nullptr) return {};
    pm::LineCounts const& c = counted->counts();
    return {c.lines_read, c.lines_written, c.lines_flushed, c.fences};
  }
  [[nodiscard]] PartSeconds part_seconds() const override {
    PartClock const* const parts = std::visit([](auto& h) { return h.parts(); }, host_);
    return parts == nullptr ? PartSeconds{} : seconds_of(*parts);
  }
  [[nodiscard]] double emulating_seconds() const override {
    auto const* const emulated = std::get_if<Emulated>(&host_);
    return emulated == nullptr ? 0 : emulated->own_ns() * 1e-9;
  }
  void reset() override {
    if (auto* const counted = std::get_if<Counted>(&host_)) counted->reset_counts();
    if (auto* const emulated = std::get_if<Emulated>(&host_)) emulated->reset_clock();
    if (auto* const parts = std::visit([](auto& h) { return h.parts(); }, host_)) parts->reset();
  }

 private:
  Design& design_;
  threads::BatchNumbers& numbers_;
  std::uint32_t value_bytes_;
  AnyHost host_;
  std::vector<std::uint8_t> statuses_;
  Status last_;
};

class StoreOn final : public Store {
 public:
  StoreOn(pm::Pool pool, Options const& options)
      : options_(options),
        pool_(std::move(pool)),
        space_(pool_, memory_),
        numbers_(pool_, memory_),
        leaves_(pool_, memory_, sizeof(btree::Leaf)),
        medium_({options.medium.read_gb_per_s, options.medium.write_gb_per_s,
                 options.medium.read_ns, options.medium.near_ns}) {
    Base const base{pool_,    memory_, space_,
                    numbers_, leaves_, [this] { return make_host(options_.kept); }};
    BtreeOptions tree;
    tree.key_bytes = kKeyBytes;
    tree.value_bytes = options.value_bytes;
    tree.given_up = &given_up_;
    pm::LogSettings const log{kSuperblock, options.collectors, options.most_queued,
                              pm::log_bytes(kKeyBytes, options.value_bytes)};
    design_ = options.design == "log"          ? make_log(base, tree, log)
              : options.design == "log-index"  ? make_log_index(base, tree, log)
              : options.design == "heap-index" ? make_heap_index(base, tree)
              : options.design == "heap-full"  ? make_heap_full(base, tree)
                                               : make_heap(base, tree);
  }

  Status begin() { return design_->create(); }
  Status recover(std::uint32_t threads, Recovery& recovery) {
    numbers_.begin();
    auto host = make_host(options_.kept);
    exec::Workers workers(threads);
    auto const records = design_->recover(host, workers);
    if (!records) return records.status();
    std::visit([](auto& h) { h.leaves(); }, host);
    recovery.records = records.value();
    MutexLock const lock(clocks_mutex_);
    for (auto const& clock : clocks_) {
      PartSeconds const more = seconds_of(*clock);
      recovery.parts.index += more.index;
      recovery.parts.space += more.space;
      recovery.parts.value += more.value;
    }
    return {};
  }

  [[nodiscard]] std::unique_ptr<Session> session() override { return session(options_.kept); }
  [[nodiscard]] std::unique_ptr<Session> filling_session() override {
    return session(options_.kept || options_.host != HostKind::emulated);
  }
  void wait_for_collectors() override {
    pm::ValueLog const* const log = design_->value_log();
    while (log != nullptr && log->counters().segments.queued != 0)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  [[nodiscard]] Collected collected() const override {
    pm::ValueLog const* const log = design_->value_log();
    if (log == nullptr) return {};
    auto const c = log->counters();
    return {c.collector.collections, c.collector.moved_bytes, c.appended_bytes, c.segments.waits,
            c.segments.longest_wait_ns};
  }
  [[nodiscard]] MediaWrites media_writes() const override {
    return {medium_.writes().lines, medium_.writes().internal};
  }
  [[nodiscard]] std::uint64_t pool_bytes() const override { return pool_.bytes(); }

 private:
  std::unique_ptr<Session> session(bool kept) {
    return std::make_unique<SessionOn>(*design_, numbers_, options_.value_bytes, make_host(kept));
  }
  AnyHost make_host(bool kept) {
    pm::DurableRange const range({pool_.base(), pool_.header().max_bytes});
    auto clock = options_.parts ? std::make_shared<PartClock>() : nullptr;
    if (clock != nullptr) {
      MutexLock const lock(clocks_mutex_);
      clocks_.push_back(clock);
    }
    switch (options_.host) {
      case HostKind::counted: return Counted(kept, range, clock, range);
      case HostKind::emulated:
        return Emulated(kept, range, clock, medium_, range, options_.emulated_cache_bytes);
      case HostKind::flushed: break;
    }
    return Flushed(kept, range, clock);
  }

  Options options_;
  pm::Pool pool_;
  Mutex memory_;
  threads::Space space_;
  threads::BatchNumbers numbers_;
  pm::Blocks leaves_;
  pm::EmulatedMedium medium_;
  std::atomic<bool> given_up_{false};
  Mutex clocks_mutex_;
  std::vector<std::shared_ptr<PartClock>> clocks_;
  std::unique_ptr<Design> design_;
};

Status check(Options const& options) {
  if (options.value_bytes >= 8 && options.value_bytes <= kSuperblock / 16) return {};
  return {Code::invalid_argument,
          "values have 8 bytes to 256 KiB, not " + std::to_string(options.value_bytes)};
}

}  // namespace

std::vector<std::string> names() { return {"heap", "log", "heap-index", "log-index", "heap-full"}; }

Result<std::unique_ptr<Store>> create(std::string const& path, Options const& options) {
  if (Status s = check(options); !s.ok()) return s;
  std::uint64_t const superblocks = 2 + options.reserve_bytes / kSuperblock;
  auto pool = pm::Pool::create(path, header_of(options), superblocks, {}, {});
  if (!pool) return pool.status();
  if (has_log(options)) pm::ValueLog::announce(*pool, kSuperblock);
  if (Status s = pool->keep(); !s.ok()) return s;
  auto store = std::make_unique<StoreOn>(std::move(*pool), options);
  if (Status s = store->begin(); !s.ok()) return s;
  return Result<std::unique_ptr<Store>>(std::move(store));
}

Result<std::unique_ptr<Store>> recover(std::string const& path, Options const& options,
                                       std::uint32_t threads, Recovery& recovery) {
  if (Status s = check(options); !s.ok()) return s;
  if (threads > 1 && (options.parts || options.host != HostKind::flushed))
    return Status{
        Code::invalid_argument,
        "several threads recover with real flushes, and tell no parts: choose one thread"};
  auto const begin = std::chrono::steady_clock::now();
  auto pool = pm::Pool::open(path, {});
  if (!pool) return pool.status();
  auto const mapped = std::chrono::steady_clock::now();
  recovery.map_seconds = std::chrono::duration<double>(mapped - begin).count();
  auto store = std::make_unique<StoreOn>(std::move(*pool), options);
  if (Status s = store->recover(threads, recovery); !s.ok()) return s;
  return Result<std::unique_ptr<Store>>(std::move(store));
}

}  // namespace perdure::kv_baselines
