// A B+-tree's store whose values are in the heap (explore/btree/opened_store.hpp).
#include <algorithm>

#include "explore/btree/opened_store.hpp"
#include "pm/heap_headers.hpp"
#include "store/btree/btree_look.hpp"

namespace perdure::explore {
namespace {

class HeapStore final : public OpenedStore {
 public:
  HeapStore(pm::Pool opened, Keeps keeps)
      : OpenedStore(std::move(opened), keeps), torn_(keeps == Keeps::flushed) {}

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
      return named(found.damaged[0]) + " is damaged";
    if (clean && !found.superseded.empty()) return "a key stands twice after a close";
    if (clean) {
      auto note = pool_.closing_note();
      if (!note || !*note || (*note)->records != found.records)
        return "there are " + std::to_string(found.records) + " records, and a close left others";
    }
    numbers_.begin();
    begin_writing();
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
    note.records = words().size();
    pool_.publish_clean(note);
  }

  void make_room() override {
    std::vector<std::uint64_t> one;
    if (space_.take(stride(), 1, one).ok()) space_.give(one);
    static_cast<void>(numbers_.take(1));
  }

  std::optional<std::string> fault_of_room() override {
    epochs().drain();
    auto const all = words();
    if (std::ranges::adjacent_find(all) != all.end()) return "two entries lead to one record";
    std::uint64_t found = 0;
    for (auto const& superblock : space_.superblocks()) {
      for (std::uint64_t i = 0; i < space_.shape().capacity(superblock.stride); ++i) {
        std::uint64_t const at = superblock.at + space_.shape().address(superblock.stride, i);
        bool const free =
            pm::load_word(parts_.records.at(at) + offsetof(pm::RecordHeader, sequence)) == 0;
        bool const led_to = std::ranges::binary_search(all, at);
        found += led_to;
        if (free == led_to)
          return named(at) + (free ? " is free, and an entry leads to it"
                                   : " is valid, and no entry leads to it");
        if (space_.in_use(at) != led_to)
          return named(at) +
                 (led_to ? " is in use, and counts as free" : " is free, and counts as in use");
      }
    }
    return found == all.size() ? std::nullopt
                               : std::optional<std::string>("an entry leads to no record");
  }

 private:
  void write(threads::Batch const& batch, threads::Ops const& ops) override {
    threads::Tally tally;
    BtreeWrites(parts_, host_, batch, tally).run(ops);
  }
  [[nodiscard]] static std::uint64_t stride() { return pm::stride_for(pm::record_bytes(8, 8)); }

  bool torn_;  // a crash may leave records that are
};

}  // namespace

std::unique_ptr<OpenedStore> open_heap_store(pm::Pool pool, Keeps keeps) {
  return std::make_unique<HeapStore>(std::move(pool), keeps);
}

}  // namespace perdure::explore
