/* Pre-stores: moving what was written down the memory hierarchy before anything forces it there,
   the converse of a prefetch. In C and in C++.

     demote   out of private buffers and caches towards those that cores share
     clean    written back to memory; the line stays in the cache, with nothing left to write
     skip     stores that go past the caches to memory

   Invariant: a pre-store changes nothing but time. It never blocks, promises no order and no
   durability, and never drops a line from the caches: where the processor has no instruction for
   it, it does nothing, and perdure_prestore_means() says so. */
#pragma once

#include <stddef.h>

#include "perdure/export.h"

#if defined(__cplusplus)
extern "C" {
#endif

enum perdure_prestore_op { PERDURE_DEMOTE, PERDURE_CLEAN };

/* Asks for the lines of [location, location + size) to be moved. Nothing for size 0. */
PERDURE_API void perdure_prestore(void const* location, size_t size, enum perdure_prestore_op op);

/* As memcpy(), by non-temporal stores: whole lines go past the caches, and what shares its line
   with other bytes is stored as ever. Stores after it may be seen before it until
   perdure_order_skipped(). */
PERDURE_API void perdure_store_skipping(void* destination, void const* source, size_t size);

/* What this thread skipped the caches with is seen by all before what it stores from here on. */
PERDURE_API void perdure_order_skipped(void);

/* The instruction behind an operation: "clwb", "cldemote", "dc cvac", "dc cvau"; or "none: " and
   the reason. */
PERDURE_API char const* perdure_prestore_means(enum perdure_prestore_op op);

/* The same of perdure_store_skipping(): "movntdq", or "none: " and the reason. */
PERDURE_API char const* perdure_skipping_means(void);

#if defined(__cplusplus)
}

#include <cstdint>
#include <string_view>

namespace perdure {

enum class PrestoreOp : std::uint8_t { demote = PERDURE_DEMOTE, clean = PERDURE_CLEAN };

/// perdure_prestore()
inline void prestore(void const* location, std::size_t size, PrestoreOp op) {
  perdure_prestore(location, size, static_cast<perdure_prestore_op>(op));
}
/// perdure_store_skipping()
inline void store_skipping(void* destination, void const* source, std::size_t size) {
  perdure_store_skipping(destination, source, size);
}
/// perdure_order_skipped()
inline void order_skipped() { perdure_order_skipped(); }
/// perdure_prestore_means()
[[nodiscard]] inline std::string_view prestore_means(PrestoreOp op) {
  return perdure_prestore_means(static_cast<perdure_prestore_op>(op));
}
/// perdure_skipping_means()
[[nodiscard]] inline std::string_view skipping_means() { return perdure_skipping_means(); }

}  // namespace perdure
#endif
