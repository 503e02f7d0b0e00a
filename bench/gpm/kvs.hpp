// gpKVS: batches of SETs, or of GETs and SETs, against a hash table in durable memory (GPM figure
// 6; the table is MegaKV's in shape): buckets of 8 slots, two candidate buckets a key, keys and
// values of 8 bytes.
//
// All operations of a batch happen at once: its GETs see the table as it was before the batch, and
// of its SETs of one key the last in batch order wins. SETs are settled in rounds: every SET that
// is left chooses its slot from the table as it stands (Seek); they are put in the order of their
// slots; of those that want one slot the last writes it, and the others drop out if they set the
// same key, or go on with the next round (Write). So the table that a batch leaves does not depend
// on how its threads were scheduled. And stores to durable memory go from low addresses to high
// ones: a GPU translates addresses of a few hundred MiB of it at a time, so in random order each
// store of a large table would wait for a translation (docs/benchmarks/libgpm.md).
//
// Invariants: a key stands in one slot at most; a slot is written once a batch at most; what stood
// in a slot is durably in the log before the slot is written (transact.hpp says how a batch ends).
// Where both buckets of a key are full the batch fails as a whole. Table 1: 25 batches of 2M SETs;
// 100 batches of 2M, 95:5; a table of 4 GiB.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "transact.hpp"

namespace perdure::bench::gpm {

inline constexpr std::uint32_t kKvsSlots = 8;
inline constexpr std::uint32_t kKvsNowhere = 0xffffffffu;

/// A bucket is 8 keys and then their 8 values: 128 bytes. Key 0 stands for an empty slot.
struct KvsTable {
  std::uint64_t* words;
  std::uint64_t buckets;  // a power of two

  PERDURE_FN std::uint64_t places() const { return buckets * kKvsSlots; }
  PERDURE_FN std::uint64_t* key_at(std::uint32_t place) const {
    return words + std::uint64_t{place} / kKvsSlots * (2 * kKvsSlots) + place % kKvsSlots;
  }
  PERDURE_FN std::uint64_t* value_at(std::uint32_t place) const {
    return key_at(place) + kKvsSlots;
  }
  PERDURE_FN std::uint64_t bucket_of(std::uint64_t key, std::uint32_t which) const {
    return nth_hash(key, 1 + which) & (buckets - 1);
  }

  /// Where a key stands in a bucket, and what room the bucket has; empty slots are met from `start`
  /// on.
  struct Look {
    std::uint32_t found, empty, room;
  };
  PERDURE_FN Look look(std::uint64_t bucket, std::uint64_t key, std::uint32_t start) const {
    Look seen{kKvsNowhere, kKvsNowhere, 0};
    auto const first = static_cast<std::uint32_t>(bucket * kKvsSlots);
    for (std::uint32_t i = 0; i < kKvsSlots; ++i) {
      std::uint32_t const place = first + (start + i) % kKvsSlots;
      std::uint64_t const here = *key_at(place);
      if (here == key) seen.found = place;
      if (here != 0) continue;
      if (seen.room++ == 0) seen.empty = place;
    }
    return seen;
  }
  PERDURE_FN std::uint32_t find(std::uint64_t key) const {
    std::uint32_t const found = look(bucket_of(key, 0), key, 0).found;
    return found != kKvsNowhere ? found : look(bucket_of(key, 1), key, 0).found;
  }
  /// Where a SET of the key belongs: where it stands, else in the emptier bucket.
  PERDURE_FN std::uint32_t room_for(std::uint64_t key) const {
    auto const start = static_cast<std::uint32_t>(nth_hash(key, 3) % kKvsSlots);
    Look const one = look(bucket_of(key, 0), key, start);
    if (one.found != kKvsNowhere) return one.found;
    Look const two = look(bucket_of(key, 1), key, start);
    if (two.found != kKvsNowhere) return two.found;
    return two.room > one.room ? two.empty : one.empty;
  }
};

/// What stood in a slot before a SET.
struct KvsEntry {
  std::uint32_t key[2], value[2];
  std::uint32_t place;

