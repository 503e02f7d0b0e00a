// The nodes of a B+-tree that is durable as a whole (index/btree/nodes.hpp says what a tree asks of
// them): leaves, inner nodes and the tails of separators lie in the pool's heap, and addresses are
// offsets in the pool. Invariants: nodes begin at multiples of what the log stamps as a whole;
// those that the open transaction took need no log; what is given back is taken again only after
// the commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/caught.hpp"
#include "index/btree/keys.hpp"
#include "index/btree/layout.hpp"
#include "pm/heap.hpp"
#include "pm/host_verbs.hpp"
#include "pm/transaction/undo_lines.hpp"
#include "store/threads/space.hpp"

namespace perdure::full {

/// What a durable tree has beside its nodes: the log's line of state.
struct State {
  std::uint64_t root = 0;  // address of an inner node; 0: there is no tree
  std::uint64_t leaves = 0, inner_nodes = 0;
  std::uint64_t records = 0;
  std::uint64_t generation = 0;  // of the last opening, in bits 32..63; no part of what is undone
  std::uint64_t unused[3] = {};
};
static_assert(sizeof(State) == pm::kCacheLine);

/// What all kinds of nodes share.
struct NodeRoom {
  threads::Space& space;
  pm::UndoLines& log;
  std::byte* base;

  [[nodiscard]] State& state() const { return *reinterpret_cast<State*>(log.state()); }
  /// 0: there is no room. Where there is no memory to ask, the transaction cannot commit.
  [[nodiscard]] std::uint64_t take(std::uint64_t bytes) const noexcept {
    std::vector<std::uint64_t> taken;
    bool asked = false;
    Status const took = caught([&] {
      Status s = space.take(bytes, 1, taken);
      asked = true;
      return s;
    });
    if (!asked) space.lose();  // memory lacks, not room in the pool
    return took.ok() ? taken.front() : 0;
  }
  [[noreturn]] static void refuse(std::uint64_t address) {
    throw Damaged("its tree leads to byte " + std::to_string(address) +
                  ", where no node lies; run verify, which names all that is damaged");
  }
  /// Where there is no memory to note it, the transaction cannot commit.
  void give(std::uint64_t at) const noexcept {
    if (!caught([&]() -> Status {
           space.unlink({&at, 1});
           return {};
         }).ok())
      space.lose();
  }
};

template <class Node>
class PoolBlocks {
 public:
  static constexpr std::uint64_t kStride =
      pm::aligned_up(sizeof(Node), pm::LineStamps::kUnit);  // so that a unit is of one node

  explicit PoolBlocks(NodeRoom const& room) : room_(room) {}

  [[nodiscard]] Node* take() noexcept {
    std::uint64_t const taken = room_.take(kStride);
    if (taken == 0) return nullptr;
    room_.log.stamps().fresh(taken, kStride, room_.log.transaction());
    return at(taken);
  }
  void give(Node* node) noexcept { room_.give(address_of(node)); }
  [[nodiscard]] static std::uint64_t bytes() { return 0; }  // all of it is the pool's
  /// Throws Damaged where there can be none: so a damaged word leads out of the pool never.
  [[nodiscard]] Node* at(std::uint64_t address) const {
    bool const possible =
        address % pm::LineStamps::kUnit == 0 && address + sizeof(Node) <= room_.space.pool_bytes();
    if (!possible) [[unlikely]]
      refuse(address);
    return reinterpret_cast<Node*>(room_.base + address);
  }
  [[nodiscard]] std::uint64_t address_of(Node const* node) const {
    return static_cast<std::uint64_t>(reinterpret_cast<std::byte const*>(node) - room_.base);
  }
  [[noreturn]] static void refuse(std::uint64_t address) { NodeRoom::refuse(address); }
  [[nodiscard]] NodeRoom const& room() const { return room_; }

 private:
  NodeRoom room_;
};

template <class Node>
class PoolInners : public PoolBlocks<Node> {
 public:
  static constexpr bool kTrusted = false;

  template <class Nodes>
  explicit PoolInners(Nodes const& nodes) : PoolBlocks<Node>(nodes.room()) {}
};

/// Written once, before anybody is led to one.
class PoolTails {
 public:
  template <class Nodes>
  explicit PoolTails(Nodes const& nodes) : room_(nodes.room()) {}

  template <class Host>
  [[nodiscard]] std::uint64_t make(Host& host, std::byte const* bytes, std::size_t size) {
    std::uint64_t const whole = sizeof(btree::KeyBytes) + size;
    std::uint64_t const taken = room_.take(pm::stride_for(whole));
    if (taken == 0) return 0;
    std::byte* const to = room_.base + taken;
    btree::KeyBytes const front{size};
    pm::write_bytes(to, &front, sizeof front);
    pm::write_bytes(to + sizeof front, bytes, size);
    host.flush(to, whole);
    return taken;
  }
  /// Throws Damaged where its bytes would not be the pool's.
  [[nodiscard]] btree::KeyBytes* at(std::uint64_t address) const {
    std::uint64_t const most = room_.space.pool_bytes();
    auto* const found = reinterpret_cast<btree::KeyBytes*>(room_.base + address);
    bool const aligned =
        address % alignof(btree::KeyBytes) == 0 && address < most - sizeof(btree::KeyBytes);
    if (aligned) pm::will_read(found, sizeof *found);
    bool const possible = aligned && found->size <= most - sizeof(btree::KeyBytes) - address;
    if (!possible) [[unlikely]]
      room_.refuse(address);
    pm::will_read(found->bytes(), found->size);
    return found;
  }
  void give(std::uint64_t address) noexcept {
    if (address != 0) room_.give(address);
  }

 private:
  NodeRoom room_;
};

class PoolNodes : public PoolBlocks<btree::Leaf> {
 public:
  static constexpr bool kFreesTails = false;
  static constexpr bool kDurable = true;
  template <class Node>
  using Inners = PoolInners<Node>;
  using Tails = PoolTails;

  using PoolBlocks::PoolBlocks;
  [[nodiscard]] std::uint64_t& root() { return room().state().root; }
  [[nodiscard]] std::uint64_t const& root() const { return room().state().root; }
  /// Why the last take() failed: whatever is taken comes from the pool.
  [[nodiscard]] Status refusal() const { return room().space.refusal(); }
};

}  // namespace perdure::full
