#include "store/gphash/steps.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/stream.hpp"
#include "store/checks.hpp"
#include "store/store_lock.hpp"

namespace perdure {
namespace {

constexpr std::size_t kBytesAChunk =
    std::size_t{1} << 20;  // bytes one thread takes at a time; a multiple of a line

std::string named(std::string const& name) { return "dense buffer \"" + name + "\""; }

std::string names_of(std::vector<pm::DenseRoom::Buffer> const& buffers) {
  std::string text;
  for (auto const& buffer : buffers) text += (text.empty() ? "" : ", ") + buffer.name;
  return text;
}

template <class Buffers>
auto find_name(Buffers& buffers, std::string const& name) {
  return std::find_if(buffers.begin(), buffers.end(),
                      [&](auto const& buffer) { return buffer.name == name; });
}

/// What no pool could take.
Status check_buffers(std::vector<DenseBuffer> const& buffers, Device device) {
  if (buffers.empty()) return bad_argument("no dense buffers were given; name one at least");
  for (DenseBuffer const& buffer : buffers) {
    std::string const which = named(buffer.name);
    if (buffer.name.empty() || buffer.name.size() > pm::kMostDenseName ||
        buffer.name.find('\0') != std::string::npos)
      return bad_argument(which + ": a name has 1 to " + std::to_string(pm::kMostDenseName) +
                          " bytes, none of them zero");
    if (buffer.bytes == 0) return bad_argument(which + " has no bytes; leave it away");
    if (buffer.data == nullptr) return bad_argument(which + " is null");
    if (buffer.space == MemorySpace::device && device == Device::cpu)
      return bad_argument(
          which +
          " lies in device memory, and the store is on device cpu; register a host array, "
          "or open with "
          "device cuda");
    if (&*find_name(buffers, buffer.name) != &buffer)
      return bad_argument(which + " is given twice");
  }
  return {};
}

}  // namespace

Status Steps::check_steps() const {
  if (Status s = transactions_.check_undoable(); !s.ok()) return s;
  if (core_.pool.header().durability == static_cast<std::uint8_t>(Durability::power)) {
    return {Code::unsupported,
            "pool " + core_.path +
                " is of durability power, whose log does not carry dense buffers; make one of "
                "durability process, and take snapshots onto a disk"};
  }
  return core_.dense.fault().empty()
             ? Status{}
             : Status{Code::corrupt, "pool " + core_.path + ": " + core_.dense.fault() +
                                         "; the table is not: restore a snapshot, or go on without "
                                         "steps"};
}

/// The caller's buffers in the pool's order; an error that names the first one that is not as the
/// pool has it.
Result<std::vector<DenseBuffer>> Steps::as_registered(
    std::vector<DenseBuffer> const& buffers) const {
  auto const& held = core_.dense.buffers();
  for (DenseBuffer const& buffer : buffers) {
    auto const found = find_name(held, buffer.name);
    if (found == held.end())
      return bad_argument("pool " + core_.path + " holds no " + named(buffer.name) + "; it holds " +
                          names_of(held) + ", and no others: register these, or make another pool");
    if (found->bytes != buffer.bytes)
      return bad_argument(named(buffer.name) + " has " + std::to_string(buffer.bytes) +
                          " bytes; pool " + core_.path + " holds it with " +
                          std::to_string(found->bytes) +
                          ": register one of that size, or make another pool");
  }
  std::vector<DenseBuffer> ordered;
  for (auto const& kept : held) {
    auto const found = find_name(buffers, kept.name);
    if (found == buffers.end())
      return bad_argument("pool " + core_.path + " holds " + named(kept.name) + " of " +
                          std::to_string(kept.bytes) +
                          " bytes, which was left out; register all of them at once (" +
                          names_of(held) + ")");
    ordered.push_back(*found);
  }
  return ordered;
}

Status Steps::make_dense_room(std::vector<DenseBuffer> const& buffers) {
  if (Status s = core_.check_open(true); !s.ok()) return s;
  PERDURE_ASSERT(core_.is_exclusive() && !core_.dense.exists() && core_.transaction == nullptr);
  std::vector<pm::DenseRoom::Buffer> asked;
  for (DenseBuffer const& buffer : buffers) asked.push_back({buffer.name, buffer.bytes, 0});
  if (Status s = records_.end_lease(); !s.ok()) return s;
  core_.heap.give_back_empty();
  Status const made = core_.dense.make(std::move(asked));
  core_.pool_may_have_grown();
  if (made.ok()) return {};
  return {made.code(), "pool " + core_.path +
                           ": no room for two copies of the dense buffers: " + made.message()};
}

Status Steps::register_dense(std::vector<DenseBuffer> const& buffers) {
  if (core_.lock.is_held_here()) return core_.held_by_this_thread();
  ExclusiveLock const store_lock(core_.lock);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  if (Status s = check_steps(); !s.ok()) return s;
  if (Status s = check_buffers(buffers, core_.options.device); !s.ok()) return s;
  if (!core_.dense.exists()) {
    Status const made = core_.health.whole_or_failed([&] {
      if (Status s = transactions_.keep_last(); !s.ok()) return s;
      core_.health.changing = true;
      return make_dense_room(buffers);
    });
    if (!made.ok()) return made;
  }
  auto ordered = as_registered(buffers);
  if (!ordered) return ordered.status();
  registered_ = std::move(*ordered);
  return {};
}

/// Those of the buffers' copies that count, or the others.
std::vector<Offset> Steps::dense_copies(bool counting) const {
  std::vector<Offset> addresses;
  for (auto const& buffer : core_.dense.buffers())
    addresses.push_back(counting ? core_.dense.counting(buffer) : core_.dense.other(buffer));
  return addresses;
}

/// Copies between each buffer and its place in the pool: host arrays by host(pool, array, bytes), a
/// line or more at a time; returns what is left to the engine.
template <class F>
std::vector<PoolCopy> Steps::copy_buffers(std::vector<Offset> const& addresses, F host) {
  PERDURE_ASSERT(addresses.size() == registered_.size());  // all of the pool's, in its order
  std::vector<PoolCopy> on_device;
  for (std::size_t i = 0; i < registered_.size(); ++i) {
    DenseBuffer const& buffer = registered_[i];
    PERDURE_ASSERT(addresses[i].bytes + buffer.bytes <= core_.pool.bytes());
    std::byte* const pool = core_.pool.base() + addresses[i].bytes;
    if (buffer.space == MemorySpace::host) {
      core_.workers.for_chunks(buffer.bytes, kBytesAChunk, [&](std::size_t begin, std::size_t end) {
        host(pool + begin, buffer.data + begin, end - begin);
      });
      continue;
    }
    // A pool is pinned in pieces, which end where superblocks do; the driver refuses copies across
    // their ends.
    for (std::uint64_t at = 0, size = 0; at < buffer.bytes; at += size) {
      std::uint64_t const inside = (addresses[i].bytes + at) % core_.pool.superblock_bytes();
      size = std::min(buffer.bytes - at, core_.pool.superblock_bytes() - inside);
      PERDURE_ASSERT(size > 0);  // else there is no end
      on_device.push_back({buffer.data + at, pool + at, size});
    }
  }
  return on_device;
}

Status Steps::save_buffers(std::vector<Offset> const& to, CUstream_st* stream) {
  auto const left =
      copy_buffers(to, [](std::byte* pool, std::byte const* array, std::size_t bytes) {
        pm::stream_bytes(pool, array, bytes);
      });
  return left.empty() ? Status{} : core_.engine->save(left, stream);
}

Status Steps::load_buffers(std::vector<Offset> const& from, CUstream_st* stream) {
  auto const left =
      copy_buffers(from, [](std::byte const* pool, std::byte* array, std::size_t bytes) {
        pm::read_bytes(array, pool, bytes);
      });
  return left.empty() ? Status{} : core_.engine->load(left, stream);
}

Status Steps::check_step(OpenTransaction const& tx, std::uint64_t step) const {
  if (registered_.empty())
    return bad_argument(
        "pool " + core_.path +
        ": no dense buffers are registered in this store; call register_dense before begin");
  if (tx.step)
    return bad_argument("pool " + core_.path + ": this transaction has written step " +
                        std::to_string(*tx.step) +
                        " already; commit it, and write the next one in another");
  if (step > pm::kMostStep)
    return bad_argument("step " + std::to_string(step) + " is above the highest, " +
                        std::to_string(pm::kMostStep));
  return transactions_.check_room(tx, 1);
}

Status Steps::write(Transaction::State& transaction, std::uint64_t step, CUstream_st* stream) {
  ExclusiveLock const store_lock(core_.lock, &transaction);
  if (store_lock.way() == Way::none) return transaction_ended();
  if (Status s = core_.check_open(true); !s.ok()) return s;
  if (Status s = check_step(transaction.open, step); !s.ok()) return s;
  return core_.health.whole_or_failed([&] { return write_in(transaction.open, step, stream); });
}

/// Where saving fails nothing has happened: what was written there does not count.
Status Steps::write_in(OpenTransaction& tx, std::uint64_t step, CUstream_st* stream) {
  PERDURE_ASSERT(core_.is_exclusive() && core_.transaction != nullptr && !tx.step);
  bool const late = mutated("dense_written_after_step_word");
  auto const addresses = dense_copies(false);
  if (Status s = late ? Status{} : save_buffers(addresses, stream); !s.ok())
    return {s.code(), "pool " + core_.path + ", saving dense buffers: " + s.message()};
  core_.health.changing = true;
  PERDURE_ASSERT(tx.undo_entries < core_.undo.capacity());
  wal::UndoRegion const region = core_.undo.next_step(tx.undo_entries);
  if (!mutated("step_word_not_logged")) core_.undo.append(region, core_.dense.word_at());
  if (!mutated("no_order_before_step_word")) pm::order();
  core_.dense.publish(step);
  if (!mutated("no_order_after_step_word")) pm::order();
  if (late) static_cast<void>(save_buffers(addresses, stream));
  ++tx.operations;
  ++tx.undo_entries;
  PERDURE_ASSERT(core_.dense.step() == step);
  tx.step = step;
  core_.counters.add_orders(2);
  return {};
}

Result<std::optional<std::uint64_t>> Steps::restore(CUstream_st* stream) {
  SharedLock const store_lock(core_.lock);
  if (Status s = core_.check_open(false); !s.ok()) return s;
  if (registered_.empty())
    return bad_argument(
        "pool " + core_.path +
        ": no dense buffers are registered in this store; call register_dense first");
  auto const step = core_.dense.step();
  if (!step) return step;
  if (Status s = load_buffers(dense_copies(true), stream); !s.ok())
    return Status{s.code(), "pool " + core_.path + ", loading dense buffers: " + s.message()};
  return step;
}

}  // namespace perdure
