#include "subject.hpp"

#include "common.hpp"

namespace perdure::bench {

std::vector<std::string> const& subject_names() {
  static std::vector<std::string> const names{"slabhash-gpm", "clevel-gpm", "cpu-assisted", "in_place", "word"};
  return names;
}

std::unique_ptr<peers::Peer> make_subject(std::string const& name, std::string const& path, peers::PeerOptions options,
                                          bool verify_reads) {
  using peers::Design;
  for (Design const design : {Design::slabhash_gpm, Design::clevel_gpm, Design::cpu_assisted}) {
    if (name != peers::name(design)) continue;
    options.design = design;
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
