/* A radix tree whose nodes have versions, which every visit checks before and after, with fences
 * (as Masstree's nodes have them: listing 8 of the thesis's chapter 3).
 *
 * Invariant: a node's version is odd while it changes. Who saw it odd, or changed, looks again.
 *
 *   line_tree OPERATIONS
 */
#include "workload.h"

#include <stdatomic.h>

enum { kBits = 4, kFan = 1 << kBits, kLevels = 4 };

typedef struct Node {
  _Alignas(64) _Atomic uint64_t version;
  _Atomic(void*) children[kFan]; /* nodes, or at the last level values */
} Node;

struct Store {
  Node root;
};

static Node* make_node(void) {
  Node* node = aligned_alloc(64, sizeof(Node));
  if (node == NULL) abort();
  *node = (Node){0};
  return node;
}

Store* make_store(void) { return (Store*)make_node(); }

static unsigned slot_of(uint64_t key, int level) {
  return (unsigned)(key >> (kBits * (kLevels - 1 - level))) % kFan;
}

static void* child_of(Node* node, unsigned slot) {
  for (;;) {
    uint64_t version = atomic_load(&node->version);
    atomic_thread_fence(memory_order_seq_cst);
    void* child = atomic_load_explicit(&node->children[slot], memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (version % 2 == 0 && atomic_load(&node->version) == version) return child;
  }
}

static void set_child(Node* node, unsigned slot, void* child) {
  for (;;) {
    uint64_t version = atomic_load(&node->version) & ~1ull;
    if (atomic_compare_exchange_weak(&node->version, &version, version + 1)) break;
  }
  atomic_store_explicit(&node->children[slot], child, memory_order_relaxed);
  atomic_fetch_add(&node->version, 1);
}

void put(Store* store, uint64_t key, uint64_t* value) {
  Node* node = &store->root;
  for (int level = 0; level < kLevels - 1; level++) {
    Node* child = child_of(node, slot_of(key, level));
    if (child == NULL) set_child(node, slot_of(key, level), child = make_node());
    node = child;
  }
  set_child(node, slot_of(key, kLevels - 1), value);
}

uint64_t* get(Store* store, uint64_t key) {
  void* node = &store->root;
  for (int level = 0; level < kLevels && node != NULL; level++)
    node = child_of(node, slot_of(key, level));
  return node;
}
