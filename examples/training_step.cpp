// A training step as one commit, in C++: embeddings in a table, dense weights, and the step's
// number.
//
//   training_step [NAME]     pools NAME-whole and NAME-killed are made, and removed; default
//                            /dev/shm/perdure-training
//
// Trains a small model (two embeddings multiplied, a dense layer on top) twice: once without a
// stop, and once in processes that are killed in mid-step, each of which goes on from the step that
// the one before had committed. Both must come to the same table, weights and bias, bit for bit. A
// store whose table, weights and step number became durable one by one would fail here: after a
// kill they would be of different steps.
#include <perdure/store.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using perdure::Result;
using perdure::Status;
using perdure::Store;

constexpr std::uint64_t kRows = 500, kBatch = 128, kSteps = 120;
constexpr std::size_t kWidth = 16;
constexpr float kRate = 16;

enum class Kill { never, after_the_batch, after_the_weights };
constexpr std::pair<std::uint64_t, Kill> kKills[] = {{7, Kill::after_the_batch},
                                                     {8, Kill::after_the_weights},
                                                     {60, Kill::after_the_weights},
                                                     {61, Kill::after_the_batch}};

using Row = std::array<float, kWidth>;

/// The dense part, which stays where it is and changes in place.
struct Model {
  Row weights{};
  float bias = 0;

  std::vector<perdure::DenseBuffer> buffers() {
    return {{"weights", reinterpret_cast<std::byte*>(weights.data()), sizeof weights,
             perdure::MemorySpace::host},
            {"bias", reinterpret_cast<std::byte*>(&bias), sizeof bias, perdure::MemorySpace::host}};
  }
};

[[noreturn]] void fail(std::string const& what) {
  std::fprintf(stderr, "training_step: %s\n", what.c_str());
  std::exit(1);
}
void require(Status const& status) {
  if (!status.ok()) fail(status.message());
}
template <class T>
T require(Result<T> result) {
  require(result.status());
  return std::move(result.value());
}

perdure::Column column(std::vector<std::uint64_t> const& keys) {
  return {reinterpret_cast<std::byte const*>(keys.data()), nullptr, sizeof keys[0], keys.size()};
}
perdure::Column column(std::vector<Row> const& rows) {
  return {reinterpret_cast<std::byte const*>(rows.data()), nullptr, sizeof rows[0], rows.size()};
}

std::vector<Row> get(Store& store, std::vector<std::uint64_t> const& keys) {
  std::vector<Row> rows(keys.size());
  std::vector<perdure::KeyStatus> found(keys.size());
  require(store.get(column(keys),
                    {reinterpret_cast<std::byte*>(rows.data()), sizeof rows[0], rows.size()},
                    found));
  if (std::any_of(found.begin(), found.end(),
                  [](auto one) { return one != perdure::KeyStatus::ok; }))
    fail("a row of the table is missing");
  return rows;
}

/// Rows, weights and number: all of it, or, after a kill anywhere before commit() returns, none of
/// it.
void commit_step(Store& store, std::uint64_t step, std::vector<std::uint64_t> const& keys,
                 std::vector<Row> const& rows, Model& model, Model const& trained, Kill kill) {
  // the step is one of them
  perdure::Transaction transaction = require(store.begin({keys.size() + 1}));
  perdure::CallOptions in;
  in.transaction = &transaction;
  require(store.put(column(keys), column(rows), {}, in));
  if (kill == Kill::after_the_batch) ::raise(SIGKILL);
  model = trained;
  require(transaction.write_step(step));
  if (kill == Kill::after_the_weights) ::raise(SIGKILL);
  require(transaction.commit());
}

/// The step to go on from; of a new pool step 0, which writes what training begins with.
std::uint64_t begin(Store& store, Model& model) {
  require(store.register_dense(model.buffers()));
  auto const done = require(store.restore_step());
  if (done) return *done;
  std::mt19937 random(2);
  auto const draw = [&] { return static_cast<float>(random() % 2001) / 1000 * 0.5f - 0.5f; };
  std::vector<std::uint64_t> keys(kRows);
  std::vector<Row> rows(kRows);
  for (std::uint64_t k = 0; k < kRows; ++k) keys[k] = k;
  for (Row& row : rows) std::generate(row.begin(), row.end(), draw);
  Model first;
  first.weights.fill(1);
  commit_step(store, 0, keys, rows, model, first, Kill::never);
  return 0;
}

/// Two rows, and whether they belong together, which follows from what nobody tells the model.
struct Example {
  std::size_t left, right;
  float label;
};
std::vector<Example> examples(std::uint64_t step) {
  auto const hidden = [](std::uint64_t row) {
    return std::mt19937(static_cast<unsigned>(row))() % 2 != 0;
  };
  std::mt19937 random(static_cast<unsigned>(1000 + step));
  std::vector<Example> batch(kBatch);
  for (Example& one : batch) {
    one.left = random() % kRows;
    one.right = random() % kRows;
    one.label = hidden(one.left) == hidden(one.right) ? 1.0f : 0.0f;
  }
  return batch;
}

