#include "soak/workload.hpp"

#include <cstring>
#include <random>

#include "base/sanitizer.hpp"
#include "crash/pool_file.hpp"
#include "soak/allocations.hpp"

namespace perdure::test {
namespace {

// Sanitizer builds are several times slower; what they look for shows in small pools as well.
constexpr std::uint64_t kSmaller = kThreadSanitizer || kAddressSanitizer ? 8 : 1;
constexpr std::uint64_t kKeySpace = 150'000 / kSmaller;
constexpr std::uint64_t kAlike = 10;  // keys that come often, and side by side
constexpr std::uint64_t kOfAlikeOneIn = 32;
constexpr std::size_t kLargestBatch = 6'000 / kSmaller;
// small, so that checkpoints come often and logs run full
constexpr std::uint64_t kLogBytes = 4u << 20;

std::string random_value(Kind const& kind, std::mt19937_64& random) {
  std::string value = u64_text(random()) + u64_text(random());
  if (kind.value_bytes == 0) value.resize(random() % 120, static_cast<char>(random()));
  return value;
}

/// Those below kAlike have one hash where keys have room for it, whatever else is in them: their
/// first 8 bytes multiply what differs by zero (base/hash.hpp).
std::string key_text(Kind const& kind, std::uint64_t n) {
  if (kind.key_bytes == 8) return u64_text(n);
  bool const alike = n < kAlike;
  if (kind.key_bytes == 0 && !alike) return "key " + std::to_string(n);
  std::size_t const bytes = kind.key_bytes != 0 ? kind.key_bytes : 50;
  std::string key = u64_text(alike ? 0x13198a2e03707344u : 0) + u64_text(n);
  key.resize(bytes, 'k');
  return key;
}

void add_to(std::string& value, std::string const& operand) {
  for (std::size_t at = 0; at + 8 <= value.size(); at += 8) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, value.data() + at, 8);
    std::memcpy(&b, operand.data() + at, 8);
    a += b;
    std::memcpy(value.data() + at, &a, 8);
  }
}

OpenOptions open_options(PoolFiles const& files, Device device) {
  OpenOptions options;
  options.threads = 2;
  options.device = device;
  options.log_dir = files.log_dir;
  return options;
}

Batch random_batch(Kind const& kind, std::mt19937_64& random, std::size_t largest) {
  Batch batch;
  std::uint64_t const dice = random() % 20;
  bool const adds = kind.value_bytes != 0;
  batch.mixed = adds && dice < 4;
  OpKind const all = dice < 6 ? OpKind::erase : dice < 8 && adds ? OpKind::update : OpKind::put;
  std::size_t const n = 1 + random() % (random() % 3 == 0 ? 50 : largest);
  batch.operations.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    OpKind const mix[] = {OpKind::put, OpKind::put, OpKind::erase, OpKind::update};
    std::uint64_t const key = random() % (random() % kOfAlikeOneIn == 0 ? kAlike : kKeySpace);
    batch.operations.push_back(
        {batch.mixed ? mix[random() % 4] : all, key_text(kind, key), random_value(kind, random)});
  }
  return batch;
}

void apply_to(Model& model, Operation const& op) {
  if (op.kind == OpKind::erase) model.erase(op.key);
  if (op.kind == OpKind::put) model[op.key] = op.value;
  if (op.kind != OpKind::update) return;
  if (auto const it = model.find(op.key); it != model.end()) add_to(it->second, op.value);
}

Status run(Store& store, Kind const& kind, Batch const& batch, CallOptions const& how) {
  Strings keys(kind.key_bytes);
  Strings values(kind.value_bytes);
  std::vector<OpKind> kinds;
  for (auto const& op : batch.operations) {
    keys.add(op.key);
    values.add(op.value);
    kinds.push_back(op.kind);
  }
  Column const k = keys.column(), v = values.column();
  InCall const here;
  if (batch.mixed) return store.apply({k, kinds, v, Rmw::add, Element::u64, {}}, {}, how);
  if (kinds[0] == OpKind::erase) return store.erase(k, {}, how);
  if (kinds[0] == OpKind::update) return store.update(k, v, Rmw::add, Element::u64, {}, how);
  return store.put(k, v, {}, how);
}

/// A call of the store's, and nothing else: a copy of its Status could fail, too.
template <class F>
auto in_call(F const& call) {
  InCall const here;
  return call();
}

Status run_transaction(Store& store, Kind const& kind, Step const& step, std::uint64_t room,
                       Running const& running) {
  auto transaction = in_call([&] { return store.begin({room}); });
  if (!transaction) return transaction.status();
  running.begun(*transaction);
  CallOptions how;
  how.transaction = &*transaction;
  Status s;
  for (Batch const& batch : step.batches)
    if (s = run(store, kind, batch, how); !s.ok()) break;
  bool const ends = s.ok();
  if (ends) running.ending();
  in_call([&] {
    if (ends) s = step.how == Step::How::committed ? transaction->commit() : transaction->abort();
    Transaction const gone = std::move(*transaction);  // aborts one that has not ended
  });
  return s;
}

}  // namespace

