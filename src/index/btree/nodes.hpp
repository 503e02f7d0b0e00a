// Where a tree's nodes, the tails of its separators and its root come from: `Nodes`, a policy of
// the tree.
//
//   Leaf* take()              nullptr: there is no memory. What it holds is anything
//   void give(Leaf*)          nobody can be reading it
//   Leaf* at(address), address_of(leaf)   an address is never 0
//   bytes()                   taken from the system
//   root()                    the word that has the root's address, by Host's verbs; 0: none yet
//   Inners<Node>              has take, give, at, address_of and bytes for inner nodes, and
//     kTrusted                they are of this opening; else Nodes and Inners have
//     refuse(address)         throws, for no node can be what lies there
//   Tails                     bytes that separators have beyond their prefixes:
//     make(host, bytes, size) address of a copy, whole before anybody is led to it; 0: no memory
//     at(address)             that copy, a KeyBytes
//     give(address)           nobody can be reading it; 0: there is nothing to give
//   kFreesTails               what tails are left goes with the tree
//   kDurable                  a later tree finds the leaves again (chain.hpp), by
//     mark(address)           whether a leaf lies there, and is come to for the first time
//
// Inners and Tails are made of the Nodes that they belong to. Invariant: none of them throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "index/btree/blocks.hpp"
#include "index/btree/keys.hpp"
#include "index/btree/layout.hpp"

namespace perdure::btree {

/// Nodes of one type in DRAM, whose addresses are pointers.
template <class Node>
class DramBlocks {
 public:
  [[nodiscard]] Node* take() noexcept { return static_cast<Node*>(blocks_.take()); }
  void give(Node* node) noexcept { blocks_.give(node); }
  [[nodiscard]] std::uint64_t bytes() const { return blocks_.bytes(); }

  [[nodiscard]] static Node* at(std::uint64_t address) { return reinterpret_cast<Node*>(address); }
  [[nodiscard]] static std::uint64_t address_of(Node const* node) {
    return reinterpret_cast<std::uint64_t>(node);
  }

 private:
  Blocks blocks_{sizeof(Node)};
};

/// Inner nodes in DRAM, beside leaves that lie anywhere.
template <class Node>
class DramInners : public DramBlocks<Node> {
 public:
  static constexpr bool kTrusted = true;

  template <class Nodes>
  explicit DramInners(Nodes const&) {}
};

/// Likewise the tails of separators.
class DramTails {
 public:
  template <class Nodes>
  explicit DramTails(Nodes const&) {}

  template <class Host>
  [[nodiscard]] static std::uint64_t make(Host&, std::byte const* bytes, std::size_t size) {
    void* const room = ::operator new(sizeof(KeyBytes) + size, std::nothrow);
    if (room == nullptr) return 0;
    auto* const tail = new (room) KeyBytes{size};
    std::memcpy(tail->bytes(), bytes, size);
    return reinterpret_cast<std::uint64_t>(tail);
  }
  [[nodiscard]] static KeyBytes* at(std::uint64_t address) {
    return reinterpret_cast<KeyBytes*>(address);
  }
  static void give(std::uint64_t address) { ::operator delete(at(address)); }
};

/// All of a tree in DRAM.
class DramNodes : public DramBlocks<Leaf> {
 public:
  static constexpr bool kFreesTails = true;
  static constexpr bool kDurable = false;
  template <class Node>
  using Inners = DramInners<Node>;
  using Tails = DramTails;

  [[nodiscard]] std::uint64_t& root() { return root_; }
  [[nodiscard]] std::uint64_t const& root() const { return root_; }

 private:
  std::uint64_t root_ = 0;
};

}  // namespace perdure::btree
