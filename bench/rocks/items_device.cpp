// Arrays in a GPU's memory, keys, values and outputs, beside the same calls with arrays of the
// host: what a call costs that has to bring its data to the log, and its answers back. Perdure
// alone, for RocksDB has no such calls. By all threads, and by one, who has the link for itself.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "device_arrays.hpp"
#include "failure.hpp"
#include "items.hpp"
#include "perdure/rocks.h"

namespace perdure::bench::rocks {
namespace {

struct FarArrays {
  PairArrays here;
  std::unique_ptr<DeviceArray> keys, values;
};

/// As ArrayClient, with arrays that the GPU has before the clock runs, and that it is left with.
class DeviceClient : public ArrayRounds<FarArrays> {
 public:
  DeviceClient(rocksdb::DB& db, Pairs const& pairs, ArrayCall what, std::uint64_t operations,
               std::uint64_t batch, ArrayClient::Next next)
      : ArrayRounds(db, pairs, operations, batch), what_(what), next_(std::move(next)) {}

 private:
  void fill(FarArrays& arrays, std::size_t count) override {
    rocks::fill(arrays.here, pairs_, what_, count, next_);
    if (arrays.keys == nullptr) {  // those of a later round are not larger
      arrays.keys = std::make_unique<DeviceArray>(arrays.here.keys.size());
      arrays.values = std::make_unique<DeviceArray>(arrays.here.values.size());
    }
    arrays.keys->upload(arrays.here.keys);
    arrays.values->upload(arrays.here.values);
  }
  void call(FarArrays& arrays) override {
    std::size_t const n = arrays.here.count;
    constexpr MemorySpace kSpace = MemorySpace::device;
    Column const keys{arrays.keys->data(), nullptr, pairs_.key_bytes(), n, kSpace};
    auto* const family = db_.DefaultColumnFamily();
    if (what_ == ArrayCall::put) {
      Column const values{arrays.values->data(), nullptr, pairs_.value_bytes(), n, kSpace};
      require(perdure::rocks::put(db_, family, keys, values), "put arrays of the GPU");
    } else {
      MutableColumn const values{arrays.values->data(), pairs_.value_bytes(), n, kSpace};
      require(perdure::rocks::get(db_, family, keys, values, arrays.here.statuses),
              "get arrays of the GPU");
    }
  }
  std::uint64_t check(FarArrays const& arrays) const override {
    if (what_ != ArrayCall::get) return 0;
    PairArrays found = arrays.here;
    arrays.values->download(found.values);
    return rocks::check(found, pairs_);
  }

  ArrayCall what_;
  ArrayClient::Next next_;
};

/// Operations on records [first, first + count), of which each client has a part.
struct Part {
  ArrayCall what;
  bool far;  // arrays of the GPU
  std::uint64_t first, count, batch;
};

double run_part(Options const& o, rocksdb::DB& db, Pairs const& pairs, std::uint32_t clients,
                Part const& part) {
  auto const all = make_clients(clients, [&](std::uint32_t i) -> std::unique_ptr<Client> {
    std::uint64_t const begin = part.first + part.count * i / clients;
    std::uint64_t const end = part.first + part.count * (i + 1) / clients;
    ArrayClient::Next next = [at = begin]() mutable { return at++; };
    if (part.what == ArrayCall::get)
      next = [part, random = Random(o.seed + i)]() mutable {
        return part.first + below(random, part.count);
      };
    if (part.far)
      return std::make_unique<DeviceClient>(db, pairs, part.what, end - begin, part.batch, next);
    return std::make_unique<ArrayClient>(db, pairs, part.what, end - begin, part.batch, next);
  });
  // What is put is got afterwards.
  return run_clients(all, part.what == ArrayCall::put ? 1e9 : o.seconds).mops();
}

/// PUT and GET, each of host arrays and of the GPU's in turn.
void measure_arrays(Context& c, Pairs const& pairs, std::uint32_t clients, std::uint64_t batch) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;
  std::uint64_t const records = std::min(c.o.records, kMostBytes / pairs.pair_bytes());
  std::string const label =
      std::to_string(pairs.key_bytes()) + "+" + std::to_string(pairs.value_bytes());
  std::string const of =
      " of " + label + ", " + std::to_string(clients) + (clients == 1 ? " thread, " : " threads, ");
  std::array<std::array<std::vector<double>, 2>, 2> mops;  // of puts and gets, here and there
  for (std::uint32_t repeat = 0; repeat < c.o.repeats; ++repeat) {
    for (bool const far : {false, true}) {
      c.report.progress("device" + of + (far ? "device" : "host") + " arrays");
      auto const database = c.fresh(System::perdure);
      std::uint64_t const before = std::min(records / 2, batch * clients);  // warms it up
      auto const run = [&](ArrayCall what, std::uint64_t first, std::uint64_t count) {
        return run_part(c.o, database->db(), pairs, clients, {what, far, first, count, batch});
      };
      run(ArrayCall::put, 0, before);
      mops[0][far].push_back(run(ArrayCall::put, before, records - before));
      mops[1][far].push_back(run(ArrayCall::get, 0, records));
    }
  }
  for (std::size_t const get : {0u, 1u}) {
    for (bool const far : {false, true}) {
      std::string const arrays = (far ? "device" : "host") + (" arrays of " + grouped(batch));
      Row row{
          .item = "device", .what = (get == 0 ? "PUT" : "GET") + of + arrays, .unit = "M ops/s"};
      row.perdure = mops[get][far];
      row.at = label;
      row.batch = batch;
      row.arrays = true;
      c.report.add(std::move(row));
    }
  }
}

}  // namespace

void measure_device(Context& c) {
  if (c.o.system == "rocksdb" || c.o.system == "itself") return;
  try {
    DeviceArray const there_is_one(1);
  } catch (Failure const& why) {
    c.report.note(std::string("device is left out: ") + why.what());
    return;
  }
  std::vector<std::uint32_t> writers{c.o.threads};
  if (c.o.threads > 1) writers.push_back(1);
  for (auto const& [key_bytes, value_bytes] : {std::pair{8u, 8u}, std::pair{16u, 100u}}) {
    Pairs const pairs = pairs_of(c.o, key_bytes, value_bytes);
    for (std::uint32_t const clients : writers)
      for (std::uint64_t const batch : c.o.batches) measure_arrays(c, pairs, clients, batch);
  }
}

}  // namespace perdure::bench::rocks
