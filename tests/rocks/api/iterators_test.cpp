// Iterators in all their forms, on databases whose memtables hold a batch of 20,000 operations,
// against plain RocksDB given the same calls.
#include <rocksdb/comparator.h>
#include <rocksdb/slice_transform.h>

#include "rocks/support/both.hpp"

namespace perdure::test {
namespace {

using rocksdb::Iterator;
using rocksdb::ReadOptions;
using rocksdb::Slice;

using RocksIterators = PopulatedDatabases;

void tell(Iterator const& it, Transcript& said) {
  said.number(it.Valid());
  if (it.Valid()) said.entry(it.key(), it.value());
  said.status(it.status());
}

/// Both ways, with turns.
void tell_moves(Iterator& it, Transcript& said) {
  for (it.SeekToFirst(); it.Valid(); it.Next()) tell(it, said);
  for (it.SeekToLast(); it.Valid(); it.Prev()) tell(it, said);
  for (char const* const target : {"", "key000100", "key0001005", "key000999", "key9", "z"}) {
    it.Seek(target);
    for (int i = 0; i < 5 && it.Valid(); ++i, it.Next()) tell(it, said);
    it.SeekForPrev(target);
    for (int i = 0; i < 5 && it.Valid(); ++i, it.Prev()) tell(it, said);
    it.Seek(target);
    for (int i = 0; i < 12 && it.Valid(); ++i) {
      if (i % 3 == 2)
        it.Prev();
      else
        it.Next();
      tell(it, said);
    }
    tell(it, said);
  }
}

TEST_F(RocksIterators, BothWaysInEveryFamily) {
  alike("moves", [](One& one, Transcript& said) {
    for (auto* handle : one.handles) {
      std::unique_ptr<Iterator> const it(one.db->NewIterator({}, handle));
      tell(*it, said);
      tell_moves(*it, said);
    }
  });
}

TEST_F(RocksIterators, WithinBounds) {
  alike("bounds", [](One& one, Transcript& said) {
    std::string low, high;
    for (auto const& [from, to] : {std::pair{"key000100", "key000200"},
                                   {"key0001", "key000101"},
                                   {"a", "b"},
                                   {"key000300", "key000300"},
                                   {"", "key000004"}}) {
      low = from;
      high = to;
      Slice const lower(low), upper(high);
      for (int which = 1; which < 4; ++which) {
        ReadOptions options;
        if ((which & 1) != 0) options.iterate_lower_bound = &lower;
        if ((which & 2) != 0) options.iterate_upper_bound = &upper;
        if (which != 3 && low != "key000100") continue;
        std::unique_ptr<Iterator> const it(one.db->NewIterator(options));
        tell_moves(*it, said);
      }
    }
  });
}

/// Users change the bytes of a bound and seek anew.
TEST_F(RocksIterators, BoundsAreReadAtEverySeek) {
  alike("bounds", [](One& one, Transcript& said) {
    std::string high = "key000010";
    Slice upper(high);
    ReadOptions options;
    options.iterate_upper_bound = &upper;
    std::unique_ptr<Iterator> const it(one.db->NewIterator(options));
    for (it->SeekToFirst(); it->Valid(); it->Next()) tell(*it, said);
    high = "key000020";
    upper = Slice(high);
    for (it->Seek("key000005"); it->Valid(); it->Next()) tell(*it, said);
  });
}

TEST_F(RocksIterators, OfSeveralFamiliesAtOneMoment) {
  alike("NewIterators", [](One& one, Transcript& said) {
    std::vector<Iterator*> all;
    said.status(one.db->NewIterators({}, one.handles, &all)).number(all.size());
    said.status(one.db->Put({}, one.counts(), both_key(1), number_text(1)));
    for (Iterator* it : all) {
      std::unique_ptr<Iterator> const owned(it);
      for (it->SeekToFirst(); it->Valid(); it->Next()) tell(*it, said);
    }
    all.clear();
    said.status(one.db->NewIterators({}, {}, &all)).number(all.size());
  });
}

TEST_F(RocksIterators, StayAsTheyWereUntilRefreshed) {
  alike("Refresh", [](One& one, Transcript& said) {
    std::unique_ptr<Iterator> const it(one.db->NewIterator({}, one.counts()));
    it->SeekToFirst();
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 1500; ++i) batch.Delete(one.counts(), both_key(i));
    said.status(one.db->Write({}, &batch));
    for (int i = 0; i < 20; ++i, it->Next()) tell(*it, said);
    said.status(one.db->Flush({}, one.handles));
    said.status(one.db->CompactRange({}, one.counts(), nullptr, nullptr));
    for (int i = 0; i < 20; ++i, it->Next()) tell(*it, said);
    said.status(it->Refresh());
    for (it->SeekToFirst(); it->Valid(); it->Next()) tell(*it, said);
  });
}

TEST_F(RocksIterators, OutliveTheirFamily) {
  alike("dropped", [](One& one, Transcript& said) {
    rocksdb::ColumnFamilyHandle* family = nullptr;
    said.status(one.db->CreateColumnFamily(small_family_options(), "short", &family));
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 2000; ++i) batch.Put(family, both_key(i), "short");
    said.status(one.db->Write({}, &batch));
    std::unique_ptr<Iterator> const it(one.db->NewIterator({}, family));
    said.status(one.db->DropColumnFamily(family));
    said.status(one.db->DestroyColumnFamilyHandle(family));
    for (it->SeekToFirst(); it->Valid(); it->Next()) tell(*it, said);
  });
}

