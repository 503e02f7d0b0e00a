// boost::concurrent_flat_map behind the baselines' face: a volatile table, which pays nothing for
// persistence, as a yardstick. It has the inline keys alone, and its sessions touch no durable
// memory. Its parallel algorithms would bring in <execution>, and that a library (TBB) that nothing
// here calls.
#define BOOST_UNORDERED_DISABLE_PARALLEL_ALGORITHMS
#include <boost/unordered/concurrent_flat_map.hpp>

#include "keys.hpp"
#include "table_on.hpp"

namespace perdure::cpu_baselines {
namespace {

struct HashOfWord {
  using is_avalanching = void;  // the engine's hash is; so the map does not mix it again
  std::size_t operator()(std::uint64_t word) const {
    return hash_bytes(reinterpret_cast<std::byte const*>(&word), 8);
  }
};
using Map = boost::concurrent_flat_map<std::uint64_t, std::uint64_t, HashOfWord>;

class MapSession final : public Session {
 public:
  explicit MapSession(Map& map) : map_(map) {}
  Outcome find(Key key, std::span<std::byte> value) override {
    return answer(map_.cvisit(word_at(key, 0), [&](auto const& record) {
      std::memcpy(value.data(), &record.second, sizeof record.second);
    }));
  }
  Outcome insert(Key key, Value value) override {
    return map_.emplace(word_at(key, 0), word_at(value, 0)) ? Outcome::done : Outcome::exists;
  }
  Outcome update(Key key, Value value) override {
    return answer(
        map_.visit(word_at(key, 0), [&](auto& record) { record.second = word_at(value, 0); }));
  }
  Outcome erase(Key key) override { return answer(map_.erase(word_at(key, 0))); }
  void pin() override {}
  void unpin() override {}

 private:
  static Outcome answer(std::size_t found) { return found != 0 ? Outcome::done : Outcome::absent; }
  Map& map_;
};

class MapTable final : public Table {
 public:
  explicit MapTable(Options const& options) : map_(options.initial_slots) {}
  std::unique_ptr<Session> session(HostKind) override { return std::make_unique<MapSession>(map_); }
  TableStats stats(bool) override { return {map_.size(), 0, 0}; }
  Status why_full() override { return {}; }

 private:
  Map map_;
};

}  // namespace

std::vector<Maker> volatile_tables() {
  return {{"boost-flat-map",
           [](std::string const&, Options const& options) -> Result<std::unique_ptr<Table>> {
             if (options.key_bytes != 8 || options.value_bytes != 8)
               return Status{
                   Code::unsupported,
                   "boost-flat-map: it is measured with keys and values of 8 bytes alone"};
             return Result<std::unique_ptr<Table>>(std::make_unique<MapTable>(options));
           },
           [](std::string const&, Options const&) -> Result<std::unique_ptr<Table>> {
             return Status{Code::unsupported,
                           "boost-flat-map: a volatile table cannot be opened again"};
           }}};
}

}  // namespace perdure::cpu_baselines
