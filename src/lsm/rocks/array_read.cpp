#include "lsm/rocks/array_read.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "lsm/rocks/array_call.hpp"
#include "lsm/rocks/key_column.hpp"
#include "lsm/rocks/keys_below.hpp"
#include "lsm/rocks/merging.hpp"
#include "lsm/rocks/status.hpp"
#include "lsm/rocks/value_prefetch.hpp"

namespace perdure::lsm {

using rocksdb::Slice;

namespace {

constexpr std::size_t kAnswersAChunk = 2048;
constexpr std::size_t kFoldsAChunk = 256;
constexpr std::size_t kChainsAhead = 4;

/// Keys of a column, by their numbers.
struct NumberedKeys {
  Column const& keys;
  std::span<std::size_t const> numbers;
  [[nodiscard]] std::byte const* at(std::size_t i) const {
    return as_bytes(element(keys, numbers[i]).data());
  }
  [[nodiscard]] std::uint32_t size(std::size_t i) const {
    return static_cast<std::uint32_t>(element(keys, numbers[i]).size());
  }
};

/// Some keys of a read, with their limits.
class MergedKeys {
 public:
  MergedKeys(Column const& all, Limits const& limits, std::span<std::size_t const> keys)
      : limit_(limits.all) {
    for (std::size_t const key : keys) {
      keys_.add(element(all, key));
      if (!limits.each.empty()) each_.push_back(limits.each[key]);
    }
  }
  [[nodiscard]] Column column() const { return keys_.column(); }
  [[nodiscard]] Limits limits() const { return {each_, limit_}; }

 private:
  KeyColumn keys_;
  std::vector<RequestId> each_;
  RequestId limit_;
};

std::size_t words_of_rows(RunList runs, std::size_t keys, ValueSink& sink) {
  std::size_t const words = row_words(runs);
  return words != 0 && sink.takes_rows(keys, words) ? words : 0;
}

class ReadCount {
 public:
  explicit ReadCount(std::atomic<std::uint32_t>& reads) : reads_(reads), before_(reads_++) {}
  ~ReadCount() { --reads_; }
  ReadCount(ReadCount const&) = delete;
  ReadCount& operator=(ReadCount const&) = delete;

  [[nodiscard]] std::size_t share_of(std::uint32_t workers) const {
    return std::max(1u, workers / (before_ + 1));
  }

 private:
  std::atomic<std::uint32_t>& reads_;
  std::uint32_t before_;
};

}  // namespace

/// Folds operands of keys; one thread's.
class ArrayRead::Folder {
 public:
  explicit Folder(ArrayRead& read)
      : read_(read),
        family_(read.parts_.families->find(read.family_->GetID())),
        arena_(read.new_arena()) {}

  void fold(std::size_t key, std::span<Version const> chain, Slice const* below) {
    auto const status = family_ == nullptr
                            ? rocksdb::Status::InvalidArgument("no such column family")
                            : merged_.resolve(family_->merge_operator.get(), nullptr,
                                              element(read_.keys_, key), chain, below);
    read_.tell(key, status, status.ok() ? merged_.value() : Slice(), arena_);
  }
  [[nodiscard]] ValueArena& arena() const { return arena_; }

 private:
  ArrayRead& read_;
  FamilyPtr family_;
  ValueArena& arena_;
  Merged merged_;
};

/// What memtables do not know is as RocksDB has it.
class ArrayRead::AbsentTeller final : public KeysBelow::Teller {
 public:
  AbsentTeller(ArrayRead& read, std::span<std::size_t const> keys)
      : read_(read), keys_(keys), arena_(read.new_arena()) {}
  void tell(std::size_t question, rocksdb::Status const& status, Slice const& value) override {
    read_.tell(keys_[question], status, value, arena_);
  }

 private:
  ArrayRead& read_;
  std::span<std::size_t const> keys_;
  ValueArena& arena_;
};

class ArrayRead::OpenTeller final : public KeysBelow::Teller {
 public:
  OpenTeller(ArrayRead& read, std::span<Open const> open)
      : read_(read), open_(open), folder_(read) {}
  void prepare(std::size_t question) override {
    for (Version const& version : open_[question].chain) prefetch_value(version.value);
  }
  void tell(std::size_t question, rocksdb::Status const& status, Slice const& value) override {
    Open const& one = open_[question];
    if (status.ok() || status.IsNotFound())
      folder_.fold(one.key, one.chain, status.ok() ? &value : nullptr);
    else
      read_.tell(one.key, status, value, folder_.arena());
  }