TEST_F(RocksIterators, TailingOnesSeeWhatIsNew) {
  alike("tailing", [](One& one, Transcript& said) {
    ReadOptions options;
    options.tailing = true;
    std::unique_ptr<Iterator> const it(one.db->NewIterator(options));
    for (it->SeekToFirst(); it->Valid(); it->Next()) tell(*it, said);
    said.status(one.db->Put({}, "zzz", "new"));
    it->Seek("zz");
    tell(*it, said);
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 1500; ++i) batch.Put("zzz" + both_key(i), "newer");
    said.status(one.db->Write({}, &batch));
    for (it->Seek("zz"); it->Valid(); it->Next()) tell(*it, said);
  });
}

TEST_F(RocksIterators, OptionsThatChangeHowNotWhat) {
  alike("options", [](One& one, Transcript& said) {
    ReadOptions options;
    options.pin_data = options.total_order_seek = options.background_purge_on_iterator_cleanup =
        true;
    options.readahead_size = 1u << 20;
    options.adaptive_readahead = true;
    std::unique_ptr<Iterator> const it(one.db->NewIterator(options, one.appends()));
    tell_moves(*it, said);
    std::string value;
    said.status(it->GetProperty("rocksdb.iterator.is-key-pinned", &value));
    said.status(it->GetProperty("rocksdb.iterator.super-version-number", &value));
    said.status(it->GetProperty("no such property", &value));
  });
}

/// RocksDB 11 has no such option any more.
void manage(auto& options) {
  if constexpr (requires { options.managed; }) options.managed = true;
}

TEST_F(RocksIterators, OptionsThatAreRefused) {
  alike_on_memtables("options", [](One& one, Transcript& said) {
    ReadOptions memtables;
    memtables.read_tier = rocksdb::kMemtableTier;
    std::unique_ptr<Iterator> const it(one.db->NewIterator(memtables));
    it->SeekToFirst();
    tell(*it, said);
    ReadOptions managed;
    manage(managed);
    std::unique_ptr<Iterator> const other(one.db->NewIterator(managed));
    other->SeekToFirst();
    tell(*other, said);
  });
}

class RocksPrefixes : public BothDatabases {
 protected:
  void SetUp() override {
    for (auto& family : families)
      family.options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(6));
    open();
    populate();
  }
};

TEST_F(RocksPrefixes, EndWithTheirPrefix) {
  alike("prefixes", [](One& one, Transcript& said) {
    ReadOptions options;
    options.prefix_same_as_start = true;
    std::unique_ptr<Iterator> const it(one.db->NewIterator(options));
    for (char const* const target : {"key000100", "key0005", "key003999", "key009"}) {
      for (it->Seek(target); it->Valid(); it->Next()) tell(*it, said);
      said.status(it->status());
    }
    ReadOptions automatic;
    automatic.auto_prefix_mode = true;
    std::unique_ptr<Iterator> const other(one.db->NewIterator(automatic, one.counts()));
    tell_moves(*other, said);
  });
}

class RocksOrders : public BothDatabases {};

TEST_F(RocksOrders, AFamilyInReverseOrder) {
  families.emplace_back("reverse", small_family_options());
  families[3].options.comparator = rocksdb::ReverseBytewiseComparator();
  open();
  populate();
  alike("write", [](One& one, Transcript& said) {
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 2000; ++i) {
      batch.Put(one.handles[3], both_key((i * 7) % 2000), std::to_string(i));
      batch.Put(one.plain(), both_key(i), "beside it");
    }
    said.status(one.db->Write({}, &batch));
    said.status(one.db->Delete({}, one.handles[3], both_key(5)));
    std::unique_ptr<Iterator> const it(one.db->NewIterator({}, one.handles[3]));
    tell_moves(*it, said);
  });
  reopen();
  contents_alike("reopened");
}

TEST_F(RocksOrders, OfEmptyDatabasesAndOfErasedOnes) {
  open();
  auto const moves = [](One& one, Transcript& said) {
    std::unique_ptr<Iterator> const it(one.db->NewIterator({}));
    tell_moves(*it, said);
  };
  alike("empty", moves);
  alike("erase all", [](One& one, Transcript& said) {
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 2000; ++i) batch.Put(both_key(i), "short-lived");
    for (int i = 0; i < 2000; ++i) batch.Delete(both_key(i));
    said.status(one.db->Write({}, &batch));
  });
  alike("erased", moves);
}

}  // namespace
}  // namespace perdure::test