  PERDURE_FN static std::uint64_t joined(std::uint32_t const* half) {
    return half[0] | std::uint64_t{half[1]} << 32;
  }
  PERDURE_FN static void split(std::uint32_t* half, std::uint64_t word) {
    half[0] = static_cast<std::uint32_t>(word);
    half[1] = static_cast<std::uint32_t>(word >> 32);
  }
};
static_assert(sizeof(KvsEntry) == 20);

/// What keys are asked for; the same whenever and wherever it is asked.
struct KvsRequests {
  static constexpr std::uint64_t kPreload = std::uint64_t{1}
                                            << 40;  // numbers of batches that fill a fresh table

  std::uint64_t seed;
  std::uint64_t ranks;
  std::uint64_t const*
      until;  // until[r]: of 2^64 draws those for ranks 0 to r; null: all ranks alike
  std::uint32_t operations;  // of a batch
  std::uint32_t every;  // one of so many operations in a row is a SET

  PERDURE_FN static std::uint64_t key_of(std::uint64_t seed, std::uint64_t rank) {
    return random_at(seed, rank) | 1;
  }
  /// Seven of eight keys are there from the start.
  PERDURE_FN static std::uint64_t preloaded(std::uint64_t n) { return n / 7 * 8 + n % 7; }
  PERDURE_FN std::uint64_t rank_of(std::uint64_t batch, std::uint64_t op) const {
    if (batch >= kPreload) return preloaded((batch - kPreload) * operations + op);
    std::uint64_t const draw = random_at(seed + 1, batch * operations + op);
    if (until == nullptr) return draw % ranks;
    std::uint64_t low = 0, high = ranks - 1;
    while (low < high) {
      std::uint64_t const middle = (low + high) / 2;
      if (draw <= until[middle]) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
  PERDURE_FN std::uint64_t key(std::uint64_t batch, std::uint64_t op) const {
    return key_of(seed, rank_of(batch, op));
  }
};

/// A batch whose keys have been made.
struct KvsBatch {
  std::uint64_t const* keys;
  std::uint64_t number;
  std::uint64_t seed;
  std::uint32_t operations;
  std::uint32_t every;

  PERDURE_FN std::uint32_t sets() const { return operations / every; }
  /// The operation that is SET number n.
  PERDURE_FN std::uint32_t set_at(std::uint32_t n) const {
    if (every == 1) return n;
    return n * every +
           static_cast<std::uint32_t>(random_at(seed + 2, number * operations + n) % every);
  }
  PERDURE_FN bool is_set(std::uint32_t op) const { return set_at(op / every) == op; }
  PERDURE_FN std::uint64_t value(std::uint32_t op) const {
    return random_at(seed + 3, number * operations + op);
  }
};

struct KvsMake {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsRequests requests;
  std::uint64_t batch;
  std::uint64_t* keys;
  std::uint32_t operations;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t op = thread.global(); op < operations; op += thread.total())
      keys[op] = requests.key(batch, op);
  }
};

struct KvsGet {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsTable near;
  KvsBatch batch;
  std::uint64_t* answers;  // by operation; 0: no such key, or no GET

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < batch.operations; i += thread.total()) {
      auto const op = static_cast<std::uint32_t>(i);
      std::uint32_t const place = batch.is_set(op) ? kKvsNowhere : near.find(batch.keys[op]);
      answers[op] = place != kKvsNowhere ? *near.value_at(place) : 0;
    }
  }
};

/// What the kernels of a round have in machine memory.
struct KvsRound {
  std::uint32_t left;  // SETs that are not settled
  std::uint32_t const* which;  // their numbers; null: all of the batch
  std::uint64_t*
      wanted;  // of each: the slot, and below it the SET's number; Write finds them in order
  std::uint32_t* writers;  // of each SET of the batch: its writer in the log
  std::uint32_t* next;  // numbers of SETs for the next round
  std::uint32_t* counts;  // [0]: of these; [1]: SETs that found no room

