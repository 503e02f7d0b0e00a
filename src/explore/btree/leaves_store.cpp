// A B+-tree's store whose leaves are durable, over records in the heap
// (explore/btree/opened_store.hpp).
#include "explore/btree/opened_leaves.hpp"
#include "explore/btree/opened_on.hpp"
#include "pm/heap_headers.hpp"

namespace perdure::explore {
namespace {

template <class Keys>
class LeavesStore final : public OpenedInHeap<Keys, btree::PoolNodes> {
  using Base = OpenedInHeap<Keys, btree::PoolNodes>;

 public:
  LeavesStore(pm::Pool opened, Keeps keeps)
      : Base(std::move(opened), keeps),
        records_(this->space_),
        leaves_(this->parts_, records_, this->host_),
        opening_(this->pool_, leaves_) {}

  bool begin() override {
    if (this->table_.create(this->host_) != btree::Answer::done) return false;
    opening_.announce();
    return true;
  }

  std::optional<std::string> recover() override {
    if (auto wrong = look()) return wrong;
    if (auto wrong = opening_.fault_of_close()) return wrong;
    if (!leaves_.build(opening_.found).ok()) return "there is no memory for inner nodes";
    this->numbers_.begin();
    this->begin_writing();
    leaves_.settle(opening_.found);
    this->leaf_blocks_.finish_sweep();
    this->space_.finish_recovery();
    return std::nullopt;
  }

  void close() override { opening_.close(); }
  void make_room(std::vector<std::uint64_t> const& keys) override {
    Base::make_room(keys);
    make_room_for_leaf(this->table_.nodes());
  }

  std::optional<std::string> fault_of_room() override {
    this->epochs().drain();
    if (auto wrong = opening_.fault_of_chain(this->words().size())) return wrong;
    return this->fault_of_records([](std::uint64_t, bool led_to) { return !led_to; });
  }
  std::optional<std::string> fault_of_repairs() override {
    if (auto wrong = look()) return wrong;
    return opening_.fault_of_mended_links([this] { return look_again(); });
  }

 private:
  std::optional<std::string> look() {
    if (!pm::HeapHeaders(this->pool_).broken().empty()) return "a superblock's header is damaged";
    this->leaf_blocks_.find_superblocks_later();
    return look_again();
  }
  std::optional<std::string> look_again() {
    this->leaf_blocks_.begin_sweep();
    this->space_.find_superblocks();
    return opening_.look();
  }

  HeapLeafRecords records_;
  BtreeLeavesOn<typename Base::Parts, StoreHost> leaves_;
  LeavesOpening opening_;
};

}  // namespace

std::unique_ptr<OpenedStore> open_leaves_store(pm::Pool pool, StoreMaking const& how) {
  if (how.strings) return std::make_unique<LeavesStore<StringKeys>>(std::move(pool), how.keeps);
  return std::make_unique<LeavesStore<btree::WordKeys>>(std::move(pool), how.keeps);
}

}  // namespace perdure::explore
