#include "calls.hpp"

#include <array>
#include <chrono>

#include "database.hpp"
#include "failure.hpp"

namespace perdure::bench::rocks {
namespace {

constexpr std::size_t kLongestKey = 1024;
constexpr std::size_t kLongestValue = 65536;

using Clock = std::chrono::steady_clock;

/// Runs one call of the database, and notes how long it took.
template <class Call>
void timed(Histogram& latencies, Call const& call) {
  auto const begin = Clock::now();
  call();
  latencies.add(static_cast<std::uint64_t>((Clock::now() - begin).count()));
}

std::string why_wrong(Pairs const& pairs, rocksdb::Slice const& key, rocksdb::Status const& status,
                      rocksdb::Slice const& value, std::uint64_t expected) {
  if (expected == kAbsent) return status.IsNotFound() ? "" : "is there, but was deleted";
  if (!status.ok()) return status.ToString();
  auto const version = pairs.version(key.data(), value);
  if (!version) return "has a value that nobody wrote";
  return expected == kAnyVersion || *version == expected ? ""
                                                         : "has another version than was written";
}

}  // namespace

void add_put(rocksdb::WriteBatch& batch, Pairs const& pairs, std::uint64_t number,
             std::uint64_t version) {
  thread_local std::array<char, kLongestKey> key;
  thread_local std::array<char, kLongestValue> value;
  pairs.key(number, key.data());
  pairs.value(key.data(), version, value.data());
  require(batch.Put({key.data(), pairs.key_bytes()}, {value.data(), pairs.value_bytes()}),
          "add to a WriteBatch");
}

std::uint64_t calls_of_round(std::uint64_t batch) {
  return std::max<std::uint64_t>(4, kRoundOperations / batch);
}

Reads::Reads(Pairs const& pairs, std::size_t capacity)
    : pairs_(pairs),
      keys_(capacity * pairs.key_bytes()),
      slices_(capacity),
      values_(capacity),
      statuses_(capacity) {
  for (std::size_t i = 0; i < capacity; ++i)
    slices_[i] = {keys_.data() + i * pairs.key_bytes(), pairs.key_bytes()};
}

void Reads::add(std::uint64_t number, std::uint64_t version) {
  pairs_.key(number, keys_.data() + count() * pairs_.key_bytes());
  versions_.push_back(version);
}

void Reads::call(rocksdb::DB& db, rocksdb::ReadOptions const& options) {
  db.MultiGet(options, db.DefaultColumnFamily(), count(), slices_.data(), values_.data(),
              statuses_.data());
}

void Reads::call(rocksdb::Transaction& transaction, rocksdb::ColumnFamilyHandle* family) {
  transaction.MultiGet({}, family, count(), slices_.data(), values_.data(), statuses_.data());
}

void Reads::call_one(rocksdb::DB& db) {
  statuses_[0] = db.Get({}, db.DefaultColumnFamily(), slices_[0], values_.data());
}

std::uint64_t Reads::check() {
  for (std::size_t i = 0; i < count(); ++i) {
    std::string const why = why_wrong(pairs_, slices_[i], statuses_[i], values_[i], versions_[i]);
    if (!why.empty()) throw Failure("the key " + slices_[i].ToString(true) + " " + why);
    values_[i].Reset();
  }
  return count();
}

WriteClient::WriteClient(rocksdb::DB& db, std::uint64_t operations, std::uint64_t batch, Fill fill)
    : db_(db), left_(operations), batch_(batch), fill_(std::move(fill)) {}

bool WriteClient::prepare() {
  ready_.resize(std::min(calls_of_round(batch_), (left_ + batch_ - 1) / batch_));
  for (rocksdb::WriteBatch& each : ready_) {
    std::uint64_t const count = std::min(batch_, left_);
    each.Clear();
    fill_(each, count);
    left_ -= count;
    operations_ += count;
  }
  return !ready_.empty();
}

void WriteClient::call() {
  for (rocksdb::WriteBatch& each : ready_)
    timed(latencies_, [&] { require(db_.Write({}, &each), "write"); });
}

GetClient::GetClient(rocksdb::DB& db, Pairs const& pairs, std::uint64_t operations,
                     std::uint64_t batch, Next next)
    : db_(db), pairs_(pairs), left_(operations), batch_(batch), next_(std::move(next)) {}

bool GetClient::prepare() {
  ready_ = std::min(calls_of_round(batch_), (left_ + batch_ - 1) / batch_);
  while (reads_.size() < ready_) reads_.emplace_back(pairs_, std::min(batch_, left_));
  for (std::size_t i = 0; i < ready_; ++i) {
    std::uint64_t const count = std::min(batch_, left_);
    reads_[i].clear();
    for (std::uint64_t k = 0; k < count; ++k) {
      Expected const expected = next_();
      reads_[i].add(expected.number, expected.version);
    }
    left_ -= count;
    operations_ += count;
  }
  return ready_ > 0;
}

void GetClient::call() {
  for (std::size_t i = 0; i < ready_; ++i) timed(latencies_, [&] { reads_[i].call(db_); });
}

void GetClient::check() {
  for (std::size_t i = 0; i < ready_; ++i) checked_ += reads_[i].check();
}

MixedClient::MixedClient(rocksdb::DB& db, Pairs const& pairs, std::uint64_t operations,
                         std::uint64_t batch, Next next)
    : db_(db), pairs_(pairs), left_(operations), batch_(batch), next_(std::move(next)) {}

bool MixedClient::prepare() {
  ready_ = std::min(calls_of_round(batch_), (left_ + batch_ - 1) / batch_);
  while (calls_.size() < ready_)
    calls_.push_back({rocksdb::WriteBatch(), Reads(pairs_, std::min(batch_, left_))});
  for (std::size_t i = 0; i < ready_; ++i) {
    std::uint64_t const count = std::min(batch_, left_);
    calls_[i].writes.Clear();
    calls_[i].reads.clear();
    for (std::uint64_t k = 0; k < count; ++k) next_(calls_[i].writes, calls_[i].reads);
    left_ -= count;
    operations_ += count;
  }
  return ready_ > 0;
}

void MixedClient::call() {
  for (std::size_t i = 0; i < ready_; ++i) {
    Ready& ready = calls_[i];
    timed(latencies_, [&] {
      if (ready.writes.Count() > 0) require(db_.Write({}, &ready.writes), "write");
      if (ready.reads.count() > 0) ready.reads.call(db_);
    });
  }
}

void MixedClient::check() {
  for (std::size_t i = 0; i < ready_; ++i) checked_ += calls_[i].reads.check();
}

}  // namespace perdure::bench::rocks