  PERDURE_FN std::uint32_t set(std::uint64_t i) const {
    return which != nullptr ? which[i] : static_cast<std::uint32_t>(i);
  }
  PERDURE_FN static std::uint64_t wants(std::uint64_t place, std::uint32_t n) {
    return place << 32 | n;
  }
  PERDURE_FN std::uint32_t place_at(std::uint64_t i) const {
    return static_cast<std::uint32_t>(wanted[i] >> 32);
  }
  PERDURE_FN std::uint32_t set_at(std::uint64_t i) const {
    return static_cast<std::uint32_t>(wanted[i]);
  }
  /// The last of those that want what the i-th wants.
  PERDURE_FN std::uint64_t last_like(std::uint64_t i) const {
    std::uint32_t const place = place_at(i);
    if (i + 1 == left || place_at(i + 1) != place) return i;
    std::uint64_t low = i + 1, high = left - 1;
    while (low < high) {
      std::uint64_t const middle = (low + high + 1) / 2;
      if (place_at(middle) == place) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

/// Chooses slots. Writes no table, so that all choose from the same one.
struct KvsSeek {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsTable near;
  KvsBatch batch;
  KvsRound round;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < round.left; i += thread.total()) {
      std::uint32_t const n = round.set(i), place = near.room_for(batch.keys[batch.set_at(n)]);
      if (place == kKvsNowhere) thread.add(&round.counts[1], 1);
      round.wanted[i] = KvsRound::wants(place == kKvsNowhere ? near.places() : place, n);
    }
  }
};

/// The last that wants a slot logs what is there, and writes.
struct KvsWrite {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsTable table;  // durable
  KvsTable near;
  KvsBatch batch;
  KvsRound round;
  WriteLog log;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < round.left; i += thread.total()) {
      std::uint32_t const n = round.set_at(i), place = round.place_at(i);
      // Who writes in a later round has left the place in the log unused that it had in the first.
      if (round.which == nullptr) round.writers[n] = static_cast<std::uint32_t>(i);
      if (place == near.places()) continue;
      std::uint32_t const op = batch.set_at(n);
      std::uint64_t const last = round.last_like(i);
      if (last == i) {
        write(thread, round.writers[n], op, place);
      } else if (batch.keys[batch.set_at(round.set_at(last))] != batch.keys[op]) {
        round.next[thread.add(&round.counts[0], 1)] = n;
      }
    }
  }

  template <class T>
  PERDURE_FN void write(T& thread, std::uint32_t writer, std::uint32_t op,
                        std::uint32_t place) const {
    std::uint64_t const key = batch.keys[op], value = batch.value(op),
                        old_key = *near.key_at(place);
    KvsEntry entry;
    KvsEntry::split(entry.key, old_key);
    KvsEntry::split(entry.value, *near.value_at(place));
    entry.place = place;
    if (!log.insert(thread, &entry, sizeof entry, writer)) {
      thread.add(&round.counts[1], 1);
      return;
    }
    thread.store(table.value_at(place), value);
    if (old_key != key) thread.store(table.key_at(place), key);
    if (near.words != table.words) {
      *near.value_at(place) = value;
      *near.key_at(place) = key;
    }
    thread.persist();  // as in figure 6; the host, which waits before it commits, would do without
  }
};

/// Overwritten keys and values come back, and slots that were empty become empty.
struct KvsUndo {
  using Entry = KvsEntry;
  KvsTable table;
  KvsTable near;

  template <class T>
  PERDURE_FN void put_back(T& thread, KvsEntry const& entry) const {
    std::uint64_t const key = KvsEntry::joined(entry.key), value = KvsEntry::joined(entry.value);
    thread.store(table.key_at(entry.place), key);
    thread.store(table.value_at(entry.place), value);
    *near.key_at(entry.place) = key;
    *near.value_at(entry.place) = value;
  }
};

