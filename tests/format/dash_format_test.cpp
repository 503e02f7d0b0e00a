// The format on disk of pools whose index is Dash: bytes stand where docs/format.md says, damage is
// refused or named.
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <random>

#include "base/hash.hpp"
#include "golden.hpp"

namespace perdure::test {
namespace {

struct Kind {
  char const* name;
  std::uint32_t key_bytes, value_bytes;
  [[nodiscard]] bool in_slots() const { return value_bytes == 8; }
};

/// What is done to a pool's bytes, given where its index lies, and what the refusal says of it.
struct Line {
  char const* name;
  std::function<void(Image&, std::uint64_t index)> damage;
  char const* says;
};

void move_index(Image& image, std::uint64_t to) {
  pm::Root root = image.root();
  root.set("dash", to, 0);
  image.publish(root);
}

class DashFormat : public ::testing::TestWithParam<Kind> {
 protected:
  static constexpr std::uint64_t kRecords = 3000;  // several segments

  DashFormat() {
    CreateOptions create;
    create.index = Index::dash_eh;
    create.key_bytes = GetParam().key_bytes;
    create.value_bytes = GetParam().value_bytes;
    create.expected_records = 1;
    auto store = Store::create(path_.str(), create);
    if (!store) throw std::runtime_error(store.status().message());
    for (std::uint64_t i = 0; i < kRecords; ++i)
      contents_[u64_text(i * 0x9e3779b97f4a7c15u)] = value(i);
    if (Status s = put_all(*store, contents_); !s.ok()) throw std::runtime_error(s.message());
    if (Status s = store->close(); !s.ok()) throw std::runtime_error(s.message());
    image_.emplace(read_file(path_.str()));
  }
  [[nodiscard]] std::string value(std::uint64_t i) const {
    std::string const text = u64_text(i) + u64_text(~i);
    return GetParam().in_slots() ? text.substr(0, 8) : text;
  }
  [[nodiscard]] std::uint64_t index() const { return image_->dash_index(); }

  /// A slot of some key, by the document: directory entry, segment, bucket, probing bucket, stash.
  [[nodiscard]] std::uint64_t slot_of(std::string const& key) const {
    auto const* const bytes = reinterpret_cast<std::byte const*>(key.data());
    std::uint64_t const hash = hash_bytes(bytes, key.size());
    auto const directory = image_->at<std::uint64_t>(index() + 64);
    std::uint64_t const depth = directory >> 56,
                        address = directory & ((std::uint64_t{1} << 56) - 1);
    auto const segment =
        image_->at<std::uint64_t>(address + 8 * (depth == 0 ? 0 : hash >> (64 - depth)));
    std::uint64_t const want = GetParam().in_slots() ? image_key(key) : hash;
    for (std::uint64_t b = 0; b < 66; ++b) {
      std::uint64_t const home = hash >> 8 & 63;
      if (b < 64 && b != home && b != ((home + 1) & 63)) continue;
      std::uint64_t const bucket = segment + 256 + b * 256;
      for (std::uint64_t i = 0; i < 14; ++i) {
        if ((image_->at<std::uint64_t>(bucket) >> i & 1) == 0) continue;
        std::uint64_t const slot = bucket + 32 + 16 * i;
        if (image_->at<std::uint64_t>(slot + (GetParam().in_slots() ? 0 : 8)) == want) return slot;
      }
    }
    throw std::runtime_error("no slot holds the key");
  }
  static std::uint64_t image_key(std::string const& key) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data(), key.size());
    return word;
  }

  void refuse(Code code, std::string const& says, OpenOptions const& options = {}) const {
    Bytes const before = read_file(path_.str());
    auto const store = Store::open(path_.str(), options);
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.status().code(), code) << store.status().message();
    EXPECT_NE(store.status().message().find(path_.str()), std::string::npos)
        << store.status().message();
    EXPECT_NE(store.status().message().find(says), std::string::npos) << store.status().message();
    EXPECT_EQ(read_file(path_.str()), before) << "a refused pool was changed";
  }

  void refuse_each(std::initializer_list<Line> lines) const {
    for (Line const& line : lines) {
      SCOPED_TRACE(line.name);
      Image image = *image_;
      line.damage(image, index());
      write_file(path_.str(), image.bytes);
      refuse(Code::corrupt, line.says);
    }
  }

  PoolPath path_;
  Contents contents_;
  std::optional<Image> image_;
};

