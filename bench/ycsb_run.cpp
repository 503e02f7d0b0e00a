#include "ycsb_run.hpp"

#include <algorithm>
#include <utility>

#include "dataset.hpp"
#include "driver.hpp"
#include "untimed.hpp"

namespace perdure::bench {
namespace {

/// The counted pass of workloads on a loaded store stops here: averages need no more.
constexpr std::uint64_t kCountedOps = 1 << 20;
constexpr std::size_t kLargeBatch = std::size_t{1} << 16;
constexpr std::uint64_t kWarmUps = 21;  // batches, which decide how gets gather

bool inserts(Workload workload) { return workload == Workload::d || workload == Workload::e; }

class YcsbRun {
 public:
  YcsbRun(YcsbOptions const& options, Device device)
      : o_(options),
        device_(device),
        workload_(workload_named(options.workload)),
        dataset_(options.seed, options.key_bytes, options.value_bytes),
        pool_(options.pool) {}

  void go(std::function<void(YcsbOutcome const&)> const& done) {
    std::vector<YcsbCache> const caches = caches_of(o_);
    for (YcsbCache const& cache : caches) {
      begin(cache);
      if (workload_ == Workload::load) {
        measure_load();
      } else if (caches.size() == 1) {
        Store store = load();
        measure(store);
      } else {
        if (!requests_ || inserts(workload_)) load_and_close();
        Store store = open(false);
        measure(store);
      }
      done(outcome_);
    }
  }

 private:
  void begin(YcsbCache const& cache) {
    std::uint32_t const turn = outcome_.turn + (requests_ ? 1 : 0);
    outcome_ = {};
    outcome_.asked = cache;
    outcome_.turn = turn;
  }

  [[nodiscard]] MemorySpace near() const {
    return device_ == Device::cuda ? MemorySpace::device : MemorySpace::host;
  }
  [[nodiscard]] bool cached() const { return outcome_.asked.share > 0; }
  [[nodiscard]] RequestStream stream(Workload workload) const {
    return RequestStream(workload, o_.records, o_.theta, mix(o_.seed));
  }
  [[nodiscard]] CreateOptions create_options() const {
    CreateOptions create;
    create.key_bytes = o_.key_bytes;
    create.value_bytes = o_.value_bytes;
    create.expected_records = o_.expected_records == 0 ? o_.records : o_.expected_records;
    create.index = index_named(o_.index);
    create.layout = layout_named(o_.layout);
    create.shape = shape_named(o_.shape);
    return create;
  }
  [[nodiscard]] OpenOptions open_options(bool counting) const {
    OpenOptions open;
    open.device = device_;
    open.threads = o_.threads;
    open.verify_reads = o_.verify_reads;
    open.count_accesses = counting;
    open.memory.residency = residency_named(o_.residency);
    if (cached())
      open.memory.cache_bytes = cache_bytes(outcome_.asked.share, o_.records, create_options());
    open.memory.cache_policy = cache_policy_named(outcome_.asked.policy);
    // Gathering in order fetches a record that a batch names twice but once, and choosing how to
    // gather takes its time: as they come, counts are a record's.
    if (counting && cached()) open.memory.gather = Gather::at_once;
    return open;
  }

  [[nodiscard]] Store create(bool counting) {
    pool_.remove();  // ours, from an earlier repeat
    return require(Store::create(pool_.path(), create_options(), open_options(counting)),
                   "create " + pool_.path());
  }
  [[nodiscard]] Store open(bool counting) {
    return require(Store::open(pool_.path(), open_options(counting)), "open " + pool_.path());
  }

  void note(Store const& store) {
    outcome_.stats = store.stats();
    outcome_.stats.growths += growths_before_;
    outcome_.survives = store.survives().describe();
  }

  void read_back(Store& store, RequestStream const& stream) {
    outcome_.checks.add(Untimed(dataset_, large_batch()).read_back(store, stream));
  }

  /// Each repeat loads a new pool.
  Pass load_once(MemorySpace space) {
    Store store = create(false);
    RequestStream requests = stream(Workload::load);
    Pass pass = Driver(dataset_, o_.batch, space).run(store, requests, o_.records);
    read_back(store, requests);
    note(store);
    require(store.close(), "close");
    return pass;
  }

  void measure_load() {
    for (std::uint32_t i = 0; i < o_.repeats; ++i) {
      outcome_.passes.push_back(load_once(near()));
      if (near() != MemorySpace::host && o_.arrays == "both")
        outcome_.passes_end_to_end.push_back(load_once(MemorySpace::host));
    }
    if (!o_.count_accesses) return;
    Store store = create(true);
    RequestStream requests = stream(Workload::load);
    count(store, requests, o_.records);
    require(store.close(), "close");
  }