/// Of all keys and values, wherever they stand.
struct KvsDigest {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  KvsTable table;
  std::uint64_t* sum;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    std::uint64_t mine = 0;
    for (std::uint64_t place = thread.global(); place < table.places(); place += thread.total()) {
      auto const here = static_cast<std::uint32_t>(place);
      if (std::uint64_t const key = *table.key_at(here))
        mine += nth_hash(nth_hash(key, 4) ^ *table.value_at(here), 5);
    }
    thread.add(sum, mine);
  }
};

struct KvsProblem {
  std::uint32_t bucket_bits;
  std::uint32_t operations;  // of a batch, a multiple of every
  std::uint32_t batches;
  std::uint64_t ranks;  // keys there are
  std::uint64_t preloaded;  // of them, a multiple of operations
  std::uint32_t every;  // one of so many operations is a SET
};

[[nodiscard]] inline KvsProblem kvs_problem(Size size, bool mixed) {
  if (!mixed) {
    if (size == Size::tiny) return {7, 200, 6, 380, 0, 1};
    if (size == Size::small) return {19, 1u << 15, 25, std::uint64_t{1} << 20, 0, 1};
    return {25, 1u << 21, 25, std::uint64_t{1} << 26, 0, 1};
  }
  if (size == Size::tiny) return {7, 280, 12, 640, 560, 20};
  if (size == Size::small) return {19, 65520, 20, 262080 / 7 * 8, 262080, 20};
  return {25, 2097200, 100, 16777600 / 7 * 8, 16777600, 20};
}

/// Zipf's law for so many ranks, as KvsRequests::until has it.
[[nodiscard]] inline std::vector<std::uint64_t> zipf_until(std::uint64_t ranks, double theta) {
  std::vector<double> sums(ranks);
  double sum = 0;
  for (std::uint64_t r = 0; r < ranks; ++r)
    sums[r] = sum += std::pow(static_cast<double>(r + 1), -theta);
  std::vector<std::uint64_t> until(ranks);
  for (std::uint64_t r = 0; r < ranks; ++r)
    until[r] = static_cast<std::uint64_t>(sums[r] / sum * 0x1.fffffffffffffp63);
  return until;
}

/// What a plain loop says that the table holds.
class KvsModel {
 public:
  void apply(KvsBatch const& batch) {
    for (std::uint32_t n = 0; n < batch.sets(); ++n)
      values_[batch.keys[batch.set_at(n)]] = batch.value(batch.set_at(n));
  }
  [[nodiscard]] bool answers(KvsBatch const& batch,
                             std::vector<std::uint64_t> const& answers) const {
    for (std::uint32_t op = 0; op < batch.operations; ++op) {
      auto const found = batch.is_set(op) ? values_.end() : values_.find(batch.keys[op]);
      if (answers[op] != (found != values_.end() ? found->second : 0)) return false;
    }
    return true;
  }
  /// Whether the table holds this and nothing else, every key once and where it belongs.
  [[nodiscard]] bool agrees(KvsTable const& table) const {
    std::size_t seen = 0;
    for (std::uint32_t place = 0; place < table.places(); ++place) {
      std::uint64_t const key = *table.key_at(place);
      if (key == 0) continue;
      ++seen;
      auto const found = values_.find(key);
      if (found == values_.end() || found->second != *table.value_at(place) ||
          table.find(key) != place)
        return false;
    }
    return seen == values_.size();
  }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> values_;
};

