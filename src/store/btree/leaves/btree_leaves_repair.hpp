// Repair of durable leaves: what flipped bits have made of them is put right where records tell
// how, and else dropped, and said. Leaves have no checksums; each record has one, and its key. So
// an entry is trusted where it leads to a whole record that has the entry's prefix. Invariant:
// nothing else uses the tree meanwhile; a crash in the midst leaves what the next opening finds
// wrong again.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hooks.hpp"
#include "index/btree/chain.hpp"
#include "pm/sequenced_record.hpp"
#include "store/btree/btree_reader.hpp"
#include "store/btree/leaves/btree_leaves.hpp"

namespace perdure {

template <class Parts, class Host>
class BtreeLeavesRepair {
 public:
  BtreeLeavesRepair(Parts& parts, BtreeLeafRecords const& records, Host& host,
                    std::vector<std::string>& lines)
      : parts_(parts),
        records_(records),
        host_(host),
        lines_(lines),
        reader_(parts.table, parts.records, parts.options, host) {}

  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

  /// The leaf leads to no leaf: to the next in the order of keys that one bit makes of it, or to
  /// none. Where keys differ late, many leaves begin with one prefix.
  void mend_next(std::uint64_t at) {
    btree::Leaf& leaf = leaf_at(at);
    std::uint64_t const led_to = host_.load(&leaf.next);
    std::uint64_t next = 0;
    for (unsigned bit = 0; bit < 64; ++bit) {
      std::uint64_t const other = led_to ^ std::uint64_t{1} << bit;
      if (may_follow(at, other) && (next == 0 || is_nearer(at, other, next))) next = other;
    }
    host_.store(&leaf.next, next);
    host_.persist(&leaf.next, sizeof leaf.next);
    std::string const what = "the leaf at byte " + std::to_string(at);
    lines_.push_back(next != 0 ? what + ": where it leads was put right"
                               : what + " led nowhere: what came behind it is lost");
  }

  /// The one bit of all leaves without which their sum is another by so much. False: there is none.
  bool mend_bit(std::vector<std::uint64_t> const& leaves, std::uint64_t missing) {
    using Chain = btree::Chain<Keys, std::remove_cvref_t<decltype(parts_.table.nodes())>>;
    if (missing == 0) return false;
    for (std::uint64_t const at : leaves) {
      btree::Leaf leaf = leaf_at(at);
      auto* const words = reinterpret_cast<std::uint64_t*>(&leaf);
      std::uint64_t const sum = Chain::sum_of(host_, at, leaf) + missing;
      for (std::size_t bit = 64; bit < 8 * sizeof leaf; ++bit) {  // the version is in no sum
        words[bit / 64] ^= std::uint64_t{1} << bit % 64;
        if (Chain::sum_of(host_, at, leaf) == sum) return put_right(at, leaf);
        words[bit / 64] ^= std::uint64_t{1} << bit % 64;
      }
    }
    return false;
  }

  /// All leaves of the chain, which is whole. What a crash left of others' entries is not theirs.
  void mend_entries(std::vector<std::uint64_t> const& leaves, btree::ChainFound const& found) {
    std::vector<Seen> all;
    for (std::uint64_t const at : leaves) all.push_back(look(at, found));
    keep_rising(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      mend_low(before(all, i), all[i]);
      write(all[i]);
    }
  }

 private:
  using Keys = typename Parts::Keys;
  struct Seen {
    std::uint64_t at = 0;
    std::uint64_t low = 0;
    unsigned named = 0;  // entries that its order names
    std::vector<unsigned> entries;  // slots of those that are trusted
  };

  [[nodiscard]] btree::Leaf& leaf_at(std::uint64_t at) const {
    return *parts_.table.nodes().at(at);
  }
  [[nodiscard]] btree::Entry entry(std::uint64_t at, unsigned slot) const {
    return {host_.load(&leaf_at(at).entries[slot].prefix),
            host_.load(&leaf_at(at).entries[slot].word)};
  }
  [[nodiscard]] std::optional<btree::Key> key_of(std::uint64_t word) const {
    if (!records_.is_record(word)) return std::nullopt;
    pm::SequencedRecord const record = parts_.records.view(host_, word);
    if (record.free() || reader_.fault(record) != nullptr) return std::nullopt;
    return parts_.make_key(record.key_bytes());
  }
  [[nodiscard]] btree::Key trusted_key(std::uint64_t word) const {
    return parts_.make_key(parts_.records.view(host_, word).key_bytes());
  }
  [[nodiscard]] bool trusted(btree::Entry const& entry) const {
    auto const key = key_of(entry.word);
    return key && key->prefix == entry.prefix;
  }

