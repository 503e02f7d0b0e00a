// Which stores the conformance suite runs for. A configuration is named DEVICE_TABLE_KEYS_SHAPE,
// and CMakeLists.txt registers one ctest for each DEVICE_TABLE_KEYS. Slow, up to twenty seconds:
// each of these runs a hundred tests on several shapes.
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

struct Sizes {
  char const* name;
  std::uint32_t key_bytes, value_bytes;
};
// 10 is no multiple of 4 or 8: updates leave a tail that is no whole element.
constexpr Sizes kSizes[] = {
    {"key8", 8, 24},    {"key5", 5, 10},      {"key32", 32, 128},     {"key128", 128, 16},
    {"variable", 0, 0}, {"key8values", 8, 0}, {"keysvalue16", 0, 16},
};
/// Of layout `log`, whose entries have a size of their own for such keys.
constexpr Sizes kMiddle = {"key20", 20, 40};
/// With a Dash index these stand in the slots themselves.
constexpr Sizes kInline[] = {{"inline8", 8, 8}, {"inline3", 3, 5}};

struct Table {
  char const* name;
  Layout layout;
  Residency residency;
};
constexpr Table kTables[] = {{"word", Layout::word, Residency::pm},
                             {"mirrored", Layout::word, Residency::mirrored},
                             {"inplace", Layout::in_place, Residency::pm},
                             {"log", Layout::log, Residency::mirrored}};

struct Make {
  Shape shape;
  bool count_accesses;
  std::uint32_t threads;
};
// Tables of few candidates a key fill up at a low load, and their resizes find no room for some
// entries: 1L-2H-1S in layout `word` always, 1L-2H-2S now and then.
constexpr Make kMakes[] = {
    {{2, 2, 8}, false, 2},  {{2, 2, 8}, true, 1}, {{4, 2, 4}, false, 1}, {{2, 2, 4}, true, 2},
    {{1, 2, 16}, false, 2}, {{3, 1, 8}, true, 1}, {{1, 2, 2}, false, 1}, {{1, 2, 1}, false, 1},
};

constexpr std::pair<Index, char const*> kSingle[] = {
    {Index::dash_eh, "dasheh"}, {Index::dash_lh, "dashlh"}, {Index::btree, "btree"}};

/// Layout `log` has the default shape.
bool has_log(Make const& m) { return m.shape.levels == 2 && m.shape.slots == 8; }

std::vector<Sizes> sizes_of(Table const& table) {
  std::vector<Sizes> all(std::begin(kSizes), std::end(kSizes));
  if (table.layout == Layout::log) all.push_back(kMiddle);
  return all;
}

std::string name_of(Device device, Table const& table, Sizes const& sizes, Make const& m) {
  std::ostringstream name;
  name << (device == Device::cpu ? "cpu_" : "cuda_") << table.name << '_' << sizes.name << '_'
       << m.shape.levels << 'L' << m.shape.hashes << 'H' << m.shape.slots << 'S'
       << (m.count_accesses ? "counted" : "") << 'x' << m.threads;
  return name.str();
}

}  // namespace

std::vector<Config> configurations() {
  std::vector<Config> all;
  for (Device const device : {Device::cpu, Device::cuda}) {
    for (Table const& table : kTables) {
      for (Sizes const& s : sizes_of(table)) {
        for (Make const& m : kMakes) {
          // A GPU's batches of layout `log` take another course where accesses are not counted.
          bool const log = table.layout == Layout::log;
          if (device == Device::cuda && m.threads == 2 && !log) continue;
          if (table.layout == Layout::in_place && m.shape.slots == 1)
            continue;  // nothing is ever displaced there
          if (log && !has_log(m)) continue;
          // A sanitizer is ten times slower: there the mirror, which is the same for all shapes, is
          // tested with one, and so are the slowest sizes, whose keys and values vary as those of
          // other sizes do.
          bool const usual = m.shape.levels == 2 && m.shape.slots == 8;
          bool const slow =
              table.residency == Residency::mirrored || s.name == std::string_view("keysvalue16");
          if (slow && !usual && volume(100) < 100) continue;
          // Batches of tests are too small for a choice of their own: sorted in every second
          // configuration.
          Gather const gather = m.count_accesses ? Gather::at_once : Gather::in_order;
          all.push_back({name_of(device, table, s, m), device, table.layout, m.shape, s.key_bytes,
                         s.value_bytes, m.count_accesses, m.threads, table.residency, gather});
        }
      }
    }
  }
  for (auto const& [index, name] : kSingle) {
    auto const add = [&, index = index, name = name](Sizes const& s) {
      for (Make const& m : {kMakes[0], kMakes[1]}) {
        Config config{name_of(Device::cpu, {name, Layout::word, Residency::pm}, s, m),
                      Device::cpu,
                      Layout::word,
                      m.shape,
                      s.key_bytes,
                      s.value_bytes,
                      m.count_accesses,
                      m.threads};
        config.index = index;
        all.push_back(config);
      }
    };
    for (Sizes const& s : kSizes) add(s);
    for (Sizes const& s : kInline) add(s);
  }
  return all;
}

void Conformance::SetUp() {
  if (std::string why_not; !available(GetParam().device, why_not))
    GTEST_SKIP() << "no GPU to run on: " << why_not;
  make();
}

void Conformance::make(Config const& config, CreateOptions const& create, OpenOptions const& open) {
  driver_.reset();
  CreateOptions fresh = create;
  fresh.file.overwrite = true;
  auto store = Store::create(pool(), fresh, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver_ = std::make_unique<Driver>(config, std::move(*store));
}

void Conformance::reopen(OpenOptions const& open) {
  std::string const path = driver_->store().path();
  Status const closed = driver_->store().close();
  ASSERT_TRUE(closed.ok()) << closed.message();
  auto store = Store::open(path, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver_->replace(std::move(*store));
}

void Conformance::reopen_killed(OpenOptions const& open) {
  std::string const copy = scratch_.file("killed-" + std::to_string(copies_++));
  copy_as_if_killed(driver_->store().path(), copy);
  auto store = Store::open(copy, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver_->replace(std::move(*store));
}

std::vector<Bytes> Conformance::keys(std::uint64_t from, std::uint64_t to) const {
  std::vector<Bytes> out;
  for (std::uint64_t n = from; n < to; ++n) out.push_back(key(n));
  return out;
}

std::vector<Bytes> Conformance::values(std::uint64_t from, std::uint64_t to,
                                       std::uint64_t version) const {
  std::vector<Bytes> out;
  for (std::uint64_t n = from; n < to; ++n) out.push_back(value(n, version));
  return out;
}

void Conformance::fill(std::uint64_t from, std::uint64_t to, std::uint64_t version,
                       std::size_t batch) {
  for (std::uint64_t at = from; at < to; at += batch) {
    std::uint64_t const end = std::min(to, at + batch);
    ASSERT_NO_FATAL_FAILURE(driver_->run_put(keys(at, end), values(at, end, version)));
  }
}

INSTANTIATE_TEST_SUITE_P(Store, Conformance, testing::ValuesIn(configurations()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

}  // namespace perdure::test