template <class Grid>
class Kvs {
 public:
  Kvs(Grid& grid, AppOptions const& options, bool mixed)
      : grid_(grid),
        problem_(kvs_problem(options.size, mixed)),
        threads_(block_threads(options.size)),
        seed_(options.seed),
        checks_(options.check || options.size != Size::paper),
        until_(mixed ? zipf_until(problem_.ranks, 0.99) : std::vector<std::uint64_t>()),
        until_near_(grid, std::max<std::size_t>(until_.size(), 1)),
        store_(grid, options,
               {std::uint64_t{128} << problem_.bucket_bits, sets(), sizeof(KvsEntry)}),
        keys_(grid, problem_.operations),
        answers_(grid, problem_.operations),
        wanted_(grid, most_sets()),
        sort_(grid),
        writers_(grid, most_sets()),
        left_(grid, most_sets()),
        next_(grid, most_sets()),
        counts_(grid, 2) {
    if (mixed) until_near_.set(until_);
    if (options.iterations != 0) problem_.batches = options.iterations;
  }

  AppReport run() {
    if (store_.goes_on()) {
      store_.recover(KvsUndo{table(), near()});
    } else {
      preload();
      store_.begin();
    }
    std::uint64_t const from = store_.committed();
    if (checks_) catch_up(from);
    bool right = !checks_ || !store_.logs() ||
                 agrees();  // what is there now is what batches [0, from) leave
    BatchWork work{[&](std::uint64_t n) { make(n); },
                   [&](std::uint64_t n) { apply(batch(n)); },
                   [&](std::uint64_t) { store_.commit(0, store_.bytes()); },
                   [&](std::uint64_t n) { right = check(n, from) && right; },
                   {}};
    if (store_.logs()) work.undo = [&] { store_.undo(KvsUndo{table(), near()}); };
    AppReport report = run_batches(grid_, from, problem_.batches, work);
    report.operations = report.steps * problem_.operations;
    report.durable_bytes = store_.made_durable();
    report.digest = digest(table());
    report.right = right && report.digest == digest(near()) && (!checks_ || agrees());
    report.more.emplace_back("rounds", static_cast<double>(rounds_));
    store_.add_to(report);
    return report;
  }

 private:
  [[nodiscard]] std::uint32_t sets() const { return problem_.operations / problem_.every; }
  /// A preloading batch has nothing else.
  [[nodiscard]] std::uint32_t most_sets() const { return problem_.operations; }
  [[nodiscard]] KvsTable table() const { return view(store_.table()); }
  [[nodiscard]] KvsTable near() const { return view(store_.near()); }
  [[nodiscard]] KvsTable view(std::byte* at) const {
    return {reinterpret_cast<std::uint64_t*>(at), std::uint64_t{1} << problem_.bucket_bits};
  }
  [[nodiscard]] KvsRequests requests(std::uint64_t const* until) const {
    return {seed_, problem_.ranks, until_.empty() ? nullptr : until, problem_.operations,
            problem_.every};
  }
  [[nodiscard]] KvsBatch batch(std::uint64_t number) const {
    return {keys_.data(), number, seed_, problem_.operations,
            number >= KvsRequests::kPreload ? 1 : problem_.every};
  }

  void make(std::uint64_t number) {
    KvsMake const kernel{requests(until_near_.data()), number, keys_.data(), problem_.operations};
    require(grid_.launch(perdure::gpm::grid_of(problem_.operations, threads_), kernel),
            "making a batch");
  }
  void preload() {
    for (std::uint64_t done = 0; done < problem_.preloaded; done += problem_.operations) {
      std::uint64_t const number = KvsRequests::kPreload + done / problem_.operations;
      make(number);
      set(batch(number));
    }
  }
  void apply(KvsBatch const& batch) {
    if (batch.every > 1) {
      require(grid_.launch(perdure::gpm::grid_of(batch.operations, threads_),
                           KvsGet{near(), batch, answers_.data()}),
              "GETs");
    }
    set(batch);
  }
  void set(KvsBatch const& batch) {
    Array<Grid, std::uint32_t>*now = &left_, *later = &next_;
    std::uint32_t left = batch.sets();
    for (bool first = true; left > 0; first = false, std::swap(now, later)) {
      left = settle(batch, {left, first ? nullptr : now->data(), wanted_.data(), writers_.data(),
                            later->data(), counts_.data()});
    }
  }
  /// How many SETs another round is needed for.
  std::uint32_t settle(KvsBatch const& batch, KvsRound round) {
    ++rounds_;
    counts_.fill(0);
    GridShape const shape = perdure::gpm::grid_of(round.left, threads_);
    require(grid_.launch(shape, KvsSeek{near(), batch, round}), "SETs");
    auto const bits = 32 + static_cast<std::uint32_t>(std::bit_width(near().places()));
    round.wanted = require(sort_(round.wanted, round.left, bits), "SETs");
    require(grid_.launch(shape, KvsWrite{table(), near(), batch, round, store_.log()},
                         store_.persist()),
            "SETs");
    std::vector<std::uint32_t> const counts = counts_.get();
    if (counts[1] != 0) {
      throw Failure("kvs: " + std::to_string(counts[1]) +
                    " SETs found both buckets of their keys full, or no room in the log; the batch "
                    "is undone when resumed");
    }
    return counts[0];
  }