 private:
  ArrayRead& read_;
  std::span<Open const> open_;
  Folder folder_;
};

ArrayRead::ArrayRead(DatabaseParts& parts, Sight const& sight, rocksdb::ColumnFamilyHandle* family,
                     Column const& keys, Limits const& limits, ValueSink& sink)
    : parts_(parts),
      sight_(sight),
      family_(family),
      keys_(keys),
      limits_(limits),
      sink_(sink),
      runs_(sight.view->runs(family->GetID())),
      known_(parts.reader->known_runs(*sight.view, family->GetID())),
      row_words_(words_of_rows(known_, keys.count, sink)) {}

ArrayRead::~ArrayRead() = default;

rocksdb::Status ArrayRead::run() {
  std::size_t const n = keys_.count;
  KeysUnderWay const under_way(*parts_.counters, n);
  if (sight_.options.snapshot != nullptr)
    ticket_ = parts_.reader->cached().ticket(sight_.options, family_->GetID(), n);
  if (known_.empty()) {
    parts_.workers->for_chunks(n, kAnswersAChunk, [&](std::size_t begin, std::size_t end) {
      std::vector<std::size_t> absent(end - begin);
      std::iota(absent.begin(), absent.end(), begin);
      ask_cache(absent);
      MutexLock const lock(mutex_);
      absent_.insert(absent_.end(), absent.begin(), absent.end());
    });
  } else {
    ReadCount const others(parts_.read_rooms->reads);
    std::size_t part =
        parts_.read_rooms->part_keys.of(n, others.share_of(parts_.workers->threads()));
    if (row_words_ != 0) part = std::min(part, ReadRooms::kRowWords / row_words_);
    parts_.workers->for_chunks(n, part,
                               [&](std::size_t begin, std::size_t end) { read_part(begin, end); });
  }
  ask_below();
  sink_.finish();
  MutexLock const lock(mutex_);
  return failure_;
}

void ArrayRead::read_part(std::size_t begin, std::size_t end) {
  auto const rooms = parts_.read_rooms->parts.take();
  std::size_t const n = end - begin;
  std::span<Answer> const answers =
      rooms->answers.take(n, parts_.read_rooms->part_keys.most, parts_.read_rooms->pinned);
  AnswerRows rows;
  if (row_words_ != 0)
    rows = {
        rooms->rows.take(n * row_words_, ReadRooms::kRowWords, parts_.read_rooms->pinned).data(),
        row_words_};
  Column const keys = part_of(keys_, begin, end, rooms->offsets);
  Limits limits = limits_;
  if (!limits.each.empty()) limits.each = limits.each.subspan(begin, n);
  Status s = parts_.engine->find(known_, keys, limits, answers, rows);
  std::vector<std::size_t> merges;
  if (s.ok()) {
    parts_.workers->for_chunks(n, kAnswersAChunk, [&](std::size_t from, std::size_t to) {
      take(begin + from, answers.subspan(from, to - from), rows.from(from), merges);
    });
    if (!merges.empty()) s = fold_there(merges);
    if (s.ok() && !merges.empty()) s = fold(merges);
  }
  if (!s.ok()) fail(to_rocks(s));
}

void ArrayRead::take(std::size_t first, std::span<Answer const> answers, AnswerRows const& rows,
                     std::vector<std::size_t>& merges) {
  sink_.stored(first, answers, rows);
  std::vector<std::size_t> absent, operands;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].found == Found::absent) absent.push_back(first + i);
    if (answers[i].found == Found::merge) operands.push_back(first + i);
  }
  parts_.reader->count(*sight_.view, answers);
  ask_cache(absent);
  if (absent.empty() && operands.empty()) return;
  MutexLock const lock(mutex_);
  absent_.insert(absent_.end(), absent.begin(), absent.end());
  merges.insert(merges.end(), operands.begin(), operands.end());
}

