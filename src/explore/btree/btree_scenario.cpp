#include "explore/btree/btree_scenario.hpp"

#include <algorithm>
#include <iterator>
#include <random>
#include <sstream>

#include "index/btree/layout.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint64_t kSlots = btree::Permutation::kSlots;
constexpr std::uint64_t kApart = 10;  // between keys that are loaded: others fit in between

using Draw = std::mt19937_64;

bool has(std::vector<std::uint64_t> const& keys, std::uint64_t key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Loads so many leaves, of which each keeps so many keys: the first ones.
void load(BTreeScenario& s, std::vector<std::uint64_t> const& keep) {
  for (std::uint64_t leaf = 0; leaf < keep.size(); ++leaf) {
    for (std::uint64_t i = 0; i < kSlots; ++i) {
      s.loaded.push_back((leaf * kSlots + i) * kApart);
      if (i >= keep[leaf]) s.erased.push_back(s.loaded.back());
    }
  }
}

/// Some of what is loaded, and some of what is not, is what operations are on.
void choose_keys(BTreeScenario& s, Draw& draw, std::uint64_t there_of_6) {
  std::uint64_t const end = s.loaded.back() + kApart;
  while (s.keys.size() < 6) {
    bool const there = s.keys.size() < there_of_6;
    std::uint64_t const key = there ? s.loaded[draw() % s.loaded.size()]
                              : draw() % 3 == 0 && !s.erased.empty()
                                  ? s.erased[draw() % s.erased.size()]
                                  : draw() % end;
    bool const stays = has(s.loaded, key) && !has(s.erased, key);
    if (there != stays || has(s.keys, key)) continue;
    s.keys.push_back(key);
    if (there) s.there.push_back(key);
  }
}

OpKind draw_kind(Draw& draw, bool shrinks) {
  switch (draw() % 8) {
    case 0:
    case 1: return OpKind::get;
    case 2: return OpKind::update;
    case 3: return shrinks ? OpKind::put : OpKind::erase;
    default: return shrinks ? OpKind::erase : OpKind::put;
  }
}

void draw_operations(BTreeScenario& s, Draw& draw, bool shrinks, std::uint32_t most_operations) {
  auto const threads = 2 + draw() % 2;
  for (std::uint64_t t = 0; t < threads; ++t) {
    auto& mine = s.operations.emplace_back();
    bool const reads = draw() % 3 == 0;
    for (std::uint64_t n = 1 + draw() % most_operations; n > 0; --n)
      mine.push_back({reads ? OpKind::get : draw_kind(draw, shrinks),
                      s.keys[draw() % s.keys.size()], draw() % 1000, reads && draw() % 2 == 0});
  }
}

/// What nobody operates on stays.
void keep_the_rest(BTreeScenario& s) {
  for (std::uint64_t const key : s.loaded)
    if (!has(s.erased, key) && !has(s.keys, key)) s.fillers.push_back(key);
}

/// One thread looks for a key, or writes it. Another erases the one key of the leaf before, so that
/// the two leaves are joined, and then splits a third one: if what was joined is free by then, it
/// is the new leaf.
void reuse_a_leaf(BTreeScenario& s, Draw& draw) {
  load(s, {1, kSlots, kSlots});
  std::uint64_t const second = kSlots * kApart, third = 2 * second;
  s.keys = {0, second + draw() % kSlots * kApart, third + draw() % kSlots * kApart + 1};
  s.there = {s.keys[0], s.keys[1]};
  OpKind const kind = draw() % 2 == 0 ? OpKind::get : OpKind::put;
  s.operations.push_back({{kind, s.keys[1], 7}});
  s.operations.push_back({{OpKind::erase, s.keys[0], 0}, {OpKind::put, s.keys[2], draw() % 1000}});
}

/// One thread looks for a key that another erases, and whose slot it fills with one more.
void reuse_a_slot(BTreeScenario& s, Draw& draw) {
  load(s, {5 + draw() % 8});
  s.keys = {draw() % 5 * kApart, draw() % kSlots * kApart + 1};
  s.there = {s.keys[0]};
  s.operations.push_back({{OpKind::get, s.keys[0], 0}});
  s.operations.push_back({{OpKind::erase, s.keys[0], 0}, {OpKind::put, s.keys[1], draw() % 1000}});
}

/// The root has no room, and one thread splits a leaf. Another looks for a key that is the new
/// root's other child's then.
void raise_the_root(BTreeScenario& s, Draw& draw) {
  load(s, std::vector<std::uint64_t>(btree::Inner<false>::kMost + 1, kSlots));
  std::uint64_t const half = s.loaded.size() / 2;
  s.keys = {s.loaded.back() - draw() % 200 * kApart, s.loaded[draw() % half] + 1};
  s.there = {s.keys[0]};
  s.operations.push_back({{OpKind::get, s.keys[0], 0}});
  s.operations.push_back({{OpKind::put, s.keys[1], draw() % 1000}});
}

}  // namespace

BTreeScenario make_btree_scenario(std::uint64_t seed, std::uint32_t most_operations) {
  Draw draw(seed * 2654435761u);
  BTreeScenario s;
  void (*const special[])(BTreeScenario&, Draw&) = {reuse_a_leaf, reuse_a_slot, raise_the_root};
  if (seed % 16 < std::size(special)) {
    special[seed % 16](s, draw);
    keep_the_rest(s);
    return s;
  }
  if (seed % 64 == 15) {
    load(s, std::vector<std::uint64_t>(btree::Inner<false>::kMost + 1, kSlots));
    choose_keys(s, draw, 3);
    draw_operations(s, draw, false, most_operations);
    keep_the_rest(s);
    return s;
  }
  bool const shrinks = draw() % 2 == 0;
  std::vector<std::uint64_t> keep(2 + draw() % 3);
  for (std::uint64_t& keys : keep) keys = shrinks ? 4 + draw() % 3 : kSlots - draw() % 3;
  load(s, keep);
  choose_keys(s, draw, shrinks ? 4 : 2);
  draw_operations(s, draw, shrinks, most_operations);
  keep_the_rest(s);
  return s;
}

std::string BTreeScenario::describe() const {
  static constexpr char const* kNames[] = {"get", "put", "erase", "update"};
  std::ostringstream text;
  text << loaded.size() << " keys loaded, " << erased.size() << " erased; there:";
  for (std::uint64_t const key : there) text << ' ' << key;
  for (auto const& mine : operations) {
    text << "\n  thread:";
    for (BTreeOp const& op : mine) {
      if (op.scans)
        text << (op.value % 2 == 0 ? " scan upwards" : " scan downwards");
      else
        text << ' ' << kNames[static_cast<std::size_t>(op.kind)] << ' ' << op.key << '='
             << op.value;
    }
  }
  return text.str();
}

}  // namespace perdure::explore
