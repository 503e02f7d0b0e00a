// The many calls of rocksdb::Transaction, brought to the few that differ between transactions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lsm/rocks/transaction_batch.hpp"
#include "lsm/rocks/transaction_entities.hpp"

namespace perdure::lsm {

/// How a key is to be guarded before it is read or written.
struct Guard {
  bool read_only = false;
  bool exclusive = true;
  bool validate = true;         // it must not have been written since the snapshot
  bool assume_tracked = false;  // it was guarded before, so it need not be looked at
};

class TransactionCalls : public TransactionEntities {
  using Family = rocksdb::ColumnFamilyHandle;
  using Key = rocksdb::Slice;
  using Parts = rocksdb::SliceParts;
  using Options = rocksdb::ReadOptions;
  using Answer = rocksdb::Status;

 public:
  Answer Put(Family* family, Key const& key, Key const& value, bool assume_tracked) override;
  Answer Put(Key const& key, Key const& value) override;
  Answer Put(Family* family, Parts const& key, Parts const& value, bool assume_tracked) override;
  Answer Put(Parts const& key, Parts const& value) override;
  Answer Merge(Family* family, Key const& key, Key const& value, bool assume_tracked) override;
  Answer Merge(Key const& key, Key const& value) override;
  Answer Delete(Family* family, Key const& key, bool assume_tracked) override;
  Answer Delete(Key const& key) override;
  Answer Delete(Family* family, Parts const& key, bool assume_tracked) override;
  Answer Delete(Parts const& key) override;
  Answer SingleDelete(Family* family, Key const& key, bool assume_tracked) override;
  Answer SingleDelete(Key const& key) override;
  Answer SingleDelete(Family* family, Parts const& key, bool assume_tracked) override;
  Answer SingleDelete(Parts const& key) override;

  Answer PutUntracked(Family* family, Key const& key, Key const& value) override;
  Answer PutUntracked(Key const& key, Key const& value) override;
  Answer PutUntracked(Family* family, Parts const& key, Parts const& value) override;
  Answer PutUntracked(Parts const& key, Parts const& value) override;
  Answer MergeUntracked(Family* family, Key const& key, Key const& value) override;
  Answer MergeUntracked(Key const& key, Key const& value) override;
  Answer DeleteUntracked(Family* family, Key const& key) override;
  Answer DeleteUntracked(Key const& key) override;
  Answer DeleteUntracked(Family* family, Parts const& key) override;
  Answer DeleteUntracked(Parts const& key) override;
  Answer SingleDeleteUntracked(Family* family, Key const& key) override;
  Answer SingleDeleteUntracked(Key const& key) override;

  Answer Get(Options const& options, Family* family, Key const& key,
             rocksdb::PinnableSlice* value) override;
  Answer Get(Options const& options, Key const& key, rocksdb::PinnableSlice* value) override;
  Answer Get(Options const& options, Family* family, Key const& key, std::string* value) override;
  Answer Get(Options const& options, Key const& key, std::string* value) override;
  void MultiGet(Options const& options, Family* family, std::size_t count, Key const* keys,
                rocksdb::PinnableSlice* values, Answer* statuses, bool sorted) override;
  std::vector<Answer> MultiGet(Options const& options, std::vector<Family*> const& families,
                               std::vector<Key> const& keys,
                               std::vector<std::string>* values) override;
  std::vector<Answer> MultiGet(Options const& options, std::vector<Key> const& keys,
                               std::vector<std::string>* values) override;
  Answer GetForUpdate(Options const& options, Family* family, Key const& key,
                      rocksdb::PinnableSlice* value, bool exclusive, bool validate) override;
  Answer GetForUpdate(Options const& options, Family* family, Key const& key, std::string* value,
                      bool exclusive, bool validate) override;
  Answer GetForUpdate(Options const& options, Key const& key, std::string* value, bool exclusive,
                      bool validate) override;
  std::vector<Answer> MultiGetForUpdate(Options const& options,
                                        std::vector<Family*> const& families,
                                        std::vector<Key> const& keys,
                                        std::vector<std::string>* values) override;
  std::vector<Answer> MultiGetForUpdate(Options const& options, std::vector<Key> const& keys,
                                        std::vector<std::string>* values) override;
  rocksdb::Iterator* GetIterator(Options const& options) override;
  rocksdb::Iterator* GetIterator(Options const& options, Family* family) override;

 protected:
  // Families are RocksDB's own handles below here.
  virtual Family* handle_of(Family* family) const = 0;
  virtual Answer guard(Family* family, Key const& key, Guard const& how) = 0;
  /// Of a key that is guarded.
  virtual Answer write(Change const& change) = 0;
  virtual TransactionBatch& batch() = 0;

 private:
  Answer change(Change change, bool validate, bool assume_tracked);
  Answer get_string(Options const& options, Family* family, Key const& key, std::string* value);
  std::vector<Answer> get_strings(Options const& options, Family* family,
                                  std::vector<Key> const& keys, std::vector<std::string>* values);
  Answer guard_read(Options const& options, Family* family, Key const& key, bool exclusive,
                    bool validate);
};

}  // namespace perdure::lsm
