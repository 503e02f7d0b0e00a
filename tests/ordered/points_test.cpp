// A store of index btree, cut off after each store of a word to its pool: each operation is done by
// then or not, whichever number it has. The tree, the runs and the records are the store's own, on
// a Host that looks at the pool as a kill would leave it.
#include <gtest/gtest.h>

#include <functional>

#include "index/btree/pool_nodes.hpp"
#include "ordered_store.hpp"
#include "pm/root.hpp"
#include "store/btree/btree_runs.hpp"
#include "store/btree/leaves/btree_leaves.hpp"
#include "support/cut_pool.hpp"

namespace perdure::test {
namespace {

using Contents = std::map<Bytes, Bytes>;

/// `Nodes`: where leaves lie, in DRAM or in the pool.
template <class Nodes>
class CutStore {
 public:
  using Keys = btree::ByteKeys<BtreeRecords>;
  using Tree = btree::Tree<Keys, Nodes>;

  CutStore() {
    pm::Root root = pool_.root();
    root.clean = 0;
    pm::OrderedHost host;
    if constexpr (Nodes::kDurable) blocks_.find_superblocks_later();
    if (tree_.create(host) != btree::Answer::done) throw std::runtime_error("no memory");
    if constexpr (Nodes::kDurable) root.set(kBtreeLeaves, tree_.first_leaf(host), 0);
    pool_.publish_root(root);
    numbers_.begin();
  }

  /// One operation, under that number; 0: the next. What a kill leaves at each of its stores is
  /// looked at.
  KeyStatus run(OpKind kind, Bytes const& key, Bytes const& value, Rmw rmw, std::uint64_t number) {
    Packed const k({key}, 0), v({value}, 0);
    Call call;
    call.keys = k.column();
    call.values = v.column();
    call.kind = kind;
    call.rmw = rmw;
    call.element = Element::u64;
    std::uint8_t status = kPending;
    threads::Batch const batch{&call, &status, number != 0 ? number : numbers_.take(1)};
    threads::Tally tally;
    CutHost host(pool_.addresses());
    at_point = [&] { look(); };
    BtreeWrites(parts_, host, batch, tally).run({nullptr, 0, 1});
    at_point = nullptr;
    look();
    return static_cast<KeyStatus>(status);
  }
  /// Of the key's record; 0: there is none.
  [[nodiscard]] std::uint64_t sequence_of(Bytes const& key) {
    pm::OrderedHost host;
    exec::EpochGuard const guard(tree_.epochs());
    std::vector<std::byte> const bytes = octets(key);
    std::uint64_t word = 0;
    btree::Answer const answer = tree_.find(host, Keys::key(bytes.data(), bytes.size()), word);
    return answer == btree::Answer::done ? records_.view(host, word).header.sequence : 0;
  }
  std::function<void(Contents const&)> judge;
  [[nodiscard]] std::uint64_t looks() const { return cut_.looks(); }

 private:
  void look() {
    Store store = cut_.killed();
    auto const all = all_of(store, {});
    judge({all.begin(), all.end()});
  }

  static constexpr Persist kPersist = Nodes::kDurable ? Persist::index : Persist::minimal;

  CutPool cut_{Kind{"", 0, KeyOrder::bytes, kPersist}.create()};
  pm::Pool& pool_ = cut_.pool();
  Mutex memory_;
  threads::Space space_{pool_, memory_};
  threads::BatchNumbers numbers_{pool_, memory_};
  std::atomic<bool> given_up_{false};
  BtreeOptions options_{0, 0, KeyOrder::bytes, true, false, &given_up_};
  BtreeRecords records_{pool_.base(), pool_.superblock_bytes()};
  static Tree make_tree(CutStore& of) {
    if constexpr (Nodes::kDurable)
      return Tree(Keys(of.records_), of.pool_, of.blocks_);
    else
      return Tree(Keys(of.records_));
  }
  pm::Blocks blocks_{pool_, memory_, sizeof(btree::Leaf)};
  Tree tree_{make_tree(*this)};
  BtreeParts<Tree, Keys> parts_{tree_,    records_, BtreeKeyMaker<Keys>(KeyOrder::bytes),
                                options_, space_,   numbers_};
};

struct Step {
  OpKind kind;
  char const* key;
  Bytes value;
  Rmw rmw = Rmw::replace;
  std::uint64_t number = 0;
  KeyStatus answers = KeyStatus::ok;
};

Bytes eight(std::uint64_t n) { return Bytes(reinterpret_cast<char const*>(&n), sizeof n); }

template <class Nodes>
void cut_after_each_store() {
  Step const steps[] = {
      {OpKind::put, "a", eight(1)},
      {OpKind::put, "b", "text"},
      {OpKind::put, "a", eight(2)},
      {OpKind::put, "a", eight(3), Rmw::replace, 1},  // took its number before the others did
      {OpKind::update, "b", "longer text, in another stride", Rmw::replace, 2},
      {OpKind::update, "absent", "nothing", Rmw::replace, 0, KeyStatus::not_found},
      {OpKind::update, "a", eight(40), Rmw::add},
      {OpKind::update, "a", eight(5), Rmw::max, 1},
      {OpKind::update, "a", eight(500), Rmw::max, 1},
      {OpKind::update, "absent", eight(1), Rmw::add, 0, KeyStatus::not_found},
      {OpKind::update, "b", eight(1), Rmw::add, 0, KeyStatus::size_mismatch},
      {OpKind::erase, "absent", "", Rmw::replace, 0, KeyStatus::not_found},
      {OpKind::erase, "b", ""},
      {OpKind::put, "b", "again", Rmw::replace, 1},
      {OpKind::erase, "a", ""},
      {OpKind::put, "c", "text"},
  };
  CutStore<Nodes> store;
  Contents now;
  for (Step const& step : steps) {
    Contents const before = now;
    bool const there = now.contains(step.key);
    if (step.answers == KeyStatus::ok) {
      if (step.kind == OpKind::erase)
        now.erase(step.key);
      else
        now[step.key] =
            there ? combine_plainly(step.rmw, Element::u64, now[step.key], step.value) : step.value;
    }
    Contents seen;
    store.judge = [&](Contents const& found) {
      EXPECT_TRUE(found == before || found == now) << "key " << step.key;
      seen = found;
    };
    std::uint64_t const replaced = store.sequence_of(step.key);
    EXPECT_EQ(store.run(step.kind, step.key, step.value, step.rmw, step.number), step.answers);
    EXPECT_EQ(seen, now) << "an operation that was answered is done; key " << step.key;
    bool const replaces =
        !Nodes::kDurable && before.contains(step.key) && now.contains(step.key) && before != now;
    EXPECT_TRUE(!replaces || store.sequence_of(step.key) > replaced) << "key " << step.key;
  }
  EXPECT_GT(store.looks(), 2 * std::size(steps));
}

TEST(CrashPoints, AfterEachStoreAnOperationIsDoneOrNot) {
  cut_after_each_store<btree::DramNodes>();
}
TEST(CrashPoints, AndSoItIsWhereLeavesAreDurable) { cut_after_each_store<btree::PoolNodes>(); }

}  // namespace
}  // namespace perdure::test
