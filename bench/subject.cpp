#include "subject.hpp"

#include "common.hpp"
#include "peer.hpp"

namespace perdure::bench {
namespace {

class PeerSubject final : public Subject {
 public:
  explicit PeerSubject(std::unique_ptr<peers::Peer> peer) : peer_(std::move(peer)) {}

  Status get(Column const& keys, MutableColumn const& values, std::span<KeyStatus> statuses) override {
    return peer_->get(keys, values, statuses);
  }
  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return peer_->put(keys, values, statuses);
  }
  Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return peer_->update(keys, values, statuses);
  }
  Status erase(Column const& keys, std::span<KeyStatus> statuses) override { return peer_->erase(keys, statuses); }

  [[nodiscard]] std::optional<double> kernel_seconds() const override {
    double const seconds = peer_->stats().kernel_seconds;
    return seconds > 0 ? std::optional(seconds) : std::nullopt;
  }
  [[nodiscard]] AccessCounts accesses() const override { return peer_->stats().accesses; }
  [[nodiscard]] double load_factor() const override {
    peers::PeerStats const stats = peer_->stats();
    return static_cast<double>(stats.records) / static_cast<double>(stats.slots);
  }
  [[nodiscard]] std::string machine() const override { return peer_->stats().machine; }
  void reset_counts() override { peer_->reset_counts(); }

 private:
  std::unique_ptr<peers::Peer> peer_;
};

class StoreSubject final : public Subject {
 public:
  explicit StoreSubject(Store store) : store_(std::move(store)) {}

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

  [[nodiscard]] std::optional<double> kernel_seconds() const override { return std::nullopt; }
  [[nodiscard]] AccessCounts accesses() const override { return store_.stats().accesses; }
  [[nodiscard]] double load_factor() const override { return store_.stats().load_factor; }
  [[nodiscard]] std::string machine() const override { return store_.stats().machine; }
  void reset_counts() override { store_.reset_counts(); }

 private:
  Store store_;
};

std::unique_ptr<Subject> make_store(Layout layout, std::string const& path, SubjectOptions const& o) {
  CreateOptions create;
  create.key_bytes = o.key_bytes;
  create.value_bytes = o.value_bytes;
  create.expected_records = o.expected_records;
  create.layout = layout;
  OpenOptions open;
  open.device = o.device;
  open.threads = o.threads;
  open.verify_reads = o.verify_reads;
  open.count_accesses = o.count_accesses;
  return std::make_unique<StoreSubject>(require(Store::create(path, create, open), "create " + path));
}

std::unique_ptr<Subject> make_peer(peers::Design design, std::string const& path, SubjectOptions const& o) {
  peers::PeerOptions options;
  options.design = design;
  options.device = o.device;
  options.key_bytes = o.key_bytes;
  options.value_bytes = o.value_bytes;
  options.expected_records = o.expected_records;
  options.threads = o.threads;
  options.count_accesses = o.count_accesses;
  return std::make_unique<PeerSubject>(require(peers::create_peer(path, options), "create " + path));
}

}  // namespace

std::vector<std::string> const& subject_names() {
  static std::vector<std::string> const names{"slabhash-gpm", "clevel-gpm", "cpu-assisted", "in_place", "word"};
  return names;
}

std::unique_ptr<Subject> make_subject(std::string const& name, std::string const& path, SubjectOptions const& options) {
  using peers::Design;
  for (Design const design : {Design::slabhash_gpm, Design::clevel_gpm, Design::cpu_assisted}) {
    if (name == peers::name(design)) return make_peer(design, path, options);
  }
  return make_store(layout_named(name), path, options);
}

}  // namespace perdure::bench
