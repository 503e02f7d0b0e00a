#include "subject.hpp"

#include "common.hpp"

namespace perdure::bench {

namespace {

struct Rebuilt {
  peers::Design design;
  peers::CpuIndex index = peers::CpuIndex::word;

  [[nodiscard]] std::string name() const { return peers::name(design, index); }
};
constexpr Rebuilt kRebuilt[] = {{peers::Design::slabhash_gpm},
                                {peers::Design::clevel_gpm},
                                {peers::Design::cpu_assisted},
                                {peers::Design::cpu_assisted, peers::CpuIndex::dash_eh},
                                {peers::Design::cpu_assisted, peers::CpuIndex::dash_lh},
                                {peers::Design::cpu_assisted, peers::CpuIndex::clevel},
                                {peers::Design::cpu_assisted, peers::CpuIndex::seph}};

}  // namespace

std::vector<std::string> const& subject_names() {
  static std::vector<std::string> const names = [] {
    std::vector<std::string> all;
    for (Rebuilt const& peer : kRebuilt) all.push_back(peer.name());
    for (Layout const layout : {Layout::in_place, Layout::word}) all.push_back(name(layout));
    return all;
  }();
  return names;
}

std::unique_ptr<peers::Peer> make_subject(std::string const& name, std::string const& path, peers::PeerOptions options,
                                          bool verify_reads) {
  for (Rebuilt const& peer : kRebuilt) {
    if (name != peer.name()) continue;
    options.design = peer.design;
    options.index = peer.index;
    return require(peers::create_peer(path, options), "create " + path);
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
  return peers::as_peer(require(Store::create(path, create, open), "create " + path));
}

}  // namespace perdure::bench