  [[nodiscard]] bool may_follow(std::uint64_t at, std::uint64_t next) const {
    if (parts_.table.nodes().mark(next) != pm::Blocks::Mark::first) return false;
    btree::Leaf const& leaf = leaf_at(next);
    btree::Permutation const order(host_.load(&leaf.permutation));
    std::uint64_t const low = host_.load(&leaf.low);
    if (!order.valid() || low < host_.load(&leaf_at(at).low)) return false;
    for (unsigned rank = 0; rank < order.count(); ++rank)
      if (!trusted(entry(next, order.slot(rank))) || entry(next, order.slot(rank)).prefix < low)
        return false;
    return order.count() != 0;
  }

  /// Where the leaf has entries the first key, or the last one.
  [[nodiscard]] btree::Key end_of(std::uint64_t at, bool first) const {
    btree::Permutation const order(host_.load(&leaf_at(at).permutation));
    return trusted_key(entry(at, order.slot(first ? 0 : order.count() - 1)).word);
  }
  /// Whether all keys of a leaf that may follow are above this one's: those of a leaf that was
  /// joined with this one, and is free, are not. Or this one has all of them at its end, each with
  /// the same record: so a crash leaves both in the midst of a split or a merge; and where that
  /// leaf is free none the less, nothing is lost and nothing comes back by leading to it.
  [[nodiscard]] bool fits_behind(std::uint64_t at, std::uint64_t next) const {
    btree::Permutation const order(host_.load(&leaf_at(at).permutation));
    if (!order.valid()) return true;
    btree::Key const first = end_of(next, true);
    unsigned below = order.count();
    for (; below > 0; --below) {
      btree::Entry const last = entry(at, order.slot(below - 1));
      if (!trusted(last)) return true;
      if (Keys::compare(trusted_key(last.word), first) < 0) break;
    }
    return below == order.count() ||
           (!mutated("leaves_mended_past_leftover") && has_all_of(at, order, below, next));
  }
  /// Whether a leaf's entries from a rank on are those of another one.
  [[nodiscard]] bool has_all_of(std::uint64_t at, btree::Permutation order, unsigned rank,
                                std::uint64_t next) const {
    btree::Permutation const of_next(host_.load(&leaf_at(next).permutation));
    if (order.count() - rank != of_next.count()) return false;
    for (unsigned i = 0; i < of_next.count(); ++i)
      if (entry(at, order.slot(rank + i)).word != entry(next, of_next.slot(i)).word) return false;
    return true;
  }
  /// Of two leaves that may follow one, which is the nearer.
  [[nodiscard]] bool is_nearer(std::uint64_t at, std::uint64_t next, std::uint64_t other) const {
    if (mutated("leaves_mended_to_any")) return false;
    bool const fits = fits_behind(at, next);
    if (fits != fits_behind(at, other)) return fits;
    return Keys::compare(end_of(next, true), end_of(other, true)) < 0;
  }

  bool put_right(std::uint64_t at, btree::Leaf const& whole) {
    pm::write_bytes(reinterpret_cast<std::byte*>(&leaf_at(at)),
                    reinterpret_cast<std::byte const*>(&whole), sizeof whole);
    host_.persist(&leaf_at(at), sizeof whole);
    lines_.push_back(of_leaf(at) + "one bit was put right, nothing is lost");
    return true;
  }

  Seen look(std::uint64_t at, btree::ChainFound const& found) {
    Seen seen{at, host_.load(&leaf_at(at).low), 0, {}};
    btree::Permutation const order = order_of(at);
    if (!order.valid()) {
      lines_.push_back("the leaf at byte " + std::to_string(at) +
                       ": nothing says which entries count, and what it had is lost");
      return seen;
    }
    seen.named = found.kept(at, order.count());
    for (unsigned rank = 0; rank < seen.named; ++rank) {
      unsigned const slot = order.slot(rank);
      if (trusted(entry(at, slot)) || mend_prefix(at, slot)) seen.entries.push_back(slot);
    }
    return seen;
  }
  /// One bit of an order that names a slot twice, put right: then all entries are trusted, and
  /// rise.
  btree::Permutation order_of(std::uint64_t at) {
    btree::Permutation const order(host_.load(&leaf_at(at).permutation));
    for (unsigned bit = 4; bit < 64 && !order.valid(); ++bit) {
      btree::Permutation const other(order.word() ^ std::uint64_t{1} << bit);
      bool whole = other.valid();
      for (unsigned rank = 0; whole && rank < other.count(); ++rank)
        whole = trusted(entry(at, other.slot(rank))) &&
                (rank == 0 ||
                 entry(at, other.slot(rank - 1)).prefix <= entry(at, other.slot(rank)).prefix);
      if (!whole) continue;
      lines_.push_back(of_leaf(at) + "the order of its entries was put right, nothing is lost");
      return other;
    }
    return order;
  }
  /// Of a whole record whose key's prefix differs in a bit or two.
  bool mend_prefix(std::uint64_t at, unsigned slot) {
    btree::Entry const wrong = entry(at, slot);
    auto const key = key_of(wrong.word);
    if (!key || std::popcount(key->prefix ^ wrong.prefix) > 2) return false;
    btree::Leaf& leaf = leaf_at(at);
    host_.store(&leaf.entries[slot].prefix, key->prefix);
    host_.persist(&leaf.entries[slot], sizeof leaf.entries[slot]);
    lines_.push_back(of_leaf(at) + "the key of the record at byte " + std::to_string(wrong.word) +
                     " was put right");
    return true;
  }

