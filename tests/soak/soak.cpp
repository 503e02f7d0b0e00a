// perdure_soak KILLS SEED: kills a loading process again and again, and checks what the next open finds.
//
// A child loads a pool with random batches and acknowledges each through a pipe. The parent kills it with
// SIGKILL, at a random moment or as soon as the root says that a resize is under way, opens the pool and
// compares it with its own model. Invariant checked: every acknowledged batch is there in full; of the one
// in flight, each key has its old value or its new one; nothing else is there. Batches follow from
// (SEED, kill, number) alone, so that parent and child agree on them without talking.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>
#include <unordered_map>

#include "../crash/pool_file.hpp"

namespace perdure::test {
namespace {

using Model = std::unordered_map<std::string, std::string>;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kKeySpace = 150'000;
constexpr std::size_t kLifeRecords = 100'000;  // a pool this full is done; the next one begins tiny again
constexpr std::size_t kLargestBatch = 6'000;

struct Kind {
  Layout layout = Layout::word;
  bool variable = false;
  Shape shape;
};

struct Operation {
  OpKind kind;
  std::string key, value;
};

struct Batch {
  bool mixed = false;  // one call of apply(); otherwise all operations are of one kind
  std::vector<Operation> operations;
};

std::string random_value(Kind const& kind, std::mt19937_64& random) {
  std::string value = u64_text(random()) + u64_text(random());
  if (kind.variable) value.resize(random() % 120, static_cast<char>(random()));
  return value;
}

Batch make_batch(Kind const& kind, std::uint64_t seed, std::uint64_t kill, std::uint64_t number) {
  std::seed_seq sequence{seed, kill, number};
  std::mt19937_64 random(sequence);
  Batch batch;
  std::uint64_t const dice = random() % 20;
  batch.mixed = !kind.variable && dice < 4;
  OpKind const all = dice < 6 ? OpKind::erase : dice < 8 && !kind.variable ? OpKind::update : OpKind::put;
  std::size_t const n = 1 + random() % (random() % 3 == 0 ? 50 : kLargestBatch);
  for (std::size_t i = 0; i < n; ++i) {
    OpKind const mix[] = {OpKind::put, OpKind::put, OpKind::erase, OpKind::update};
    std::uint64_t const key = random() % kKeySpace;
    batch.operations.push_back({batch.mixed ? mix[random() % 4] : all,
                                kind.variable ? "key " + std::to_string(key) : u64_text(key),
                                random_value(kind, random)});
  }
  return batch;
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

void apply_to(Model& model, Batch const& batch) {
  for (auto const& op : batch.operations) {
    if (op.kind == OpKind::erase) model.erase(op.key);
    if (op.kind == OpKind::put) model[op.key] = op.value;
    if (op.kind != OpKind::update) continue;
    if (auto const it = model.find(op.key); it != model.end()) add_to(it->second, op.value);
  }
}

Status run(Store& store, Kind const& kind, Batch const& batch) {
  Strings keys(kind.variable ? 0 : 8);
  Strings values(kind.variable ? 0 : 16);
  std::vector<OpKind> kinds;
  for (auto const& op : batch.operations) {
    keys.add(op.key);
    values.add(op.value);
    kinds.push_back(op.kind);
  }
  if (batch.mixed) return store.apply({keys.column(), kinds, values.column(), Rmw::add, Element::u64, {}});
  if (kinds[0] == OpKind::erase) return store.erase(keys.column());
  if (kinds[0] == OpKind::update) return store.update(keys.column(), values.column(), Rmw::add, Element::u64);
  return store.put(keys.column(), values.column());
}

OpenOptions two_threads() {
  OpenOptions options;
  options.threads = 2;
  return options;
}

Result<Store> open_or_create(std::string const& path, Kind const& kind, bool fresh) {
  if (!fresh) return Store::open(path, two_threads());
  CreateOptions create;
  create.key_bytes = kind.variable ? 0 : 8;
  create.value_bytes = kind.variable ? 0 : 16;
  create.layout = kind.layout;
  create.shape = kind.shape;
  create.expected_records = 1;
  create.overwrite = true;
  return Store::create(path, create, two_threads());
}

/// The child: loads until it is killed, one byte into the pipe for each batch that was acknowledged.
[[noreturn]] void load(std::string const& path, Kind const& kind, bool fresh, std::uint64_t seed, std::uint64_t kill,
                       int acknowledge) {
  auto store = open_or_create(path, kind, fresh);
  for (std::uint64_t number = 0; store.ok(); ++number) {
    if (Status s = run(*store, kind, make_batch(kind, seed, kill, number)); !s.ok()) {
      std::fprintf(stderr, "soak: batch %llu: %s\n", static_cast<unsigned long long>(number), s.message().c_str());
      ::_exit(1);
    }
    if (::write(acknowledge, "a", 1) != 1) ::_exit(2);
  }
  std::fprintf(stderr, "soak: %s\n", store.status().message().c_str());
  ::_exit(3);
}

/// Whether the pool at `path` is in a resize to at least 2^log2_buckets; a glance, which may be torn.
bool resizing(std::string const& path, std::uint32_t log2_buckets) {
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  pm::Root copies[2]{};
  bool ok = true;
  for (int i = 0; i < 2; ++i)
    ok &= ::pread(fd, &copies[i], sizeof copies[i], static_cast<off_t>(pm::kRootOffset[i])) == sizeof copies[i];
  ::close(fd);
  pm::Root const& newest = copies[copies[0].sequence > copies[1].sequence ? 0 : 1];
  return ok && newest.retiring == 1 && newest.level[0].log2_buckets >= log2_buckets;
}

class Soak {
 public:
  explicit Soak(std::uint64_t seed) : seed_(seed), random_(seed) {}

  /// One kill; false (with a line on stderr) if what is found afterwards is wrong.
  bool kill_once(std::uint64_t kill) {
    if (fresh_) begin_life();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return wrong(kill, "no pipe");
    pid_t const child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      load(path_.str(), kind_, fresh_, seed_, kill, ends[1]);
    }
    ::close(ends[1]);
    bool const aimed = wait_for_the_moment(kill);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::unlink((path_.str() + ".new-" + std::to_string(child)).c_str());  // a kill inside create leaves it
    std::uint64_t acknowledged = 0;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], bytes, sizeof bytes)) > 0;) acknowledged += static_cast<std::uint64_t>(n);
    ::close(ends[0]);
    if (!WIFSIGNALED(status)) return wrong(kill, "the child ended by itself");
    aimed_ += aimed ? 1 : 0;
    batches_ += acknowledged;
    return examine(kill, acknowledged);
  }

  void summary(std::uint64_t kills) const {
    std::printf(
        "%llu kills (%llu aimed at a resize), %llu pools, %llu batches acknowledged; %llu landed in a resize, "
        "%llu in a create, %llu left a duplicate, %llu left a half inserted slot; every acknowledged batch "
        "was there\n",
        as_ull(kills), as_ull(aimed_), as_ull(lives_), as_ull(batches_), as_ull(in_resize_), as_ull(in_create_),
        as_ull(duplicates_), as_ull(half_inserted_));
  }

 private:
  static unsigned long long as_ull(std::uint64_t n) { return n; }

  bool wrong(std::uint64_t kill, std::string const& what) const {
    std::fprintf(stderr, "soak: kill %llu, seed %llu, layout %s%s: %s\n", as_ull(kill), as_ull(seed_),
                 kind_.layout == Layout::word ? "word" : "in_place", kind_.variable ? ", variable" : "", what.c_str());
    return false;
  }

  void begin_life() {
    static constexpr Shape kShapes[] = {{2, 2, 8}, {2, 2, 8}, {3, 2, 4}, {1, 2, 16}};
    kind_ = {lives_ % 2 == 0 ? Layout::word : Layout::in_place, lives_ / 2 % 2 == 1, kShapes[random_() % 4]};
    ::unlink(path_.str().c_str());  // or a kill before the create ends would find the last life's pool
    model_.clear();
    top_ = 0;
    ++lives_;
  }

  /// Every other kill comes at a random moment, the others inside a resize of some size.
  bool wait_for_the_moment(std::uint64_t kill) {
    if (kill % 2 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 150'000));
      return false;
    }
    auto const goal = std::max(top_ + 1, 8 + static_cast<std::uint32_t>(random_() % 5));
    auto const deadline = Clock::now() + std::chrono::milliseconds(1500);
    while (!resizing(path_.str(), goal)) {
      if (Clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
    return true;
  }

  bool examine(std::uint64_t kill, std::uint64_t acknowledged) {
    auto store = Store::open(path_.str(), two_threads());
    if (!store) {
      bool const unborn = fresh_ && acknowledged == 0 &&
                          (store.status().code() == Code::not_found || store.status().code() == Code::corrupt);
      if (!unborn) return wrong(kill, store.status().message());
      ++in_create_;
      return true;
    }
    fresh_ = false;
    for (std::uint64_t n = 0; n < acknowledged; ++n) apply_to(model_, make_batch(kind_, seed_, kill, n));
    RecoveryReport const& r = store->recovery();
    in_resize_ += r.resize_resumed ? 1 : 0;
    duplicates_ += r.duplicates;
    half_inserted_ += r.dropped;
    if (r.clean && acknowledged > 0) return wrong(kill, "the pool says it was closed in order");
    if (r.why_dropped.find("lead to no record") != std::string::npos) return wrong(kill, r.why_dropped);
    Model found;
    if (!scan_into(found, *store)) return wrong(kill, "a scan fails or finds a key twice");
    if (found.size() != r.records) return wrong(kill, "recovery counts " + std::to_string(r.records) + " records");
    if (std::string const w = differ(found, make_batch(kind_, seed_, kill, acknowledged)); !w.empty())
      return wrong(kill, w + " (" + std::to_string(acknowledged) + " batches acknowledged)");
    if (!answers(*store, found)) return wrong(kill, "get and scan differ");
    auto verified = store->verify();
    if (!verified || verified->fault_count != 0)
      return wrong(kill, verified ? "verify: " + verified->faults.at(0) : verified.status().message());
    model_ = std::move(found);
    top_ = store->stats().top_level;
    fresh_ = model_.size() > kLifeRecords;
    return true;  // the store closes; the next child opens a clean pool
  }

  static bool scan_into(Model& found, Store& store) {
    for (ScanCursor cursor; !cursor.done;) {
      auto page = store.scan(cursor, 10'000);
      if (!page) return false;
      for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i)
        if (!found.emplace(text_at(page->keys, i), text_at(page->values, i)).second) return false;
      cursor = page->next;
    }
    return true;
  }

  static std::string describe(std::string const& key, std::optional<std::string> const& before,
                              std::optional<std::string> const& found, std::optional<std::string> const& after,
                              Batch const& in_flight) {
    auto const hex = [](std::optional<std::string> const& bytes) {
      if (!bytes) return std::string("none");
      std::string text;
      char two[3];
      for (char const c : *bytes) {
        std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        text += two;
      }
      return text;
    };
    std::ostringstream text;
    text << ": key " << hex(key) << ", before " << hex(before) << ", found " << hex(found) << ", after " << hex(after)
         << "; the batch in flight (" << in_flight.operations.size() << (in_flight.mixed ? " mixed" : "")
         << " operations) has for it";
    for (auto const& op : in_flight.operations)
      if (op.key == key) text << ' ' << static_cast<int>(op.kind) << ':' << hex(op.value);
    return text.str();
  }

  /// What the pool holds against the model, the batch in flight taken or not, key by key.
  [[nodiscard]] std::string differ(Model const& found, Batch const& in_flight) const {
    Model next = model_;
    apply_to(next, in_flight);
    Model touched;
    for (auto const& op : in_flight.operations) touched.emplace(op.key, "");
    auto const value = [](Model const& in, std::string const& key) {
      auto const it = in.find(key);
      return it == in.end() ? std::optional<std::string>() : std::optional(it->second);
    };
    for (Model const* keys : {&model_, &found, static_cast<Model const*>(&next)}) {
      for (auto const& [key, ignored] : *keys) {
        auto const now = value(found, key);
        if (now == value(model_, key)) continue;
        if (touched.contains(key) && now == value(next, key)) continue;
        return (now ? "a key has a value nobody gave it" : "an acknowledged key is gone") +
               describe(key, value(model_, key), now, value(next, key), in_flight);
      }
    }
    return "";
  }

  static bool answers(Store& store, Model const& found) {
    std::vector<std::string> keys;
    for (auto const& [key, value] : found) keys.push_back(key);
    auto const got = get_all(store, keys);
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (got[i].status != KeyStatus::ok || got[i].value != found.at(keys[i])) return false;
    return true;
  }

  std::uint64_t const seed_;
  std::mt19937_64 random_;
  PoolPath path_;
  Kind kind_;
  Model model_;
  bool fresh_ = true;
  std::uint32_t top_ = 0;
  std::uint64_t lives_ = 0, aimed_ = 0, batches_ = 0, in_resize_ = 0, in_create_ = 0, duplicates_ = 0,
                half_inserted_ = 0;
};

int soak(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: perdure_soak KILLS SEED\n");
    return 2;
  }
  std::uint64_t const kills = std::strtoull(argv[1], nullptr, 10);
  Soak run_of(std::strtoull(argv[2], nullptr, 10));
  for (std::uint64_t kill = 0; kill < kills; ++kill)
    if (!run_of.kill_once(kill)) return 1;
  run_of.summary(kills);
  return 0;
}

}  // namespace
}  // namespace perdure::test

int main(int argc, char** argv) { return perdure::test::soak(argc, argv); }