std::string Kind::describe() const {
  std::string const sizes = ", keys of " + (key_bytes != 0 ? std::to_string(key_bytes) : "any") +
                            " and values of " +
                            (value_bytes != 0 ? std::to_string(value_bytes) : "any") + " bytes";
  if (index != Index::gphash)
    return std::string(index == Index::dash_eh ? "dash-eh" : "dash-lh") + sizes;
  return std::string(layout == Layout::word  ? "word"
                     : layout == Layout::log ? "log"
                                             : "in_place") +
         sizes + ", " + std::to_string(shape.levels) + "L-" + std::to_string(shape.hashes) + "H-" +
         std::to_string(shape.slots) + "S, " +
         (disk    ? "power on a disk that forgets"
          : power ? "power"
                  : "process") +
         (device == Device::cuda ? ", cuda" : "");
}

std::size_t Step::operations() const {
  std::size_t all = 0;
  for (Batch const& batch : batches) all += batch.operations.size();
  return all;
}

std::size_t life_records() { return 100'000 / kSmaller; }

Step make_step(Kind const& kind, std::uint64_t seed, std::uint64_t kill, std::uint64_t number) {
  using How = Step::How;
  std::seed_seq sequence{seed, kill, number};
  std::mt19937_64 random(sequence);
  constexpr How kHow[] = {How::atomic, How::atomic, How::committed, How::committed, How::aborted};
  Step step;
  if (std::uint64_t const dice = random() % 10;
      kind.index == Index::gphash && kind.layout != Layout::in_place && dice < 5)
    step.how = kHow[dice];
  std::size_t const batches = step.is_transaction() ? 1 + random() % 4 : 1;
  for (std::size_t i = 0; i < batches; ++i)
    step.batches.push_back(random_batch(kind, random, kLargestBatch / batches));
  return step;
}

void apply_to(Model& model, Step const& step) {
  if (step.how == Step::How::aborted) return;
  for (Batch const& batch : step.batches)
    for (Operation const& op : batch.operations) apply_to(model, op);
}

std::vector<std::optional<std::string>> on_the_way(Model const& before, Step const& step,
                                                   std::string const& key) {
  Model one;
  if (auto const it = before.find(key); it != before.end()) one.emplace(*it);
  std::vector<std::optional<std::string>> values;
  for (Batch const& batch : step.batches) {
    for (Operation const& op : batch.operations) {
      if (op.key != key) continue;
      apply_to(one, op);
      values.push_back(one.empty() ? std::nullopt : std::optional(one.begin()->second));
    }
  }
  return values;
}

/// A transaction whose batches turn out not to fit is begun again with more room, which grows the
/// table.
Status run(Store& store, Kind const& kind, Step const& step, Running const& running) {
  CallOptions how;
  how.atomic = step.how == Step::How::atomic;
  Status done;
  if (!step.is_transaction() || (running.without_transaction && step.how == Step::How::committed)) {
    for (Batch const& batch : step.batches)
      if (done = run(store, kind, batch, how); !done.ok()) break;
    return done;
  }
  for (std::uint64_t room = step.operations(), tries = 0; tries < 10; room *= 2, ++tries) {
    done = run_transaction(store, kind, step, room, running);
    if (done.code() != Code::no_space) break;
  }
  return done;
}

Result<Store> create_pool(PoolFiles const& files, Kind const& kind) {
  CreateOptions create;
  create.key_bytes = kind.key_bytes;
  create.value_bytes = kind.value_bytes;
  create.index = kind.index;
  if (kind.index == Index::gphash) {
    create.layout = kind.layout;
    create.shape = kind.shape;
  }
  create.expected_records = 1;
  create.file.overwrite = true;
  if (kind.power) {
    create.durability = Durability::power;
    create.log.dir = files.log_dir;
    create.log.bytes = kLogBytes;
  }
  OpenOptions open = open_options(files, kind.device);
  open.log_dir.clear();  // create() names it
  return in_call([&] { return Store::create(files.path, create, open); });
}

Result<Store> open_pool(PoolFiles const& files, Device device) {
  OpenOptions const options = open_options(files, device);
  return in_call([&] { return Store::open(files.path, options); });
}

Status close_pool(Store& store) {
  return in_call([&] { return store.close(); });
}

Status write_nothing(Store& store, Kind const& kind) {
  Strings keys(kind.key_bytes);
  keys.add(key_text(kind, ~std::uint64_t{0}));
  Column const k = keys.column();
  return in_call([&] { return store.erase(k); });
}

Status read_some(Store& store, Kind const& kind) {
  Strings keys(kind.key_bytes);
  for (std::uint64_t key = 0; key < 20; ++key) keys.add(key_text(kind, key));
  std::vector<KeyStatus> statuses(keys.count());
  Column const k = keys.column();
  auto const got = in_call([&] { return store.get_variable(k, statuses); });
  auto const scanned = in_call([&] { return store.scan({}, 100); });
  return got.ok() ? scanned.status() : got.status();
}

}  // namespace perdure::test
