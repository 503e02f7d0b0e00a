// Perdure's store as a peer among peers: the CPU-assisted path's index, and what the benchmark compares them with.
#include <utility>

#include "peer.hpp"

namespace perdure::peers {
namespace {

class StorePeer final : public Peer {
 public:
  explicit StorePeer(Store store) : store_(std::move(store)) {}

  Status get(Column const& keys, MutableColumn const& values, std::span<KeyStatus> statuses) override {
    return store_.get(keys, values, statuses);
  }
  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return store_.put(keys, values, statuses);
  }
  Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return store_.update(keys, values, Rmw::replace, Element::u8, statuses);
  }
  Status erase(Column const& keys, std::span<KeyStatus> statuses) override { return store_.erase(keys, statuses); }

  [[nodiscard]] PeerStats stats() const override {
    Stats const stats = store_.stats();
    return {stats.records, stats.slots, stats.growths, 0, stats.accesses, stats.machine};
  }
  void reset_counts() override { store_.reset_counts(); }

 private:
  Store store_;
};

}  // namespace

std::unique_ptr<Peer> as_peer(Store store) { return std::make_unique<StorePeer>(std::move(store)); }

}  // namespace perdure::peers
