// What is written from a device's memory: the log has it, or none of it; writers whose turns come
// together do not mind where each other's arrays lie; and an engine on the device is told where it
// finds them.
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "rocks/arrays_world.hpp"
#include "rocks/fake_device.hpp"

namespace perdure::test {
namespace {

constexpr std::size_t kCount = 300;  // keys of a call, enough for memtables

class DeviceWrites : public RocksArrays {
 protected:
  // Nothing is flushed but what a test flushes.
  DeviceWrites() : RocksArrays(8, 1'000'000) {
    parts().device->make = [this] { return device_.way(); };
  }
  ~DeviceWrites() override { db_ = nullptr; }  // before the device

  /// Keys "name 1", "name 2", ... without the one before them: offsets begin above 0.
  struct Named {
    Strings keys, values;
    Named(std::string const& name, std::string const& value) {
      for (std::size_t i = 0; i <= kCount; ++i) {
        keys.add(name + " " + std::to_string(i));
        values.add(value + std::string(i % 3, '.'));
      }
    }
  };
  static Column behind_first(Column column) {
    --column.count;
    ++column.offsets;
    return column;
  }
  Column far(Strings const& strings) {
    Column column = behind_first(strings.column());
    column.data = device_.array_of(strings.data).data();
    column.space = MemorySpace::device;
    return column;
  }
  rocksdb::Status put_far(Named const& named, rocks::ArrayOptions const& options = {}) {
    Column const keys = far(named.keys), values = far(named.values);
    return rocks::put(*db_, family(), keys, values, options);
  }
  static void check(rocksdb::DB& db, Named const& named, std::string const& name) {
    EXPECT_EQ(found(db, name + " 0"), "NotFound: ") << "it lies before the column";
    for (std::size_t i = 1; i <= kCount; ++i) {
      auto const* const at =
          reinterpret_cast<char const*>(named.values.data.data()) + named.values.offsets[i];
      auto const size = static_cast<std::size_t>(named.values.offsets[i + 1]) -
                        static_cast<std::size_t>(named.values.offsets[i]);
      ASSERT_EQ(found(db, name + " " + std::to_string(i)), std::string(at, size)) << name << i;
    }
  }
  static std::string found(rocksdb::DB& db, std::string const& key) {
    std::string value;
    auto const s = db.Get({}, key, &value);
    return s.ok() ? value : s.ToString();
  }
  /// What a process would find that came after a kill: the log's records, not the memtables.
  std::unique_ptr<rocksdb::DB> after_a_kill() {
    rocks::GpuOptions gpu;
    gpu.device = rocks::Device::cpu;
    gpu.threads = 2;
    rocksdb::Options options;
    options.merge_operator = db_->GetOptions().merge_operator;
    rocksdb::DB* db = nullptr;
    auto const s = rocks::open_for_read_only(options, gpu, directory_ / "db", &db);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }

  FakeDevice device_;
};

TEST_F(DeviceWrites, TheLogHasWhatTheDeviceHadAndNothingOfACopyThatFailed) {
  Named const plain("plain", "p"), synced("synced", "s"), failed("failed", "f");
  Named const unlogged("unlogged", "u");
  ASSERT_TRUE(put_far(plain).ok());
  for (std::size_t const copies : {0u, 1u}) {  // of keys, and of values
    device_.fail_after(copies);
    EXPECT_FALSE(put_far(failed).ok());
    device_.fail_after(100);
  }
  ASSERT_TRUE(put_far(synced, {.sync = true}).ok());
  ASSERT_TRUE(put_far(unlogged, {.disable_wal = true}).ok());
  check(*db_, unlogged, "unlogged");
  auto const later = after_a_kill();
  ASSERT_NE(later, nullptr);
  for (rocksdb::DB* const db : {db_.get(), later.get()}) {
    check(*db, plain, "plain");
    check(*db, synced, "synced");
    EXPECT_EQ(found(*db, "failed 1"), "NotFound: ");
  }
  EXPECT_EQ(found(*later, "unlogged 1"), "NotFound: ");
}

TEST_F(DeviceWrites, WritersThatAreWrittenTogetherHaveThemWhereTheyLike) {
  std::vector<std::string> const names{"host a", "host b", "device", "host c"};
  std::vector<std::unique_ptr<Named>> all;
  for (std::string const& name : names) all.push_back(std::make_unique<Named>(name, name));
  for (bool const fails : {true, false}) {
    device_.fail_after(fails ? 1 : 100);
    std::vector<rocksdb::Status> said(names.size());
    std::vector<std::jthread> threads;
    ASSERT_TRUE(parts()
                    .writer
                    ->alone([&] {  // all of them wait for this one
                      for (std::size_t i = 0; i < names.size(); ++i)
                        threads.emplace_back([&, i] {
                          Named const& mine = *all[i];
                          said[i] =
                              names[i] == "device"
                                  ? put_far(mine)
                                  : rocks::put(*db_, family(), behind_first(mine.keys.column()),
                                               behind_first(mine.values.column()));
                        });
                      std::this_thread::sleep_for(std::chrono::milliseconds(20));
                      return rocksdb::Status::OK();
                    })
                    .ok());
    threads.clear();
    for (std::size_t i = 0; i < names.size(); ++i) {
      bool const is_ok = !fails || names[i] != "device";
      EXPECT_EQ(said[i].ok(), is_ok) << names[i] << ": " << said[i].ToString();
      if (is_ok)
        check(*db_, *all[i], names[i]);
      else
        EXPECT_EQ(found(*db_, names[i] + " 1"), "NotFound: ");
    }
  }
}

TEST_F(DeviceWrites, AnEngineOnTheDeviceIsToldOfTheFirstElementThere) {
  Named const named("key", "value");
  Column const strings = far(named.keys);
  std::vector<std::uint64_t> const words(kCount, 7);
  Column const fixed = Column::of(device_.array_of(words), MemorySpace::device);
  for (bool const near : {false, true}) {
    device_.set_near(near);
    rocks::ArrayOptions const options;
    lsm::DeviceColumns columns(*parts().device, *parts().workers, options);
    EXPECT_EQ(columns.there(fixed), nullptr) << "nothing was brought yet";
    static_cast<void>(columns.bring(strings, "keys"));
    static_cast<void>(columns.bring(fixed, "values"));
    EXPECT_EQ(columns.there(fixed), nullptr) << "its stream may still be writing it";
    ASSERT_TRUE(columns.arrived().ok());
    EXPECT_EQ(columns.there(fixed), near ? fixed.data : nullptr);
    auto const* const first = strings.data + strings.offsets[0];
    EXPECT_EQ(columns.there(strings), near ? first : nullptr);
    EXPECT_EQ(columns.there(Column::of(words)), nullptr) << "the host's";
  }
}

}  // namespace
}  // namespace perdure::test
