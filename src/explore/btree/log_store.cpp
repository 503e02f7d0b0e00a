// A B+-tree's store whose values are in a log (explore/btree/opened_store.hpp): the log's writers,
// collectors and recovery (pm/value_log), on simulated threads; below a tree that each opening
// makes anew, or one whose leaves are durable.
#include "explore/btree/opened_leaves.hpp"
#include "explore/btree/opened_on.hpp"
#include "pm/value_log/value_log.hpp"
#include "store/btree/log/btree_log_engine_on.hpp"
#include "store/btree/log/btree_log_leaf_records.hpp"

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

template <class Keys, class Nodes>
class LogStore : public OpenedOn<Keys, Nodes> {
  using Base = OpenedOn<Keys, Nodes>;

 public:
  LogStore(pm::Pool opened, StoreMaking const& how)
      : Base(std::move(opened), how.keeps),
        most_queued_(how.most_queued),
        index_(this->parts_, this->host_),
        log_(this->pool_, this->memory_,
             [this] { return make_btree_log_index(this->parts_, this->host_); },
             {OpenedStore::kSuperblock, 0, how.most_queued}) {
    this->options_.value_bytes = 0;
  }

  bool begin() override {
    if (this->table_.create(this->host_) != btree::Answer::done) return false;
    pm::ValueLog::announce(this->pool_, OpenedStore::kSuperblock);
    log_.begin();
    return true;
  }

  std::optional<std::string> recover() override {
    bool const clean = this->pool_.root().clean == 1;
    auto const segments = pm::ValueLog::segment_bytes(this->pool_);
    if (!segments || segments.value() != OpenedStore::kSuperblock) return "the root has no log";
    if (this->table_.create(this->host_) != btree::Answer::done)
      return "there is no memory for the tree";
    auto const found = log_.recover(this->workers_);
    if (!found) return found.status().message();
    if (!found.value().damage.empty()) return found.value().damage[0];
    if (clean) {
      auto note = this->pool_.closing_note();
      if (!note || !*note || (*note)->records != found.value().current)
        return "there are " + std::to_string(found.value().current) +
               " records, and a close left others";
    }
    this->numbers_.begin();
    this->begin_writing();
    log_.begin();
    return std::nullopt;
  }

  void close() override {
    log_.close();
    pm::ClosingNote note{};
    note.records = this->words().size();
    this->pool_.publish_clean(note);
  }

  void make_room(std::vector<std::uint64_t> const&) override {
    static_cast<void>(this->numbers_.take(1));
  }
  std::uint64_t collect() override {
    std::uint64_t const collected = log_.collector().collect_queued();
    this->epochs().collect();
    return collected;
  }

  std::vector<std::uint64_t> fill(Filled const& how, std::uint64_t key) override {
    std::uint64_t const full = OpenedStore::kSuperblock - OpenedStore::kSuperblock / 8;
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
      if (this->apply({{OpKind::put, key, key, bytes}}).statuses[0] != 0) break;
      keys.push_back(key++);
    }
    for (; !how.stay && !keys.empty(); keys.pop_back())
      this->apply({{OpKind::erase, keys.back(), 0}});
    return keys;
  }

  void cancel(std::uint64_t key) override {
    for (std::uint64_t i = 0; i < 4; ++i) {
      this->apply({{OpKind::put, key + i, 0, 7200}});
      std::uint64_t const word = address_of(key + i);
      auto const bytes = this->form_.bytes(key + i);
      index_.erase(bytes);  // no leaf leads to what is cancelled
      pm::store_word(pm::sequence_word(this->pool_.base() + word), 0);
    }
  }

  std::shared_ptr<void> hold() override {
    auto held = std::make_shared<pm::LogAppender>(log_.segments(), index_.host());
    static_cast<void>(held->reserve(1, pm::LogSegments::For::puts));
    return held;
  }

  std::optional<std::string> fault_of_holding(std::uint64_t key) override {
    exec::EpochGuard const guard(this->epochs());
    std::uint64_t const address = address_of(key);
    if (address == 0) return "a key is not there that nobody erases";
    pm::LogSegment const& mine = log_.segments().of(Offset{address});
    std::uint32_t const generation = mine.generation;
    auto const is_free = [](auto const& each) { return each->use == pm::LogSegment::Use::free; };
    for (int n = 0; n < kWhile; ++n) {
      StoreHost::pause();
      auto const all = log_.segments().all();
      // Those that wait for readers are free, and nobody's to take.
      auto const free = static_cast<std::uint64_t>(std::ranges::count_if(all, is_free));
      bool const taken =
          mine.use == pm::LogSegment::Use::free && free == log_.segments().counters().free;
      if (taken || mine.generation != generation)
        return "a segment may be filled anew while a reader has an item of it";
    }
    return std::nullopt;
  }

  std::optional<std::string> fault_of_room() override {
    for (std::uint64_t const word : this->words()) {
      pm::LogRecord item;
      if (!pm::view_log_record(this->pool_.base(), this->pool_.bytes(), Offset{word}, item) ||
          item.tag.tombstone || !pm::is_whole(item))
        return "an entry leads to " + this->named(word) + ", which is no item";
      if (log_.segments().of(Offset{word}).use == pm::LogSegment::Use::free)
        return "an entry leads to " + this->named(word) + ", whose segment is free";
    }
    return std::nullopt;
  }
  std::optional<std::string> fault_of_writes() override { return wrong_; }

 protected:
  [[nodiscard]] pm::ValueLog& log() { return log_; }

 private:
  static constexpr std::uint64_t kBig = 7040, kSmall = 48;  // bytes of records
  static constexpr int kWhile = 200;  // switches to other threads
  static constexpr std::uint64_t kMostOfFill = 5;  // large records of a segment

  void write(threads::Batch const& batch, threads::Ops const& ops) override {
    auto const before = queued();
    threads::Tally tally;
    std::optional<CollectsItself> alone;
    if (!fault::simulated()) alone.emplace(log_.collector());
    BtreeLogIndex index(this->parts_, this->host_);
    BtreeLogRun(batch, ops, this->options_, tally).run(log_, index);
    auto const after = queued();
    // It is to have waited until a collector took one of them.
    if (before.size() >= most_queued_ && std::ranges::includes(after, before))
      wrong_ = "a write goes on though " + std::to_string(before.size()) + " segments are queued";
  }
  /// Of the key's item; 0: there is none.
  [[nodiscard]] std::uint64_t address_of(std::uint64_t key) {
    auto const bytes = this->form_.bytes(key);
    pm::LogKey const as_key(bytes);
    std::uint64_t word = 0;
    exec::EpochGuard const guard(this->epochs());
    index_.find({&as_key, 1}, {&word, 1});
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
  [[nodiscard]] std::uint64_t fullest() {
    log_.segments().empty_hands();
    std::uint64_t end = pm::kFirstLogRecord;
    for (auto const& each : log_.segments().all())
      if (each->use == pm::LogSegment::Use::partial) end = std::max(end, each->fill.end);
    return end;
  }

  std::uint64_t most_queued_;
  BtreeLogIndex<typename Base::Parts, StoreHost> index_;
  pm::ValueLog log_;
  pm::LogAttended attended_{log_.segments()};  // by threads of the run, or by CollectsItself
  std::optional<std::string> wrong_;
};

