// Perdure's own B+-tree behind the face.
#include "index/btree/tree.hpp"
#include "ordered_makers.hpp"
#include "pm/host.hpp"

namespace perdure::ordered_baselines {
namespace {

namespace bt = perdure::btree;

class BTreeMap final : public Map {
 public:
  [[nodiscard]] bool create() { return tree_.create(host_) == bt::Answer::done; }

  bool put(Keys keys, std::span<std::uint64_t const> values) override {
    exec::EpochGuard const guard(tree_.epochs());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::optional<std::uint64_t> before;
      if (tree_.write(host_, key(keys[i]), values[i], bt::Write::put, before) != bt::Answer::done)
        return false;
    }
    return true;
  }
  std::uint64_t get(Keys keys, std::span<std::uint64_t> values) override {
    exec::EpochGuard const guard(tree_.epochs());
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < keys.size(); ++i)
      found += tree_.find(host_, key(keys[i]), values[i]) == bt::Answer::done;
    return found;
  }
  std::uint64_t get_many(Keys keys, std::span<std::uint64_t> values) override {
    std::vector<bt::Key> all;
    for (std::uint64_t const each : keys) all.push_back(key(each));
    std::vector<bt::Answer> answers(keys.size());
    exec::EpochGuard const guard(tree_.epochs());
    tree_.find_group(host_, all, answers, values);
    std::uint64_t found = 0;
    for (bt::Answer const answer : answers) found += answer == bt::Answer::done;
    return found;
  }
  Scanned scan(std::uint64_t from, std::uint64_t most) override {
    exec::EpochGuard const guard(tree_.epochs());
    bt::Key const first = key(from);
    Scanned scanned;
    tree_.ascend(host_, &first, true, [&](std::uint64_t prefix, std::uint64_t word) {
      ++scanned.count;
      scanned.keys += prefix;
      scanned.values += word;
      return scanned.count < most;
    });
    return scanned;
  }

 private:
  /// The 8 bytes of a number, the highest first.
  static bt::Key key(std::uint64_t number) { return {number, nullptr, sizeof number}; }

  pm::OrderedHost host_;
  bt::Tree<bt::WordKeys> tree_;
};

}  // namespace

Made make_btree() {
  auto map = std::make_unique<BTreeMap>();
  if (!map->create()) return Status{Code::no_space, "perdure-btree: there is no memory"};
  return Made(std::move(map));
}

}  // namespace perdure::ordered_baselines
