#include "perdure/prestore.h"

#include "base/line_instructions.hpp"

namespace {

perdure::LineInstruction const& instruction_of(perdure_prestore_op op) {
  return op == PERDURE_CLEAN ? perdure::cleaning_instruction() : perdure::demoting_instruction();
}

}  // namespace

void perdure_prestore(void const* location, size_t size, perdure_prestore_op op) {
  perdure::run_on_lines(instruction_of(op), location, size);
}

void perdure_store_skipping(void* destination, void const* source, size_t size) {
  perdure::copy_past_caches(destination, source, size);
}

void perdure_order_skipped() { perdure::order_line_instructions(); }

char const* perdure_prestore_means(perdure_prestore_op op) { return instruction_of(op).name; }

char const* perdure_skipping_means() { return perdure::skipping_instruction(); }
