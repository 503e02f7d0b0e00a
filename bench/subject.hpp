// What the comparison of peers measures: Perdure's layouts and the peers, all behind the peers' face. On a GPU
// a call may have its arrays in host memory or in the GPU's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "peer.hpp"

namespace perdure::bench {

/// slabhash-gpm, clevel-gpm; cpu-assisted, and that with -dash-eh, -dash-lh, -clevel and -seph; in_place, word.
[[nodiscard]] std::vector<std::string> const& subject_names();

/// Over a new file at `path`; of the options design and index are ignored. `verify_reads` is for Perdure's layouts:
/// the peers have no checksums. Throws Failure.
[[nodiscard]] std::unique_ptr<peers::Peer> make_subject(std::string const& name, std::string const& path,
                                                        peers::PeerOptions options, bool verify_reads);

}  // namespace perdure::bench
