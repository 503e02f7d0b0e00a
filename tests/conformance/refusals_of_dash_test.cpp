// What a Dash index and a B+-tree do not do: refused by name, with the way out, and without effect.
#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

class DashRefusals : public Conformance {
 protected:
  void SetUp() override {
    if (!GetParam().single()) GTEST_SKIP() << "another index";
    Conformance::SetUp();
  }
  static void refused(Status const& s, Code code, std::string const& says) {
    std::string const index = GetParam().index == Index::btree ? "index btree" : "index dash-";
    expect_refused(s, code, index, says);
  }
};

TEST_P(DashRefusals, MakingAPoolOfWhatItLacks) {
  auto const create = [&](auto change, Code code, std::string const& says) {
    CreateOptions options = GetParam().create();
    OpenOptions open = GetParam().open();
    change(options, open);
    std::string const path = scratch_.file("refused");
    refused(Store::create(path, options, open).status(), code, says);
    EXPECT_NE(::access(path.c_str(), F_OK), 0) << "a refused create left a file";
  };
  create([](auto& c, auto&) { c.layout = Layout::in_place; }, Code::invalid_argument,
         "layout in_place");
  create([](auto& c, auto&) { c.shape = {4, 2, 4}; }, Code::invalid_argument, "shape");
  create([](auto& c, auto&) { c.durability = Durability::power; }, Code::unsupported,
         "durability process");
  create([](auto&, auto& o) { o.device = Device::cuda; }, Code::unsupported, "device cpu");
  create([](auto&, auto& o) { o.memory.residency = Residency::mirrored; }, Code::invalid_argument,
         "residency pm");
  create([](auto&, auto& o) { o.memory.cache_bytes = 1 << 20; }, Code::unsupported, "cache_bytes");
  create([](auto&, auto& o) { o.grow = false; }, Code::unsupported, "max_bytes");
  create([](auto&, auto& o) { o.displacement = false; }, Code::unsupported, "displacement");
}

TEST_P(DashRefusals, CallsThatOtherIndexesHave) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  Store& store = driver_->store();
  refused(store.begin().status(), Code::unsupported, "transactions");
  std::vector<std::byte> array(64);
  refused(store.register_dense({{"weights", array.data(), array.size(), MemorySpace::host}}),
          Code::unsupported, "steps");
  refused(store.restore_step().status(), Code::unsupported, "steps");
  refused(store.device_session().status(), Code::unsupported, "device sessions");
  refused(store.load_cache().status(), Code::unsupported, "record cache");
  driver_->how.atomic = true;
  std::vector<KeyStatus> statuses;
  refused(driver_->put({key(1)}, {value(1, 1)}, statuses), Code::unsupported, "atomic");
  driver_->how = {};
  Packed const k(keys(0, 4), GetParam().key_bytes);
  Column on_device = k.column();
  on_device.space = MemorySpace::device;
  Status const s = store.erase(on_device);
  EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
  driver_->check_all();
}

INSTANTIATE_TEST_SUITE_P(Store, DashRefusals, testing::ValuesIn(configurations()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

}  // namespace
}  // namespace perdure::test
