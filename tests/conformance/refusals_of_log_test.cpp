// What layout `log` does not do: refused by name, with the way out, and without effect.
#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

class LogRefusals : public Conformance {
 protected:
  void SetUp() override {
    if (GetParam().layout != Layout::log) GTEST_SKIP() << "another index";
    Conformance::SetUp();
  }
  /// Of keys that an entry has no room for.
  static bool logs_hashes() { return GetParam().key_bytes == 0 || GetParam().key_bytes > 32; }
  static void refused(Status const& s, Code code, std::string const& says) {
    expect_refused(s, code, "layout log", says);
  }
};

TEST_P(LogRefusals, MakingAPoolOfWhatItLacks) {
  auto const create = [&](auto change, Code code, std::string const& says) {
    CreateOptions options = GetParam().create();
    OpenOptions open = GetParam().open();
    change(options, open);
    std::string const path = scratch_.file("refused");
    refused(Store::create(path, options, open).status(), code, says);
    EXPECT_NE(::access(path.c_str(), F_OK), 0) << "a refused create left a file";
  };
  create([](auto& c, auto&) { c.shape = {4, 2, 4}; }, Code::invalid_argument, "2L-2H-8S");
  create([](auto&, auto& o) { o.memory.residency = Residency::pm; }, Code::unsupported,
         "residency");
  if (logs_hashes())
    create([](auto&, auto& o) { o.memory.cache_bytes = 1 << 20; }, Code::unsupported,
           "cache_bytes");
}

TEST_P(LogRefusals, OpeningItForWhatItLacks) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  std::string const path = driver_->store().path();
  ASSERT_TRUE(driver_->store().close().ok());
  OpenOptions open = GetParam().open();
  open.memory.residency = Residency::pm;
  refused(Store::open(path, open).status(), Code::unsupported, "residency");
  open = GetParam().open();
  open.memory.cache_bytes = 1 << 20;
  if (logs_hashes())
    refused(Store::open(path, open).status(), Code::unsupported, "cache_bytes");
  else
    EXPECT_TRUE(Store::open(path, open).ok());
  auto store = Store::open(path, GetParam().open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->recovery().clean);
  driver_->replace(std::move(*store));
  driver_->check_all();
}

TEST_P(LogRefusals, CallsThatLayoutWordHas) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  Store& store = driver_->store();
  bool const of_one_size = GetParam().key_bytes != 0 && GetParam().value_bytes != 0;
  Code const begun =
      GetParam().device == Device::cuda && of_one_size ? Code::ok : Code::unsupported;
  EXPECT_EQ(store.device_session().status().code(), begun);
  EXPECT_EQ(store.load_cache().status().code(), Code::unsupported);
  driver_->check_all();
}

INSTANTIATE_TEST_SUITE_P(Store, LogRefusals, testing::ValuesIn(configurations()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

}  // namespace
}  // namespace perdure::test
