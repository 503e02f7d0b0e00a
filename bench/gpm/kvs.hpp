// gpKVS: batches of SETs, or of GETs and SETs, against a hash table in durable memory (GPM figure
// 6; the table is MegaKV's in shape): buckets of 8 slots, two candidate buckets a key, keys and
// values of 8 bytes.
//
// All operations of a batch happen at once: its GETs see the table as it was before the batch, and
// of its SETs of one key the last in batch order wins. SETs are completed in passes: every SET that
// is left chooses its slot from the table as it stands (Seek); they are put in the order of their
// slots; of those that want one slot the last writes it, and the others drop out if they set the
// same key, or go on with the next pass (Write). So the table that a batch leaves does not depend
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
#include <cmath>
#include <unordered_map>

#include "kvs_kernels.hpp"

namespace perdure::bench::gpm {

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

/// The SETs of a batch, in as many passes as they take.
template <class Grid>
class KvsPasses {
 public:
  KvsPasses(Grid& grid, std::uint32_t most_sets, std::uint32_t threads)
      : grid_(grid),
        threads_(threads),
        requested_(grid, most_sets),
        sort_(grid),
        writers_(grid, most_sets),
        left_(grid, most_sets),
        next_(grid, most_sets),
        counts_(grid, 2) {}

  /// Of all SETs of a batch; `near` is the table where kernels search it.
  void complete(KvsBatch const& batch, KvsTable const& table, KvsTable const& near,
                Transactions<Grid>& store) {
    Array<Grid, std::uint32_t>*now = &left_, *later = &next_;
    std::uint32_t left = batch.sets();
    for (bool first = true; left > 0; first = false, std::swap(now, later)) {
      left = pass(batch, table, near, store,
                  {left, first ? nullptr : now->data(), requested_.data(), writers_.data(),
                   later->data(), counts_.data()});
    }
  }
  /// Of all batches.
  [[nodiscard]] std::uint32_t count() const { return passes_; }

 private:
  /// How many SETs another pass is needed for.
  std::uint32_t pass(KvsBatch const& batch, KvsTable const& table, KvsTable const& near,
                     Transactions<Grid>& store, KvsPass pass) {
    ++passes_;
    counts_.fill(0);
    GridShape const shape = perdure::gpm::grid_of(pass.left, threads_);
    require(grid_.launch(shape, KvsSeek{near, batch, pass}), "SETs");
    auto const bits = 32 + static_cast<std::uint32_t>(std::bit_width(near.places()));
    pass.requested = require(sort_(pass.requested, pass.left, bits), "SETs");
    require(grid_.launch(shape, KvsWrite{table, near, batch, pass, store.log()}, store.persist()),
            "SETs");
    std::vector<std::uint32_t> const counts = counts_.get();
    if (counts[1] != 0) {
      throw Failure("kvs: " + std::to_string(counts[1]) +
                    " SETs found both buckets of their keys full, or no room in the log; the batch "
                    "is undone when resumed");
    }
    return counts[0];
  }

  Grid& grid_;
  std::uint32_t threads_;  // of a block
  Array<Grid, std::uint64_t> requested_;
  perdure::gpm::WordSort<Grid> sort_;
  Array<Grid, std::uint32_t> writers_, left_, next_;
  Array<Grid, std::uint32_t> counts_;
  std::uint32_t passes_ = 0;
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
        passes_(grid, problem_.operations, threads_) {  // a preloading batch has SETs alone
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
    report.more.emplace_back("passes", static_cast<double>(passes_.count()));
    store_.add_to(report);
    return report;
  }

 private:
  [[nodiscard]] std::uint32_t sets() const { return problem_.operations / problem_.every; }
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
      passes_.complete(batch(number), table(), near(), store_);
    }
  }
  void apply(KvsBatch const& batch) {
    if (batch.every > 1) {
      require(grid_.launch(perdure::gpm::grid_of(batch.operations, threads_),
                           KvsGet{near(), batch, answers_.data()}),
              "GETs");
    }
    passes_.complete(batch, table(), near(), store_);
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
  KvsPasses<Grid> passes_;
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