  /// Operations of a batch that is not measured: a GPU would wait for what makes small ones.
  [[nodiscard]] std::size_t large_batch() const {
    return device_ == Device::cuda ? std::max(o_.batch, kLargeBatch) : o_.batch;
  }

  /// A new pool with all records, and the requests to it.
  Store load() {
    Store store = create(false);
    RequestStream load = stream(Workload::load);
    outcome_.checks.add(Untimed(dataset_, large_batch()).run(store, load, o_.records));
    requests_.emplace(stream(workload_));
    outcome_.turn = 0;
    return store;
  }

  void load_and_close() {
    Store store = load();
    growths_before_ = store.stats().growths;
    require(store.close(), "close");
  }

  /// All repeats run on one pool, loaded once.
  void measure(Store& store) {
    RequestStream& requests = *requests_;
    requests.restart();
    Driver near_driver(dataset_, o_.batch, near(), o_.threads);
    Driver host_driver(dataset_, o_.batch, MemorySpace::host, o_.threads);
    warm(store, near_driver, requests);
    for (std::uint32_t i = 0; i < o_.repeats; ++i) {
      outcome_.passes.push_back(near_driver.run(store, requests, ops()));
      if (near() != MemorySpace::host && o_.arrays == "both")
        outcome_.passes_end_to_end.push_back(host_driver.run(store, requests, ops()));
    }
    note(store);
    if (o_.count_accesses) {
      require(store.close(), "close");
      store = open(true);
      if (cached()) warm(store, host_driver, requests);
      count(store, requests, std::min(ops(), kCountedOps));
    }
    read_back(store, requests);
    require(store.close(), "close");
  }

  /// What the cache goes by: a few gets a record. Policy random notes none, and chooses the same
  /// whatever was got before.
  [[nodiscard]] std::uint64_t learned_ops() const {
    bool const learns =
        cached() && cache_policy_named(outcome_.asked.policy) != CachePolicy::random;
    return learns ? 4 * o_.records : 0;
  }

  /// Warms the processor's caches, and the record cache where there is one.
  void warm(Store& store, Driver& driver, RequestStream& requests) {
    std::uint64_t const some = std::min(ops(), kCountedOps);
    outcome_.checks.add(driver.run(store, requests, some));
    if (!cached()) return;
    outcome_.learned_ops = learned_ops();
    if (outcome_.learned_ops > some) {
      Untimed learning(dataset_, large_batch());
      outcome_.checks.add(learning.run(store, requests, outcome_.learned_ops - some));
    }
    outcome_.cache = require(store.load_cache(), "load the cache");
    if (outcome_.cache.corrupt > 0) throw Failure("the cache found corrupt records");
    // After a load the store tries anew how gets gather. The requests that are measured are not
    // used up for that.
    if (workload_ != Workload::c) return;
    RequestStream others = requests;
    outcome_.checks.add(driver.run(store, others, kWarmUps * o_.batch));
  }

  void count(Store& store, RequestStream& requests, std::uint64_t ops) {
    store.reset_counts();
    Pass const pass =
        Driver(dataset_, o_.batch, MemorySpace::host, o_.threads).run(store, requests, ops);
    std::uint64_t const gets = workload_ == Workload::c ? pass.gets : 0;
    outcome_.accesses = YcsbAccesses{pass.ops, pass.batch_us.size(), gets, store.stats().accesses};
    outcome_.checks.add(pass);
  }

  [[nodiscard]] std::uint64_t ops() const { return o_.ops == 0 ? o_.records : o_.ops; }

  YcsbOptions const& o_;
  Device device_;
  Workload workload_;
  Dataset dataset_;
  PoolFile pool_;
  std::optional<RequestStream> requests_;  // to the pool that is there; none before the first load
  std::uint64_t growths_before_ = 0;  // this store, which was not there when the pool was loaded
  YcsbOutcome outcome_;
};

}  // namespace

std::vector<YcsbCache> caches_of(YcsbOptions const& options) {
  std::vector<YcsbCache> caches;
  bool none = false;
  for (std::string const& policy : options.cache_policies) {
    for (double const share : options.caches) {
      if (share == 0 && std::exchange(none, true)) continue;
      caches.push_back({share, policy});
    }
  }
  return caches;
}

void run_ycsb(YcsbOptions const& options, Device device,
              std::function<void(YcsbOutcome const&)> const& done) {
  YcsbRun(options, device).go(done);
}

}  // namespace perdure::bench
