// A B+-tree's store that is durable as a whole (explore/btree/opened_store.hpp): the store's own
// engine, on a Host that keeps what a fence comes after. Invariant: batches are transactions; a
// lone batch is one, and so is a bulk load.
#include "explore/btree/opened_on.hpp"
#include "pm/heap_headers.hpp"
#include "store/btree/full/full_engine_on.hpp"

namespace perdure::explore {
namespace {

class FencedHost : public StoreHost {
 public:
  FencedHost() : StoreHost(Keeps::fenced) {}
};

template <class Keys>
class FullStore final : public OpenedStore {
 public:
  explicit FullStore(pm::Pool opened)
      : OpenedStore(std::move(opened), Keeps::fenced, KeyForm(Keys::kTails)),
        engine_(pool_, memory_, keys_of<Keys>(pool_), space_, numbers_, with_flag()) {}

  bool begin() override { return engine_.create().ok(); }

  std::optional<std::string> recover() override {
    bool const clean = pool_.root().clean == 1;
    auto recovered = engine_.recover(false, false);
    if (!recovered) return recovered.status().message();
    if (!pm::HeapHeaders(pool_).broken().empty()) return "a superblock's header is damaged";
    space_.load_later();
    if (!recovered->fault.empty()) return recovered->fault;
    records_ = recovered->records;
    if (clean) {
      auto note = pool_.closing_note();
      if (!note || !*note || (*note)->records != records_)
        return "there are " + std::to_string(records_) + " records, and a close left others";
      if ((*note)->sum != engine_.sum()) return "a close left a tree of another sum";
    }
    numbers_.begin();
    begin_writing();
    return std::nullopt;
  }
  void close() override {
    pm::ClosingNote note{};
    note.records = records_;
    note.sum = engine_.sum();
    pool_.publish_clean(note);
  }
  void make_room(std::vector<std::uint64_t> const&) override {
    static_cast<void>(numbers_.take(1));
  }

  Answers apply(StoreBatch const& batch) override {
    StoreCall of(batch, form_);
    if (of.reads()) return part(of);
    begin_batch();
    Answers answers = part(of);
    if (!commit_batch()) std::ranges::fill(answers.statuses, kPending);
    return answers;
  }
  Answers load(StoreBatch const& batch) override {
    StoreCall of(batch, form_);
    of.call.kinds = {};
    of.call.kind = OpKind::put;
    begin_batch();
    threads::Batch const whole{&of.call, of.answers.statuses.data(), numbers_.take(of.count())};
    bool const loaded = engine_.load(whole, workers_, nullptr, tally_);
    PERDURE_ASSERT(loaded);
    return std::move(of.answers);
  }
  void begin_batch() override {
    tally_ = {};
    engine_.begin();
  }
  Answers apply_part(StoreBatch const& batch) override {
    StoreCall of(batch, form_);
    return part(of);
  }
  bool commit_batch() override {
    std::uint64_t const records = records_ + tally_.inserted - tally_.erased;
    if (!engine_.commit(records).ok()) return false;
    records_ = records;
    return true;
  }

  std::optional<std::string> fault_of_room() override {
    threads::Faults faults;
    engine_.check_tree(faults);
    return faults.count == 0 ? std::nullopt : std::optional(faults.first.front());
  }

 private:
  BtreePage all(Visit const& visit) override {
    return engine_.range({}, ~std::size_t{0}, ~std::uint64_t{0}, visit);
  }
  BtreeOptions with_flag() {
    BtreeOptions options = options_;
    options.given_up = &given_up_;
    return options;
  }
  Answers part(StoreCall& of) {
    threads::Batch batch{&of.call, of.answers.statuses.data(), 0};
    threads::Ops const ops{nullptr, 0, of.count()};
    if (of.reads()) {
      threads::Tally tally;
      engine_.get(batch, ops, tally);
      return std::move(of.answers);
    }
    batch.sequence = numbers_.take(of.count());
    threads::Tally mine;
    // Of a long one each operation is a run of its own, as if a thread did many runs.
    std::size_t const each = of.count() > kRun ? 1 : of.count();
    for (std::size_t at = 0; at < of.count(); at += each)
      engine_.write(batch, {nullptr, at, each}, mine);
    tally_.inserted += mine.inserted;
    tally_.erased += mine.erased;
    return std::move(of.answers);
  }

  static constexpr std::size_t kRun = 16;  // operations

  std::atomic<bool> given_up_{false};
  exec::Workers workers_{1};
  full::EngineOn<Keys, FencedHost> engine_;
  threads::Tally tally_;  // of the transaction that is open
  std::uint64_t records_ = 0;
};

}  // namespace

std::unique_ptr<OpenedStore> open_full_store(pm::Pool pool, StoreMaking const& how) {
  if (how.strings) return std::make_unique<FullStore<StringKeys>>(std::move(pool));
  return std::make_unique<FullStore<btree::WordKeys>>(std::move(pool));
}

}  // namespace perdure::explore
