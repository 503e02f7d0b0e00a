#include "rocks/fuzz/actions.hpp"

#include <array>

namespace perdure::test {

std::span<Action const> actions() {
  static constexpr std::array kActions = {
      Action{"put", 2000, put},
      Action{"put_entity", 4, put_entity},
      Action{"erase", 500, erase},
      Action{"single_delete", 200, single_delete},
      Action{"merge", 900, merge},
      Action{"delete_range", 25, delete_range},
      Action{"write_batch", 500, write_batch},
      Action{"write_large_batch", 30, write_large_batch},
      Action{"write_to_no_family", 10, write_to_no_family},
      Action{"merge_without_operator", 10, merge_without_operator},
      Action{"get", 2200, get},
      Action{"get_entity", 100, get_entity},
      Action{"multi_get_strings", 200, multi_get_strings},
      Action{"multi_get_family", 300, multi_get_family},
      Action{"multi_get_families", 200, multi_get_families},
      Action{"key_may_exist", 200, key_may_exist},
      Action{"batch_with_index", 60, batch_with_index},
      Action{"take_snapshot", 60, take_snapshot},
      Action{"release_snapshot", 60, release_snapshot},
      Action{"scan", 300, scan},
      Action{"scan_families", 30, scan_families},
      Action{"open_iterator", 60, open_iterator},
      Action{"use_iterator", 300, use_iterator},
      Action{"close_iterator", 50, close_iterator},
      Action{"array_put", 20, array_put},
      Action{"array_merge", 15, array_merge},
      Action{"array_erase", 10, array_erase},
      Action{"array_get", 40, array_get},
      Action{"array_range", 20, array_range},
      Action{"array_apply", 15, array_apply},
      Action{"flush", 15, flush},
      Action{"compact", 6, compact},
      Action{"create_family", 6, create_family},
      Action{"drop_family", 6, drop_family},
      Action{"set_options", 4, set_options},
      Action{"ingest", 8, ingest},
      Action{"checkpoint", 6, checkpoint},
      Action{"dump_all", 8, dump_all},
      Action{"reopen", 6, nullptr},
  };
  return kActions;
}

}  // namespace perdure::test
