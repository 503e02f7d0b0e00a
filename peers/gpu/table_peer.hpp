// How a table of Dash's evaluation (peers/cpu) becomes an index of the CPU-assisted path.
#pragma once

#include <memory>
#include <string>

#include "peer.hpp"

namespace perdure::peers {

/// `table`: a name of peers/cpu that has values in records: clevel or seph-like. Not `fresh`: the file is opened again,
/// with keys and values of the same sizes.
Result<std::unique_ptr<Peer>> make_table_peer(std::string const& path, std::string const& table,
                                              PeerOptions const& options, bool fresh);

}  // namespace perdure::peers