  /// The model has seen batches [0, n), and what was there before them.
  void catch_up(std::uint64_t n) {
    for (std::uint64_t done = 0; done < problem_.preloaded; done += problem_.operations)
      model(KvsRequests::kPreload + done / problem_.operations);
    for (std::uint64_t b = 0; b < n; ++b) model(b);
  }
  [[nodiscard]] KvsBatch host_batch(std::uint64_t number) {
    KvsRequests const asks = requests(until_.data());
    host_keys_.resize(problem_.operations);
    for (std::uint32_t op = 0; op < problem_.operations; ++op)
      host_keys_[op] = asks.key(number, op);
    KvsBatch same = batch(number);
    same.keys = host_keys_.data();
    return same;
  }
  void model(std::uint64_t number) { model_.apply(host_batch(number)); }
  /// Where nothing is logged, the first batch after a crash may find some of itself.
  bool check(std::uint64_t n, std::uint64_t from) {
    if (!checks_) return true;
    KvsBatch const same = host_batch(n);
    bool const knows = same.every > 1 && (store_.logs() || !store_.goes_on() || n != from);
    bool const right = !knows || model_.answers(same, answers_.get());
    model_.apply(same);
    return right;
  }
  bool agrees() {
    Array<Grid, std::byte> copy(grid_, store_.bytes());
    require(grid_.copy(copy.data(), store_.table(), store_.bytes()), "table");
    std::vector<std::byte> holds = copy.get();
    return model_.agrees(view(holds.data()));
  }
  std::uint64_t digest(KvsTable const& of) {
    Array<Grid, std::uint64_t> sum(grid_, 1);
    sum.fill(0);
    auto const shape =
        perdure::gpm::grid_of(std::min<std::uint64_t>(of.buckets, 1u << 16), threads_);
    require(grid_.launch(shape, KvsDigest{of, sum.data()}), "digest");
    return sum.get()[0];
  }

  Grid& grid_;
  KvsProblem problem_;
  std::uint32_t threads_;  // of a block
  std::uint64_t seed_;
  bool checks_;
  std::vector<std::uint64_t> until_;
  Array<Grid, std::uint64_t> until_near_;
  Transactions<Grid> store_;
  Array<Grid, std::uint64_t> keys_, answers_;
  Array<Grid, std::uint64_t> wanted_;
  perdure::gpm::WordSort<Grid> sort_;
  Array<Grid, std::uint32_t> writers_, left_, next_;
  Array<Grid, std::uint32_t> counts_;
  std::uint32_t rounds_ = 0;
  KvsModel model_;
  std::vector<std::uint64_t> host_keys_;
};

/// SETs alone.
template <class Grid>
AppReport run_kvs(Grid& grid, AppOptions const& options) {
  return Kvs<Grid>(grid, options, false).run();
}

/// 95 GETs to 5 SETs, of keys after Zipf's law.
template <class Grid>
AppReport run_kvs_mixed(Grid& grid, AppOptions const& options) {
  return Kvs<Grid>(grid, options, true).run();
}

}  // namespace perdure::bench::gpm
