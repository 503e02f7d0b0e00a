#include "baseline.hpp"

#include <algorithm>

#include "machines.hpp"
#include "table_baseline.hpp"

namespace perdure::baselines {
namespace {

Result<std::unique_ptr<Baseline>> make_on_cpu(Making making) {
  Result<std::unique_ptr<Baseline>> made =
      Status{Code::unsupported, "this processor lacks AVX2, which the CPU warps need"};
#if defined(PERDURE_HAS_AVX512)
  if (__builtin_cpu_supports("x86-64-v4")) {
    perdure_cpu_baselines_avx512(making, made);
    return made;
  }
#endif
  if (__builtin_cpu_supports("x86-64-v3")) perdure_cpu_baselines_avx2(making, made);
  return made;
}

Result<std::unique_ptr<Baseline>> make(Making making) {
  making.workers = std::make_shared<exec::Workers>(making.options.threads);
  return making.options.device == Device::cuda ? make_on_cuda(std::move(making))
                                               : make_on_cpu(std::move(making));
}

Result<std::unique_ptr<Baseline>> make(Result<Arena> arena, BaselineOptions const& options,
                                       bool fresh) {
  if (!arena) return arena.status();
  return make({std::make_unique<Arena>(std::move(*arena)), nullptr, nullptr, options, fresh});
}

Index index_of(CpuIndex index) {
  switch (index) {
    case CpuIndex::dash_eh: return Index::dash_eh;
    case CpuIndex::dash_lh: return Index::dash_lh;
    default: return Index::gphash;
  }
}

Result<std::unique_ptr<Baseline>> make_store(std::string const& path,
                                             BaselineOptions const& options, bool fresh) {
  CreateOptions create;
  create.key_bytes = options.key_bytes;
  create.value_bytes = options.value_bytes;
  create.expected_records = options.expected_records;
  create.index = index_of(options.index);
  OpenOptions open;
  open.threads = options.threads;
  open.count_accesses = options.count_accesses;
  open.verify_reads = false;  // as the other baselines
  auto store = fresh ? Store::create(path, create, open) : Store::open(path, open);
  if (!store) return store.status();
  return as_baseline(std::move(*store));
}

Result<std::unique_ptr<Baseline>> make_index(std::string const& path,
                                             BaselineOptions const& options, bool fresh) {
  switch (options.index) {
    case CpuIndex::clevel: return make_table_baseline(path, "clevel", options, fresh);
    case CpuIndex::seph: return make_table_baseline(path, "seph-like", options, fresh);
    default: return make_store(path, options, fresh);
  }
}

Result<std::unique_ptr<Baseline>> make_assisted(std::string const& path,
                                                BaselineOptions const& options, bool fresh) {
  auto index = make_index(path, options, fresh);
  if (!index) return index.status();
  return make({nullptr, std::move(*index), nullptr, options, fresh});
}

pm::MapOptions map_options(BaselineOptions const& options) {
  pm::MapOptions map;
  map.gpu = options.device == Device::cuda;
  return map;
}

}  // namespace

std::string name(Design design, CpuIndex index) {
  switch (design) {
    case Design::slabhash_gpm: return "slabhash-gpm";
    case Design::clevel_gpm: return "clevel-gpm";
    case Design::cpu_assisted: break;
  }
  switch (index) {
    case CpuIndex::word: break;
    case CpuIndex::dash_eh: return "cpu-assisted-dash-eh";
    case CpuIndex::dash_lh: return "cpu-assisted-dash-lh";
    case CpuIndex::clevel: return "cpu-assisted-clevel";
    case CpuIndex::seph: return "cpu-assisted-seph";
  }
  return "cpu-assisted";
}

Result<std::unique_ptr<Baseline>> create_baseline(std::string const& path,
                                                  BaselineOptions const& options) {
  if (options.design == Design::cpu_assisted) return make_assisted(path, options, true);
  ArenaHeader shape{};
  shape.design = static_cast<std::uint32_t>(options.design);
  shape.key_bytes = options.key_bytes;
  shape.value_bytes = options.value_bytes;
  return make(Arena::create(path, shape, map_options(options)), options, true);
}

Result<std::unique_ptr<Baseline>> attach_baseline(std::string const& path,
                                                  BaselineOptions const& options) {
  if (options.design == Design::cpu_assisted) return make_assisted(path, options, false);
  return make(Arena::attach(path, map_options(options)), options, false);
}

}  // namespace perdure::baselines