TEST_P(DashFormat, BytesStandWhereTheDocumentSays) {
  EXPECT_EQ(image_->at<std::uint32_t>(8), 4u);
  EXPECT_EQ(image_->at<std::uint8_t>(77), 1);
  EXPECT_EQ(image_->text(74, 3), std::string("\1\1\1"));
  EXPECT_EQ(image_->text(image_->root_offset() + 32, 16), "dash" + std::string(12, '\0'));
  EXPECT_EQ(image_->text(index(), 4), "PRDH");
  EXPECT_EQ(image_->at<std::uint32_t>(index() + 4), 1u);
  EXPECT_EQ(image_->at<std::uint32_t>(index() + 8), 64u);
  EXPECT_EQ(image_->at<std::uint32_t>(index() + 12), 2u);
  EXPECT_EQ(image_->at<std::uint32_t>(index() + 16), GetParam().in_slots() ? 0u : 1u);
  EXPECT_EQ(image_->at<std::uint32_t>(index() + 60), crc32c(0, image_->bytes.data() + index(), 60));
  EXPECT_EQ(image_->at<std::uint64_t>(index() + 88), kRecords);
  auto const first = image_->at<std::uint64_t>(index() + 80);
  std::uint64_t const blocks = first >> 20 << 20;
  EXPECT_EQ(image_->text(blocks, 4), "PRBK");
  EXPECT_EQ(image_->at<std::uint32_t>(blocks + 4), 256u + 66 * 256);
  EXPECT_EQ(image_->at<std::uint64_t>(first + 8), 0u) << "the first segment begins with hash 0";
  for (auto const& [key, held] : contents_) {
    std::uint64_t const slot = slot_of(key);
    if (GetParam().in_slots()) {
      ASSERT_EQ(image_->text(slot + 8, 8), held);
      continue;
    }
    auto const address = image_->at<std::uint64_t>(slot);
    bool const split = GetParam().key_bytes != 0;
    ASSERT_EQ(image_->text(split ? address : address + 24 + 8, 16), held);
    ASSERT_EQ(image_->text(address >> 20 << 20, 4), "PRSB");
  }
}

TEST_P(DashFormat, ReadersOpenACleanPoolAndChangeNothing) {
  Bytes const before = read_file(path_.str());
  OpenOptions reading;
  reading.read_only = true;
  {
    auto store = Store::open(path_.str(), reading);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(scan_all(*store) == contents_);
    EXPECT_EQ(store->verify().value().records, kRecords);
    EXPECT_EQ(store->stats().records, kRecords);
    ASSERT_TRUE(store->close().ok());
  }
  EXPECT_TRUE(read_file(path_.str()) == before);
  Image unclean = *image_;
  pm::Root root = unclean.root();
  root.clean = 0;
  unclean.publish(root);
  write_file(path_.str(), unclean.bytes);
  refuse(Code::unsupported, "open it once for writing", reading);
}

TEST_P(DashFormat, RefusesAHeaderOrARootThatLeadsToNoDashIndex) {
  refuse_each({
      {"of a version that knows no Dash",
       [](Image& i, std::uint64_t) {
         i.set(8, std::uint32_t{2});
         i.seal_header();
       },
       "format version 2"},
      {"of an index that nobody knows",
       [](Image& i, std::uint64_t) {
         i.set(77, std::uint8_t{4});
         i.seal_header();
       },
       "impossible"},
      {"its index outside the file", [](Image& i, std::uint64_t) { move_index(i, i.bytes.size()); },
       "leads to no index"},
      {"its index between superblocks",
       [](Image& i, std::uint64_t index) { move_index(i, index + 4096); }, "leads to no index"},
      {"its index elsewhere",
       [](Image& i, std::uint64_t index) { move_index(i, index + (1u << 20)); }, "no Dash index"},
      {"its index nowhere",
       [](Image& i, std::uint64_t) {
         pm::Root r = i.root();
         r.remove("dash");
         i.publish(r);
       },
       "leads to no index"},
      {"a name of a newer build",
       [](Image& i, std::uint64_t) {
         pm::Root r = i.root();
         r.set("memtable.log", 1u << 20, 1);
         i.publish(r);
       },
       "its root names \"memtable.log\", which this build does not know"},
  });
}

