// What a reader sees of a key.
#pragma once

#include <vector>

#include "lsm/entry.hpp"

namespace perdure::lsm {

/// A key's versions that a reader sees, newest first, down to the first that is no operand.
struct VersionChain {
  std::vector<Version> versions;
  bool closed = false;  // it has what it stands on, or nobody asks for more

  void add(Version const& version) {
    versions.push_back(version);
    closed = version.kind != Kind::merge;
  }
};

}  // namespace perdure::lsm
