// A B+-tree's store whose values are in the heap (explore/btree/opened_store.hpp).
#include "explore/btree/opened_on.hpp"
#include "pm/heap_headers.hpp"
#include "store/btree/btree_look.hpp"

namespace perdure::explore {
namespace {

template <class Keys>
class HeapStore final : public OpenedInHeap<Keys, btree::DramNodes> {
  using Base = OpenedInHeap<Keys, btree::DramNodes>;

 public:
  HeapStore(pm::Pool opened, Keeps keeps)
      : Base(std::move(opened), keeps), torn_(keeps == Keeps::flushed) {}

  bool begin() override { return table_.create(host_) == btree::Answer::done; }

  std::optional<std::string> recover() override {
    bool const clean = pool_.root().clean == 1;
    if (!pm::HeapHeaders(pool_).broken().empty()) return "a superblock's header is damaged";
    space_.find_superblocks();
    if (!begin()) return "there is no memory for the tree";
    BtreeFound found;
    auto const superblocks = space_.superblocks();
    BtreeLook(parts_, host_).rebuild(superblocks, found);
    if (!found.full.ok()) return found.full.message();
    // In memory behind caches a sequence may be there without the rest of its record: that is for
    // an opening with repair.
    if (!found.damaged.empty() && !(torn_ && !clean))
      return this->named(found.damaged[0]) + " is damaged";
    if (clean && !found.superseded.empty()) return "a key stands twice after a close";
    if (clean) {
      auto note = pool_.closing_note();
      if (!note || !*note || (*note)->records != found.records)
        return "there are " + std::to_string(found.records) + " records, and a close left others";
    }
    numbers_.begin();
    this->begin_writing();
    for (std::uint64_t const record : found.damaged)
      pm::make_free(host_, parts_.records.at(record));
    for (std::uint64_t const record : found.superseded)
      pm::make_free(host_, parts_.records.at(record));
    space_.finish_recovery();
    space_.give(found.superseded);
    return std::nullopt;
  }

  void close() override {
    pm::ClosingNote note{};
    note.records = this->words().size();
    pool_.publish_clean(note);
  }

  std::optional<std::string> fault_of_room() override {
    this->epochs().drain();
    return this->fault_of_records([this](std::uint64_t at, bool) {
      return pm::load_word(parts_.records.at(at) + offsetof(pm::RecordHeader, sequence)) == 0;
    });
  }

 private:
  using Base::host_;
  using Base::numbers_;
  using Base::parts_;
  using Base::pool_;
  using Base::space_;
  using Base::table_;

  bool torn_;  // a crash may leave records that are
};

}  // namespace

std::unique_ptr<OpenedStore> open_heap_store(pm::Pool pool, StoreMaking const& how) {
  if (how.strings) return std::make_unique<HeapStore<StringKeys>>(std::move(pool), how.keeps);
  return std::make_unique<HeapStore<btree::WordKeys>>(std::move(pool), how.keeps);
}

}  // namespace perdure::explore
