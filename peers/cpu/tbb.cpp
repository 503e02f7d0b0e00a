// oneTBB's concurrent_hash_map behind the peers' face: the volatile table that needs no persistence, as a yardstick. It
// has the inline keys alone, and its sessions touch no durable memory.
#include <oneapi/tbb/concurrent_hash_map.h>

#include "keys.hpp"
#include "table_on.hpp"

namespace perdure::cpu_peers {
namespace {

struct HashOfWord {
  static std::size_t hash(std::uint64_t word) { return hash_bytes(reinterpret_cast<std::byte const*>(&word), 8); }
  static bool equal(std::uint64_t a, std::uint64_t b) { return a == b; }
};
using Map = oneapi::tbb::concurrent_hash_map<std::uint64_t, std::uint64_t, HashOfWord>;

class MapSession final : public Session {
 public:
  explicit MapSession(Map& map) : map_(map) {}
  Outcome find(Key key, std::uint64_t& value) override {
    Map::const_accessor found;
    if (!map_.find(found, word_at(key, 0))) return Outcome::absent;
    value = found->second;
    return Outcome::done;
  }
  Outcome insert(Key key, std::uint64_t value) override {
    return map_.insert(Map::value_type{word_at(key, 0), value}) ? Outcome::done : Outcome::exists;
  }
  Outcome update(Key key, std::uint64_t value) override {
    Map::accessor found;
    if (!map_.find(found, word_at(key, 0))) return Outcome::absent;
    found->second = value;
    return Outcome::done;
  }
  Outcome erase(Key key) override { return map_.erase(word_at(key, 0)) ? Outcome::done : Outcome::absent; }
  void pin() override {}
  void unpin() override {}

 private:
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
  return {{"tbb",
           [](std::string const&, Options const& options) -> Result<std::unique_ptr<Table>> {
             if (options.variable_keys)
               return Status{Code::unsupported, "tbb: it is measured with keys of 8 bytes alone"};
             return Result<std::unique_ptr<Table>>(std::make_unique<MapTable>(options));
           },
           [](std::string const&, Options const&) -> Result<std::unique_ptr<Table>> {
             return Status{Code::unsupported, "tbb: a volatile table cannot be opened again"};
           }}};
}

}  // namespace perdure::cpu_peers
