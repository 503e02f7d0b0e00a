#include "peer.hpp"

#include <algorithm>

#include "machines.hpp"

namespace perdure::peers {
namespace {

Result<std::unique_ptr<Peer>> make_on_cpu(Making making) {
#if defined(PERDURE_HAS_AVX512)
  if (__builtin_cpu_supports("x86-64-v4")) return on_cpu::N_AVX3::make(std::move(making));
#endif
  if (__builtin_cpu_supports("x86-64-v3")) return on_cpu::N_AVX2::make(std::move(making));
  return Status{Code::unsupported, "this processor lacks AVX2, which the CPU warps need"};
}

Result<std::unique_ptr<Peer>> make(Making making) {
  making.workers = std::make_shared<exec::Workers>(making.options.threads);
  return making.options.device == Device::cuda ? make_on_cuda(std::move(making)) : make_on_cpu(std::move(making));
}

Result<std::unique_ptr<Peer>> make(Result<Arena> arena, PeerOptions const& options, bool fresh) {
  if (!arena) return arena.status();
  return make({std::make_unique<Arena>(std::move(*arena)), nullptr, nullptr, options, fresh});
}

/// With a store of Perdure's on the CPU as the index: GPHash's on CPU warps, or Dash's on its threads.
Result<std::unique_ptr<Peer>> make_assisted(std::string const& path, PeerOptions const& options, bool fresh) {
  CreateOptions create;
  create.key_bytes = options.key_bytes;
  create.value_bytes = options.value_bytes;
  create.expected_records = options.expected_records;
  create.index = options.index;
  OpenOptions open;
  open.threads = options.threads;
  open.count_accesses = options.count_accesses;
  open.verify_reads = false;  // as the other peers
  auto store = fresh ? Store::create(path, create, open) : Store::open(path, open);
  if (!store) return store.status();
  return make({nullptr, as_peer(std::move(*store)), nullptr, options, fresh});
}

pm::MapOptions map_options(PeerOptions const& options) {
  pm::MapOptions map;
  map.gpu = options.device == Device::cuda;
  return map;
}

}  // namespace

std::string name(Design design, Index index) {
  switch (design) {
    case Design::slabhash_gpm: return "slabhash-gpm";
    case Design::clevel_gpm: return "clevel-gpm";
    case Design::cpu_assisted: break;
  }
  switch (index) {
    case Index::gphash: break;
    case Index::dash_eh: return "cpu-assisted-dash-eh";
    case Index::dash_lh: return "cpu-assisted-dash-lh";
  }
  return "cpu-assisted";
}

Result<std::unique_ptr<Peer>> create_peer(std::string const& path, PeerOptions const& options) {
  if (options.design == Design::cpu_assisted) return make_assisted(path, options, true);
  ArenaHeader shape{};
  shape.design = static_cast<std::uint32_t>(options.design);
  shape.key_bytes = options.key_bytes;
  shape.value_bytes = options.value_bytes;
  return make(Arena::create(path, shape, map_options(options)), options, true);
}

Result<std::unique_ptr<Peer>> attach_peer(std::string const& path, PeerOptions const& options) {
  if (options.design == Design::cpu_assisted) return make_assisted(path, options, false);
  return make(Arena::attach(path, map_options(options)), options, false);
}

}  // namespace perdure::peers