  /// The last leaf before i that has entries; null: there is none.
  static Seen const* before(std::vector<Seen> const& all, std::size_t i) {
    while (i-- > 0)
      if (!all[i].entries.empty()) return &all[i];
    return nullptr;
  }
  /// Of all entries as many as rise, in the order in which leaves have them: one that leads to
  /// another's record, or that was erased, does not.
  void keep_rising(std::vector<Seen>& all) {
    struct Item {
      std::size_t leaf;
      unsigned slot;
      std::size_t before;  // the item before it of the longest run that ends with it
    };
    constexpr std::size_t kNone = ~std::size_t{0};
    std::vector<Item> items;
    std::vector<std::size_t> ends;  // of the longest runs of each length, those that end lowest
    auto const key = [&](std::size_t item) {
      return trusted_key(entry(all[items[item].leaf].at, items[item].slot).word);
    };
    for (std::size_t leaf = 0; leaf < all.size(); ++leaf) {
      for (unsigned const slot : all[leaf].entries) {
        std::size_t const me = items.size();
        items.push_back({leaf, slot, kNone});
        auto const less = [&](std::size_t a, std::size_t b) {
          return Keys::compare(key(a), key(b)) < 0;
        };
        auto const at = std::lower_bound(ends.begin(), ends.end(), me, less);
        if (at != ends.begin()) items[me].before = *(at - 1);
        at != ends.end() ? static_cast<void>(*at = me) : ends.push_back(me);
      }
    }
    for (Seen& seen : all) seen.entries.clear();
    for (std::size_t i = ends.empty() ? kNone : ends.back(); i != kNone; i = items[i].before)
      all[items[i].leaf].entries.push_back(items[i].slot);
    for (Seen& seen : all) std::reverse(seen.entries.begin(), seen.entries.end());
  }
  /// A leaf's least prefix is not above its entries, and above those of the leaf before.
  void mend_low(Seen const* left, Seen& right) {
    if (right.entries.empty()) return;
    std::uint64_t const first = entry(right.at, right.entries.front()).prefix;
    bool below = false;
    if (left != nullptr) {
      std::uint64_t const last = entry(left->at, left->entries.back()).prefix;
      below = Keys::kTails ? right.low < last : right.low <= last;
    }
    if (right.low <= first && !below) return;
    right.low = first;
    lines_.push_back(of_leaf(right.at) + "where its keys begin was put right, nothing is lost");
  }
  void write(Seen const& seen) {
    btree::Leaf& leaf = leaf_at(seen.at);
    auto const kept = static_cast<unsigned>(seen.entries.size());
    if (kept < seen.named)
      lines_.push_back(of_leaf(seen.at) + std::to_string(seen.named - kept) + " of its " +
                       std::to_string(seen.named) + " entries were dropped");
    dropped_ += seen.named - kept;
    host_.store(&leaf.low, seen.low);
    host_.store(&leaf.permutation, btree::Permutation::of_slots(seen.entries.data(), kept).word());
    host_.persist(&leaf, sizeof leaf);
  }
  static std::string of_leaf(std::uint64_t at) {
    return "the leaf at byte " + std::to_string(at) + ": ";
  }

  Parts& parts_;
  BtreeLeafRecords const& records_;
  Host& host_;
  std::vector<std::string>& lines_;
  BtreeReader<std::remove_reference_t<decltype(std::declval<Parts>().table)>, Host> reader_;
  std::uint64_t dropped_ = 0;
};

}  // namespace perdure