TEST_P(DashFormat, RefusesAnIndexThatCannotBe) {
  refuse_each({
      {"a flipped bit in the index's constants",
       [](Image& i, std::uint64_t index) { i.flip(index + 8, 3); }, "checksum"},
      {"the other kind of Dash",
       [](Image& i, std::uint64_t index) {
         i.set(index + 4, std::uint32_t{2});
         i.set(index + 60, crc32c(0, i.bytes.data() + index, 60));
       },
       "another kind"},
      {"segments of three buckets",
       [](Image& i, std::uint64_t index) {
         i.set(index + 8, std::uint32_t{3});
         i.set(index + 60, crc32c(0, i.bytes.data() + index, 60));
       },
       "impossible segments"},
      {"a directory outside the file",
       [](Image& i, std::uint64_t index) {
         i.set(index + 64, std::uint64_t{20} << 56 | i.bytes.size());
       },
       "the words of its index"},
      {"the same, of a pool that a build without closing notes closed",
       [](Image& i, std::uint64_t index) {
         i.set(pm::kClosingNoteOffset, pm::ClosingNote{});
         i.set(index + 64, std::uint64_t{20} << 56 | i.bytes.size());
       },
       "directory"},
  });
}

TEST_P(DashFormat, NamesARecordWithAFlippedBitAndLeavesTheOthers) {
  if (GetParam().in_slots()) GTEST_SKIP() << "slots have no checksums";
  std::string const victim = contents_.begin()->first;
  Image image = *image_;
  auto const address = image.at<std::uint64_t>(slot_of(victim));
  image.flip(GetParam().key_bytes != 0 ? address : address + 24 + 8, 5);
  write_file(path_.str(), image.bytes);
  auto store = Store::open(path_.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  std::vector<std::string> keys;
  for (auto const& [key, held] : contents_) keys.push_back(key);
  auto const got = get_all(*store, keys);
  for (std::size_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(got[i].status, keys[i] == victim ? KeyStatus::corrupt : KeyStatus::ok);
  auto const report = store->verify();
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report.value().fault_count, 1u);
  EXPECT_NE(report.value().faults[0].find("byte " + std::to_string(address)), std::string::npos)
      << report.value().faults[0];
  EXPECT_NE(report.value().faults[0].find("checksum"), std::string::npos);
}

TEST_P(DashFormat, ASnapshotBecomesAPoolOfItsOwn) {
  PoolPath snapshot, restored;
  auto store = Store::open(path_.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE(store->snapshot(snapshot.str()).ok());
  ASSERT_TRUE(put_all(*store, {{u64_text(1), value(1)}}).ok());
  auto made = Store::restore(snapshot.str(), restored.str());
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(made->recovery().clean);
  EXPECT_EQ(made->stats().records, kRecords);
  EXPECT_TRUE(scan_all(*made) == contents_);
  ASSERT_TRUE(put_all(*made, contents_).ok());
  EXPECT_EQ(made->verify().value().fault_count, 0u);
  ASSERT_TRUE(made->close().ok());
  EXPECT_NE(Image(read_file(restored.str())).text(16, 16), image_->text(16, 16));
  auto again = Store::open(restored.str());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(scan_all(*again) == contents_);
}

/// What builds of format version 4 wrote: committed, and never made anew.
class DashGolden : public ::testing::TestWithParam<Golden> {
 protected:
  DashGolden() {
    write_file(path_.str(), from_sparse(read_file(std::string(PERDURE_GOLDEN_FOLDER) + "/" +
                                                  GetParam().name + ".sparse")));
  }
  Contents const contents_ = golden_contents(GetParam());
  PoolPath path_;
};

TEST_P(DashGolden, GoldenPoolHoldsItsRecords) {
  Image const image(read_file(path_.str()));
  EXPECT_EQ(image.at<std::uint32_t>(8), 4u);
  EXPECT_EQ(image.at<std::uint8_t>(77), static_cast<std::uint8_t>(GetParam().index));
  for (bool const read_only : {true, false}) {
    OpenOptions options;
    options.read_only = read_only;
    auto store = Store::open(path_.str(), options);
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_TRUE(store->recovery().clean);
    EXPECT_EQ(store->recovery().records, kGoldenRecords);
    EXPECT_EQ(store->stats().segments, 2u);
    EXPECT_EQ(scan_all(*store), contents_);
    std::vector<std::string> keys;
    for (auto const& [key, value] : contents_) keys.push_back(key);
    auto const got = get_all(*store, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(got[i].status, KeyStatus::ok);
      EXPECT_EQ(got[i].value, contents_.at(keys[i]));
    }
    auto verified = store->verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_EQ(verified->fault_count, 0u) << verified->faults[0];
    EXPECT_EQ(verified->records, kGoldenRecords);
  }
}

TEST_P(DashGolden, GoldenPoolGoesOn) {
  auto store = Store::open(path_.str());
  ASSERT_TRUE(store.ok()) << store.status().message();
  Contents more = contents_;
  for (std::uint64_t i = 0; i < 2000; ++i)
    more[GetParam().variable ? "more-" + std::to_string(i) : u64_text(i)] = std::string(8, 'm');
  ASSERT_TRUE(put_all(*store, more).ok());
  EXPECT_GT(store->stats().segments, 2u);
  EXPECT_TRUE(scan_all(*store) == more);
  EXPECT_EQ(store->verify().value().fault_count, 0u);
}

INSTANTIATE_TEST_SUITE_P(Pools, DashGolden, ::testing::ValuesIn(kGoldenDash),
                         [](auto const& one) { return std::string(one.param.name); });

INSTANTIATE_TEST_SUITE_P(Pools, DashFormat,
                         ::testing::Values(Kind{"slots", 8, 8}, Kind{"records", 8, 16},
                                           Kind{"variable", 0, 0}),
                         [](auto const& one) { return std::string(one.param.name); });

/// Nobody has entered most of these segments when the pool is closed for the first time; later, few
/// are touched, some merge, and some are split.
TEST(ClosedDash, IsWholeWhateverWasTouchedOfIt) {
  for (Index const index : {Index::dash_eh, Index::dash_lh}) {
    SCOPED_TRACE(static_cast<int>(index));
    PoolPath path;
    CreateOptions create;
    create.index = index;
    create.value_bytes = 8;
    create.expected_records = 200'000;  // more segments than an opening sweeps at once
    auto made = Store::create(path.str(), create);
    ASSERT_TRUE(made.ok()) << made.status().message();
    ASSERT_TRUE(made->close().ok());
    Contents contents;
    std::mt19937_64 draw{index == Index::dash_eh ? 1u : 2u};
    for (std::uint64_t const changes : {0u, 1u, 200u, 20000u, 5u, 0u, 30000u, 1u, 0u}) {
      auto store = Store::open(path.str());
      ASSERT_TRUE(store.ok()) << store.status().message();
      Strings keys(8), values(8), erased(8);
      for (std::uint64_t i = 0; i < changes; ++i) {
        std::string const key = u64_text(draw() % 60000 * 0x9e3779b97f4a7c15u),
                          value = u64_text(draw());
        keys.add(key);
        values.add(value);
        contents[key] = value;
      }
      Status const put = store->put(keys.column(), values.column());
      ASSERT_TRUE(put.ok()) << put.message();
      if (changes == 30000) {  // most of it goes, and segments merge
        std::size_t n = 0;
        std::erase_if(contents, [&](auto const& entry) {
          bool const goes = ++n % 10 != 0;
          if (goes) erased.add(entry.first);
          return goes;
        });
        Status const gone = store->erase(erased.column());
        ASSERT_TRUE(gone.ok()) << gone.message();
      }
      ASSERT_TRUE(store->close().ok());
      OpenOptions reading;
      reading.read_only = true;
      auto again = Store::open(path.str(), reading);
      ASSERT_TRUE(again.ok()) << again.status().message();
      auto const report = again->verify();
      ASSERT_TRUE(report.ok());
      EXPECT_EQ(report.value().fault_count, 0u) << report.value().faults.front();
      EXPECT_TRUE(scan_all(*again) == contents);
    }
  }
}

}  // namespace
}  // namespace perdure::test
