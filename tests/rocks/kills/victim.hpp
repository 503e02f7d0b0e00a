// The process that perdure_rocks_kills kills: it opens the database and writes until it dies.
#pragma once

#include <cstdint>
#include <string>

#include "rocks/kills/workload.hpp"

namespace perdure::test {

/// What is wrong with the victim on purpose.
enum class Plant {
  none,
  early,  // acknowledges a call before it is made
  twice,  // makes the first thread's last call again when it has opened the database
  parts,  // makes two writes of one call
};
Plant plant_named(std::string const& name);

struct Assignment {
  std::uint64_t seed = 1;
  std::string open = "perdure";
  std::string plant = "none";
  std::string path;  // of the database
  std::string page;  // file of the Page
  bool only_opens = false;  // and closes, so that recoveries are killed too
};

/// Exit status: 0 where it only opened, 1 what should not fail did.
int be_victim(Assignment const& assignment);

/// The page in a file of this name; made if it is missing.
Page& map_page(std::string const& path);

}  // namespace perdure::test