/// The log says nothing of keys: leaves that are durable do.
template <class Keys>
class LogLeavesStore final : public LogStore<Keys, btree::PoolNodes> {
  using Base = LogStore<Keys, btree::PoolNodes>;

 public:
  LogLeavesStore(pm::Pool opened, StoreMaking const& how)
      : Base(std::move(opened), how),
        records_(this->log().recovery()),
        leaves_(this->parts_, records_, this->host_),
        opening_(this->pool_, leaves_) {}

  bool begin() override {
    if (!Base::begin()) return false;
    opening_.announce();
    return true;
  }

  std::optional<std::string> recover() override {
    if (!this->leaf_blocks_.damaged().empty()) return "the header of some leaves is damaged";
    pm::LogRecovered in_log;
    this->log().recovery().find(in_log);
    if (!in_log.damage.empty()) return in_log.damage[0];
    this->leaf_blocks_.find_superblocks_later();
    this->leaf_blocks_.begin_sweep();
    this->log().recovery().begin_count();
    if (auto wrong = opening_.look()) return wrong;
    if (auto wrong = opening_.fault_of_close()) return wrong;
    if (!leaves_.build(opening_.found).ok()) return "there is no memory for inner nodes";
    this->numbers_.begin();
    this->log().end_count(in_log);
    if (!in_log.damage.empty()) return in_log.damage[0];
    this->begin_writing();
    leaves_.settle(opening_.found);
    this->leaf_blocks_.finish_sweep();
    this->space_.finish_recovery();
    this->log().begin();
    return fault_of_counts();
  }

  void close() override {
    this->log().close();
    opening_.close();
  }
  void make_room(std::vector<std::uint64_t> const& keys) override {
    Base::make_room(keys);
    make_room_for_leaf(this->table_.nodes());
  }
  std::optional<std::string> fault_of_room() override {
    this->epochs().drain();
    if (auto wrong = Base::fault_of_room()) return wrong;
    return opening_.fault_of_chain(this->words().size());
  }

 private:
  /// After an opening a segment has what leaves lead to, and all else in it is outdated.
  std::optional<std::string> fault_of_counts() {
    std::map<pm::LogSegment const*, std::uint64_t> led_to;
    for (std::uint64_t const word : this->words()) {
      pm::LogRecord item;
      if (!pm::view_log_record(this->pool_.base(), this->pool_.bytes(), Offset{word}, item))
        return "an entry leads to " + this->named(word) + ", which is no item";
      pm::LogSegment const& segment = this->log().segments().of(Offset{word});
      led_to[&segment] += item.bytes();
      if (word + item.bytes() > segment.at.bytes + segment.fill.end)
        return "an entry leads beyond the end of its segment, to " + this->named(word);
    }
    for (auto const& each : this->log().segments().all()) {
      if (each->use == pm::LogSegment::Use::free) continue;
      std::uint64_t const used = each->fill.end - pm::kFirstLogRecord;
      if (each->outdated.load() + led_to[each.get()] != used)
        return "the segment at byte " + std::to_string(each->at.bytes) + " counts " +
               std::to_string(each->outdated.load()) + " outdated bytes of " +
               std::to_string(used) + ", and entries lead to " + std::to_string(led_to[each.get()]);
    }
    return std::nullopt;
  }

  LogLeafRecords records_;
  BtreeLeavesOn<typename Base::Parts, StoreHost> leaves_;
  LeavesOpening opening_;
};

}  // namespace

std::unique_ptr<OpenedStore> open_log_store(pm::Pool pool, StoreMaking const& how) {
  using btree::WordKeys;
  if (how.leaves && how.strings)
    return std::make_unique<LogLeavesStore<StringKeys>>(std::move(pool), how);
  if (how.leaves) return std::make_unique<LogLeavesStore<WordKeys>>(std::move(pool), how);
  if (how.strings)
    return std::make_unique<LogStore<StringKeys, btree::DramNodes>>(std::move(pool), how);
  return std::make_unique<LogStore<WordKeys, btree::DramNodes>>(std::move(pool), how);
}

}  // namespace perdure::explore
