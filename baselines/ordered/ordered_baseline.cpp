#include "ordered_baseline.hpp"

#include "ordered_makers.hpp"

namespace perdure::ordered_baselines {

std::vector<std::string> names() {
  std::vector<std::string> all{"perdure-btree", "std-map"};
  if (has_absl()) all.emplace_back("absl-btree");
  if (!rocksdb_build().empty()) all.emplace_back("rocksdb-memtable");
  return all;
}

Result<std::unique_ptr<Map>> create(std::string const& name, std::uint64_t keys,
                                    std::uint32_t threads) {
  if (name == "perdure-btree") return make_btree();
  if (name == "std-map") return make_std_map();
  if (name == "absl-btree" && has_absl()) return make_absl_map();
  if (name == "rocksdb-memtable" && !rocksdb_build().empty())
    return make_rocksdb_memtable(keys, threads);
  return Status{Code::unsupported, "this build has no ordered map '" + name + "'"};
}

std::string remark(std::string const& name) {
  if (name != "rocksdb-memtable" || rocksdb_build() != "distribution") return "";
  return "the distribution's build, with assertions on";
}

}  // namespace perdure::ordered_baselines