/// How many of the batch the model had right.
std::uint64_t train_step(Store& store, Model& model, std::uint64_t step, Kill kill) {
  std::vector<Example> batch = examples(step);
  std::vector<std::uint64_t> keys;
  for (Example const& one : batch) keys.insert(keys.end(), {one.left, one.right});
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  auto const place = [&](std::uint64_t key) {
    return static_cast<std::size_t>(std::lower_bound(keys.begin(), keys.end(), key) - keys.begin());
  };
  std::vector<Row> const rows = get(store, keys);
  std::vector<Row> after = rows;
  Model trained = model;
  std::uint64_t right = 0;
  for (Example const& one : batch) {
    Row const &a = rows[place(one.left)], &b = rows[place(one.right)];
    float score = model.bias;
    for (std::size_t i = 0; i < kWidth; ++i) score += a[i] * b[i] * model.weights[i];
    right += (score > 0) == (one.label > 0.5f);
    float const step_by = kRate / kBatch * (1 / (1 + std::exp(-score)) - one.label);
    for (std::size_t i = 0; i < kWidth; ++i) {
      after[place(one.left)][i] -= step_by * model.weights[i] * b[i];
      after[place(one.right)][i] -= step_by * model.weights[i] * a[i];
      trained.weights[i] -= step_by * a[i] * b[i];
    }
    trained.bias -= step_by;
  }
  commit_step(store, step, keys, after, model, trained, kill);
  return right;
}

/// From where the pool is to the last step, or to the kill on the way.
int train(std::string const& pool, std::uint64_t kill_in) {
  perdure::CreateOptions create;
  create.key_bytes = sizeof(std::uint64_t);
  create.value_bytes = sizeof(Row);
  create.expected_records = kRows;
  bool const there = ::access(pool.c_str(), F_OK) == 0;
  Store store = require(there ? Store::open(pool) : Store::create(pool, create));
  Model model;
  std::uint64_t const done = begin(store, model);
  std::uint64_t first = 0, last = 0;
  for (std::uint64_t step = done + 1; step <= kSteps; ++step) {
    Kill kill = Kill::never;
    for (auto const& [number, where] : kKills)
      if (step == kill_in && step == number) kill = where;
    last = train_step(store, model, step, kill);
    if (step == done + 1) first = last;
  }
  std::printf("  steps %llu to %llu: of %llu right %llu in the first, %llu in the last\n",
              static_cast<unsigned long long>(done + 1), static_cast<unsigned long long>(kSteps),
              static_cast<unsigned long long>(kBatch), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(last));
  require(store.close());
  return 0;
}

/// In a process of its own; how it ended, as waitpid() has it.
int train_in_child(std::string pool, std::uint64_t kill_in) {
  std::fflush(stdout);
  std::string program = "/proc/self/exe", how = "--train", number = std::to_string(kill_in);
  char* arguments[] = {program.data(), how.data(), pool.data(), number.data(), nullptr};
  ::pid_t child = 0;
  if (::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0)
    fail("cannot start a process");
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

struct Contents {
  std::uint64_t step;
  std::vector<Row> rows;
  Model model;
};
Contents contents(std::string const& pool) {
  Store store = require(Store::open(pool));
  Contents all{};
  require(store.register_dense(all.model.buffers()));
  auto const step = require(store.restore_step());
  if (!step) fail(pool + " holds no step");
  all.step = *step;
  std::vector<std::uint64_t> keys(kRows);
  for (std::uint64_t k = 0; k < kRows; ++k) keys[k] = k;
  all.rows = get(store, keys);
  require(store.close());
  return all;
}

bool same_bits(Contents const& a, Contents const& b) {
  return a.step == b.step && std::memcmp(a.rows.data(), b.rows.data(), kRows * sizeof(Row)) == 0 &&
         std::memcmp(&a.model.weights, &b.model.weights, sizeof(Row)) == 0 &&
         std::memcmp(&a.model.bias, &b.model.bias, sizeof(float)) == 0;
}

int compare(std::string const& whole, std::string const& killed) {
  std::printf("without a stop:\n");
  if (train_in_child(whole, 0) != 0) return 1;
  for (auto const& [step, where] : kKills) {
    std::printf("killed in step %llu, after the %s\n", static_cast<unsigned long long>(step),
                where == Kill::after_the_batch ? "batch" : "weights");
    int const status = train_in_child(killed, step);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) fail("the process was not killed");
    if (contents(killed).step != step - 1) fail("the step that was cut short left something");
  }
  if (train_in_child(killed, 0) != 0) return 1;
  bool const same = same_bits(contents(whole), contents(killed));
  std::printf(same ? "after %llu steps both hold the same, bit for bit\n"
                   : "after %llu steps they differ\n",
              static_cast<unsigned long long>(kSteps));
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--train") == 0)
    return train(argv[2], std::strtoull(argv[3], nullptr, 10));
  std::string const name = argc > 1 ? argv[1] : "/dev/shm/perdure-training";
  for (char const* which : {"-whole", "-killed"}) ::unlink((name + which).c_str());
  int const status = compare(name + "-whole", name + "-killed");
  for (char const* which : {"-whole", "-killed"}) ::unlink((name + which).c_str());
  return status;
}
