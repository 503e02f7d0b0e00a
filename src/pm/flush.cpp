#include "pm/flush.hpp"

#include "base/line_instructions.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {

void start_flush(void const* at, std::size_t bytes) {
  run_on_lines(flushing_instruction(), at, bytes);
  writes_back(at, bytes);
}

void finish_flushes() { order_line_instructions(); }

void flush(exec::Workers& workers, void const* at, std::size_t bytes) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  auto const* const begin = static_cast<std::byte const*>(at);
  workers.for_chunks(bytes, kChunk, [&](std::size_t from, std::size_t to) {
    run_on_lines(flushing_instruction(), begin + from, to - from);
    finish_flushes();
  });
  writes_back(at, bytes);
  ordered();
}

}  // namespace perdure::pm
