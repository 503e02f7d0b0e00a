#include "lsm/rocks/generation_batch.hpp"

#include "lsm/cache/cache_view.hpp"
#include "lsm/rocks/entry_groups.hpp"
#include "lsm/rocks/merging.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::Slice;

rocksdb::Status add_version(rocksdb::WriteBatch& batch, rocksdb::ColumnFamilyHandle* family,
                            Slice const& key, Version const& version) {
  switch (version.kind) {
    case Kind::put: return batch.Put(family, key, slice_of(version.value));
    case Kind::erase: return batch.Delete(family, key);
    case Kind::merge: return batch.Merge(family, key, slice_of(version.value));
  }
  return rocksdb::Status::Corruption("an entry of no known kind");
}

}  // namespace

rocksdb::Status GenerationBatch::read(Engine& engine, Families const& families,
                                      Generation const& generation) {
  for (View::FamilyRuns const& one : generation.families) {
    FamilyPtr const family = families.find(one.family);
    if (family == nullptr || !family->has_tables() || one.runs.empty()) continue;
    if (auto s = add(engine, *family, *one.runs.front()); !s.ok()) return s;
  }
  return rocksdb::Status::OK();
}

rocksdb::Status GenerationBatch::add(Engine& engine, Family const& family, Run const& run) {
  EntryBlock block;
  if (Status s = engine.fetch(run, 0, run.count(), block); !s.ok()) return to_rocks(s);
  for (std::size_t i = 0; i < block.size();) {
    std::size_t const end = end_of_key(block, i);
    auto const key = block.key(i);
    hashes.push_back(cache_hash(family.id, key.data(), key.size()));
    auto const chain = chain_of(block, i, end);
    for (std::size_t k = chain.size(); k-- > 0;)
      if (auto s = add_version(batch, family.base, as_slice(key), chain[k]); !s.ok()) return s;
    i = end;
  }
  return rocksdb::Status::OK();
}

}  // namespace perdure::lsm
