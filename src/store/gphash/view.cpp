// Views of values: keys are looked up by the host's threads, whatever machine the store is on.
#include <atomic>
#include <string>

#include "base/assert.hpp"
#include "store/checks.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/gphash/reading.hpp"

namespace perdure {
namespace {

constexpr std::size_t kKeysAChunk = 16;  // keys a thread takes at a time: values may be long

std::span<std::byte const> key_at(Column const& keys, std::size_t i) {
  if (keys.offsets == nullptr) return {keys.data + i * keys.width, keys.width};
  std::int64_t const begin = keys.offsets[i];
  return {keys.data + begin, static_cast<std::size_t>(keys.offsets[i + 1] - begin)};
}

/// The value of a key, as a get would answer it.
KeyStatus look(Core const& core, std::span<std::byte const> key,
               std::span<std::byte const>& value) {
  auto const found = core.table.find(key);
  if (!found) return KeyStatus::not_found;
  gphash::Entry const& entry = found->entry;
  bool const damaged = core.options.verify_reads && !(entry.readable && core.table.intact(entry));
  std::uint32_t const width = core.pool.header().value_bytes;
  bool const odd = found->is_its && width != 0 && entry.value.size() != width;
  if (damaged || odd) return KeyStatus::corrupt;
  if (!found->is_its) return KeyStatus::not_found;
  value = entry.value;
  return KeyStatus::ok;
}

}  // namespace

Result<std::unique_ptr<ValuesView::State>> GphashStore::view(Call const& call,
                                                             std::span<KeyStatus> statuses) {
  return reading(nullptr, [&]() -> Result<std::unique_ptr<ValuesView::State>> {
    if (core_.transaction) return core_.held_by_this_thread();
    if (Status s = check_batch(path, core_.pool.header(), call, statuses); !s.ok()) return s;
    if (Status s = core_.show_words(); !s.ok()) return s;
    if (call.keys.space != MemorySpace::host)
      return Status{Code::invalid_argument, "pool " + path + ": a view's keys lie in host memory"};
    auto first = first_statuses(core_.pool.header(), call);
    if (!first) return first.status();
    std::size_t const n = call.keys.count;
    std::span<std::byte const> const memory{core_.pool.base(), core_.pool.bytes()};
    auto state = std::make_unique<ValuesView::State>(core_.viewed, memory, n);
    core_.workers.for_chunks(n, kKeysAChunk, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        bool const fits = (*first)[i] == kPending;
        KeyStatus const status = fits ? look(core_, key_at(call.keys, i), state->values[i])
                                      : static_cast<KeyStatus>((*first)[i]);
        if (!statuses.empty()) statuses[i] = status;
      }
    });
    return state;
  });
}

}  // namespace perdure
