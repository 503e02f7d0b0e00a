#include "systems.hpp"

#include "common.hpp"

namespace perdure::bench {

namespace {

struct Rebuilt {
  baselines::Design design;
  baselines::CpuIndex index = baselines::CpuIndex::word;

  [[nodiscard]] std::string name() const { return baselines::name(design, index); }
};
constexpr Rebuilt kRebuilt[] = {{baselines::Design::slabhash_gpm},
                                {baselines::Design::clevel_gpm},
                                {baselines::Design::cpu_assisted},
                                {baselines::Design::cpu_assisted, baselines::CpuIndex::dash_eh},
                                {baselines::Design::cpu_assisted, baselines::CpuIndex::dash_lh},
                                {baselines::Design::cpu_assisted, baselines::CpuIndex::clevel},
                                {baselines::Design::cpu_assisted, baselines::CpuIndex::seph}};

}  // namespace

std::vector<std::string> const& system_names() {
  static std::vector<std::string> const names = [] {
    std::vector<std::string> all;
    for (Rebuilt const& baseline : kRebuilt) all.push_back(baseline.name());
    for (Layout const layout : {Layout::in_place, Layout::word}) all.push_back(name(layout));
    return all;
  }();
  return names;
}

std::unique_ptr<baselines::Baseline> make_system(std::string const& name, std::string const& path,
                                                 baselines::BaselineOptions options,
                                                 bool verify_reads) {
  for (Rebuilt const& baseline : kRebuilt) {
    if (name != baseline.name()) continue;
    options.design = baseline.design;
    options.index = baseline.index;
    return require(baselines::create_baseline(path, options), "create " + path);
  }
  CreateOptions create;
  create.key_bytes = options.key_bytes;
  create.value_bytes = options.value_bytes;
  create.expected_records = options.expected_records;
  create.layout = layout_named(name);
  OpenOptions open;
  open.device = options.device;
  open.threads = options.threads;
  open.verify_reads = verify_reads;
  open.count_accesses = options.count_accesses;
  return baselines::as_baseline(require(Store::create(path, create, open), "create " + path));
}

}  // namespace perdure::bench
