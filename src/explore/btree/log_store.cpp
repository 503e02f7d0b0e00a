// A B+-tree's store whose values are in a log (explore/btree/opened_store.hpp): the log's writers,
// collectors and recovery (pm/value_log), on simulated threads.
#include <algorithm>

#include "exec/workers.hpp"
#include "explore/btree/opened_store.hpp"
#include "pm/value_log/value_log.hpp"
#include "store/btree/log/btree_log_engine_on.hpp"

namespace perdure::explore {
namespace {

/// Where one thread is all there is, it collects itself what it would wait for.
class CollectsItself final : public fault::SimulatedThreads {
 public:
  explicit CollectsItself(pm::LogCollector& collector) : collector_(collector) {
    fault::simulated_threads = this;
  }
  ~CollectsItself() override { fault::simulated_threads = nullptr; }
  void give_way() override {
    if (collector_.collect_queued() == 0) throw Stuck();
  }
  void locks() override {}
  void locked(void const*) override {}
  void unlocks(void const*) override {}

 private:
  pm::LogCollector& collector_;
};

class LogStore final : public OpenedStore {
 public:
  LogStore(pm::Pool opened, Keeps keeps, std::uint64_t most_queued)
      : OpenedStore(std::move(opened), keeps),
        most_queued_(most_queued),
        index_(parts_, host_),
        log_(pool_, memory_, [this] { return make_btree_log_index(parts_, host_); },
             {kSuperblock, 0, most_queued}) {
    options_.value_bytes = 0;
  }

  bool begin() override {
    if (table_.create(host_) != btree::Answer::done) return false;
    pm::ValueLog::announce(pool_, kSuperblock);
    log_.begin();
    return true;
  }

  std::optional<std::string> recover() override {
    bool const clean = pool_.root().clean == 1;
    auto const segments = pm::ValueLog::segment_bytes(pool_);
    if (!segments || segments.value() != kSuperblock) return "the root has no log";
    if (table_.create(host_) != btree::Answer::done) return "there is no memory for the tree";
    auto const found = log_.recover(workers_);
    if (!found) return found.status().message();
    if (!found.value().damage.empty()) return found.value().damage[0];
    if (clean) {
      auto note = pool_.closing_note();
      if (!note || !*note || (*note)->records != found.value().current)
        return "there are " + std::to_string(found.value().current) +
               " records, and a close left others";
    }
    numbers_.begin();
    begin_writing();
    log_.begin();
    return std::nullopt;
  }

  void close() override {
    log_.close();
    pm::ClosingNote note{};
    note.records = words().size();
    pool_.publish_clean(note);
  }

  void make_room() override { static_cast<void>(numbers_.take(1)); }
  std::uint64_t collect() override {
    std::uint64_t const collected = log_.collector().collect_queued();
    epochs().collect();
    return collected;
  }

  std::vector<std::uint64_t> fill(Filled const& how, std::uint64_t key) override {
    std::uint64_t const full = kSuperblock - kSuperblock / 8;
    std::uint64_t const left =
        how.left + (how.stay || how.collected ? 0 : kMostOfFill * pm::log_bytes(8, 0));
    std::vector<std::uint64_t> keys;
    for (std::uint64_t end = fullest(); full > end + left + kSmall; end = fullest()) {
      std::uint64_t const room = full - end - left;
      std::uint64_t const whole = room >= kBig + kSmall ? kBig : room;
      auto const bytes = static_cast<std::uint32_t>(whole - sizeof(pm::RecordHeader) - 8 -
                                                    (pm::kRecordAlign - 1)) /
                             16 * 16 +
                         16;
      if (apply({{OpKind::put, key, key, bytes}}).statuses[0] != 0) break;
      keys.push_back(key++);
    }
    for (; !how.stay && !keys.empty(); keys.pop_back()) apply({{OpKind::erase, keys.back(), 0}});
    return keys;
  }

  void cancel(std::uint64_t key) override {
    for (std::uint64_t i = 0; i < 4; ++i) {
      apply({{OpKind::put, key + i, 0, 7200}});
      std::uint64_t const word = word_of(key + i);
      pm::store_word(pm::sequence_word(pool_.base() + word), 0);
    }
  }

  std::shared_ptr<void> hold() override {
    auto held = std::make_shared<pm::LogAppender>(log_.segments(), index_.host());
    static_cast<void>(held->reserve(1, pm::LogSegments::For::puts));
    return held;
  }

  std::optional<std::string> fault_of_room() override {
    for (std::uint64_t const word : words()) {
      pm::LogRecord item;
      if (!pm::view_log_record(pool_.base(), pool_.bytes(), Offset{word}, item) ||
          item.tag.tombstone || !pm::is_whole(item))
        return "an entry leads to " + named(word) + ", which is no item";
      if (log_.segments().of(Offset{word}).use == pm::LogSegment::Use::free)
        return "an entry leads to " + named(word) + ", whose segment is free";
    }
    return std::nullopt;
  }
  std::optional<std::string> fault_of_writes() override { return wrong_; }

 private:
  static constexpr std::uint64_t kBig = 7040, kSmall = 48;  // bytes of records
  static constexpr std::uint64_t kMostOfFill = 5;  // large records of a segment

  void write(threads::Batch const& batch, threads::Ops const& ops) override {
    auto const before = queued();
    threads::Tally tally;
    std::optional<CollectsItself> alone;
    if (!fault::simulated()) alone.emplace(log_.collector());
    BtreeLogIndex index(parts_, host_);
    BtreeLogRun(batch, ops, options_, tally).run(log_, index);
    auto const after = queued();
    // It is to have waited until a collector took one of them.
    if (before.size() >= most_queued_ && std::ranges::includes(after, before))
      wrong_ = "a write goes on though " + std::to_string(before.size()) + " segments are queued";
  }
  [[nodiscard]] std::uint64_t word_of(std::uint64_t key) {
    pm::LogKey const bytes = std::as_bytes(std::span(&key, 1));
    std::uint64_t word = 0;
    exec::EpochGuard const guard(epochs());
    index_.find({&bytes, 1}, {&word, 1});
    return word;
  }
  [[nodiscard]] std::vector<pm::LogSegment const*> queued() const {
    std::vector<pm::LogSegment const*> all;
    for (auto const& each : log_.segments().all())
      if (each->use == pm::LogSegment::Use::queued) all.push_back(each.get());
    std::ranges::sort(all);
    return all;
  }
  /// Where records of the segment end that is appended to next.
  [[nodiscard]] std::uint64_t fullest() const {
    std::uint64_t end = pm::kFirstLogRecord;
    for (auto const& each : log_.segments().all())
      if (each->use == pm::LogSegment::Use::partial) end = std::max(end, each->fill.end);
    return end;
  }

  std::uint64_t most_queued_;
  BtreeLogIndex<Parts, StoreHost> index_;
  exec::Workers workers_{1};
  pm::ValueLog log_;
  std::optional<std::string> wrong_;
};

}  // namespace

std::unique_ptr<OpenedStore> open_log_store(pm::Pool pool, Keeps keeps, std::uint64_t most_queued) {
  return std::make_unique<LogStore>(std::move(pool), keeps, most_queued);
}

}  // namespace perdure::explore