void ArrayRead::ask_cache(std::vector<std::size_t>& absent) {
  if (!ticket_ || absent.empty()) return;
  ValueArena& arena = new_arena();
  std::size_t left = 0;
  parts_.reader->cached().look_up(
      *ticket_, family_->GetID(), NumberedKeys{keys_, absent}, absent.size(),
      [&](std::size_t i, rocksdb::Status const& status, Slice const& value) {
        tell(absent[i], status, value, arena);
      },
      [&](std::size_t i) { absent[left++] = absent[i]; });
  parts_.reader->count_cached(keys_.count, absent.size() - left);
  absent.resize(left);
}

Status ArrayRead::fold_there(std::vector<std::size_t>& merges) {
  FamilyPtr const family = parts_.families->find(family_->GetID());
  if (family == nullptr || family->operation == Operation::none) return {};
  MergedKeys const keys(keys_, limits_, merges);
  std::vector<Answer> answers(merges.size());
  Status const s =
      parts_.engine->fold(runs_, keys.column(), keys.limits(), family->operation, answers);
  if (s.code() == Code::unsupported) return {};
  if (!s.ok()) return s;
  MutexLock const lock(mutex_);
  std::vector<Version>& open = folded_.emplace_back();
  open.reserve(merges.size());
  ValueArena& arena = arenas_.emplace_back();
  std::size_t left = 0;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    Slice const value(reinterpret_cast<char const*>(&answers[i].word), answers[i].size);
    if (!answers[i].inside) {
      merges[left++] = merges[i];
    } else if (answers[i].found == Found::put) {
      sink_.made(merges[i], value, arena);
    } else {
      open.push_back({arena.copy(value), answers[i].request, Kind::merge});
      open_.push_back({merges[i], {&open.back(), 1}});
    }
  }
  merges.resize(left);
  return {};
}

/// Operands of keys, and what they stand on: one question to the machine.
Status ArrayRead::fold(std::span<std::size_t const> merges) {
  MergedKeys const keys(keys_, limits_, merges);
  Chains chains;
  if (Status s = parts_.engine->chains(runs_, keys.column(), keys.limits(), chains); !s.ok())
    return s;
  fold_closed(merges, chains);
  MutexLock const lock(mutex_);
  Chains const& kept = chains_.emplace_back(std::move(chains));
  for (std::size_t i = 0; i < merges.size(); ++i) {
    auto const chain = chain_of(kept, i);
    if (is_open(chain)) open_.push_back({merges[i], chain});
  }
  return {};
}

void ArrayRead::fold_closed(std::span<std::size_t const> merges, Chains const& chains) {
  parts_.workers->for_chunks(merges.size(), kFoldsAChunk, [&](std::size_t begin, std::size_t end) {
    Folder folder(*this);
    for (std::size_t i = begin; i < end; ++i) {
      if (std::size_t const next = i + kChainsAhead; next < end)
        for (Version const& version : chain_of(chains, next)) prefetch_value(version.value);
      auto const chain = chain_of(chains, i);
      if (!is_open(chain)) folder.fold(merges[i], chain, nullptr);
    }
  });
}

/// No part is under way any more.
void ArrayRead::ask_below() {
  std::vector<std::size_t> absent, keys;
  std::vector<Open> open;
  {
    MutexLock const lock(mutex_);
    if (!failure_.ok()) return;
    absent.swap(absent_);
    open.swap(open_);
  }
  for (Open const& one : open) keys.push_back(one.key);
  auto const rooms = parts_.read_rooms->below.take();
  KeysBelow below(*parts_.reader, *parts_.workers, sight_, family_, keys_, *rooms);
  below.ask(absent.size(), absent, [&] { return std::make_unique<AbsentTeller>(*this, absent); });
  below.ask(keys.size(), keys, [&] { return std::make_unique<OpenTeller>(*this, open); });
}

void ArrayRead::tell(std::size_t key, rocksdb::Status const& status, Slice const& value,
                     ValueArena& arena) {
  if (status.ok()) return sink_.made(key, value, arena);
  sink_.none(key, status_of(status));
  if (!status.IsNotFound() && !is_failed_merge(status)) fail(status);
}

void ArrayRead::fail(rocksdb::Status const& why) {
  MutexLock const lock(mutex_);
  if (failure_.ok()) failure_ = why;
}

ValueArena& ArrayRead::new_arena() {
  MutexLock const lock(mutex_);
  return arenas_.emplace_back();
}

}  // namespace perdure::lsm
