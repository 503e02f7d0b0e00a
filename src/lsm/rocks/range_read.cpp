#include "lsm/rocks/range_read.hpp"

#include <algorithm>
#include <utility>

#include "lsm/rocks/array_call.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

using rocksdb::Slice;

namespace {

constexpr std::size_t kIteratedAChunk = 16;
/// Pairs whose way to the caller's arrays is one step; what the machine answered stays until then.
constexpr std::uint64_t kPairsAWave = std::uint64_t{1} << 21;
constexpr std::uint64_t kPairsOfFirst = std::uint64_t{1} << 18;
/// Questions of a worker's in a wave.
constexpr std::uint64_t kPartsAWave = 8;
/// Ranges with an end are taken to have no more, until some were read.
constexpr std::uint64_t kUsualPairsOfRange = 256;
/// Without an end, ranges of more pairs than that go on through all memtables: one after the other
/// is how iterators read them as fast.
constexpr std::uint64_t kMostPairs = std::uint64_t{1} << 16;

Slice key_of(RangePairs const& pairs, std::uint64_t pair) {
  auto const key = pairs.key(pair);
  return {reinterpret_cast<char const*>(key.data()), key.size()};
}
Slice value_of(RangePair const& pair) {
  return {reinterpret_cast<char const*>(pair.value()), pair.size};
}

}  // namespace

/// A reader, for as long as a thread has it.
class RangeRead::Lent {
 public:
  explicit Lent(RangeRead& read) : read_(read) {
    {
      MutexLock const lock(read.mutex_);
      if (!read.idle_.empty()) {
        reader_ = read.idle_.back();
        read.idle_.pop_back();
        return;
      }
    }
    auto pairs = read.parts_.read_rooms->pairs.take();
    pairs->clear();
    MutexLock const lock(read.mutex_);
    reader_ = &read.readers_.emplace_back(std::move(pairs));
    read.idle_.reserve(read.readers_.size());
  }
  Lent(Lent const&) = delete;
  Lent& operator=(Lent const&) = delete;
  ~Lent() {
    MutexLock const lock(read_.mutex_);
    read_.idle_.push_back(reader_);
  }
  Reader& operator*() const { return *reader_; }

 private:
  RangeRead& read_;
  Reader* reader_;
};

RangeRead::RangeRead(Database& database, rocksdb::ColumnFamilyHandle* family,
                     rocksdb::ReadOptions const& options, RangesAsked const& asked)
    : database_(database),
      parts_(database.parts()),
      family_(family),
      options_(options),
      asked_(asked),
      sight_(parts_.reader->sight(options)),
      a_range_(std::clamp<std::uint64_t>(asked.limit, 1,
                                         asked.ends.count != 0 ? kUsualPairsOfRange : kMostPairs)) {
  options_.total_order_seek = true;  // ranges know no prefixes
  if (!sight_.refusal.ok() || sight_.view == nullptr) return;
  if (asked.ends.count == 0 && asked.limit > kMostPairs) return;
  FamilyPtr const known = parts_.families->find(family->GetID());
  if (known == nullptr || !known->why_passed_through.empty()) return;
  runs_ = sight_.view->runs(family->GetID());
  if (!runs_.empty()) below_ = &sight_.view->base->keys(family);
}

/// The first wave is a small one, and tells how many pairs ranges have.
rocksdb::Status RangeRead::run(rocks::Ranges& ranges) {
  std::size_t const n = asked_.begins.count;
  KeysUnderWay const under_way(*parts_.counters, n);
  ranges.offsets.assign(1, 0);
  ranges.offsets.reserve(n + 1);
  std::uint64_t const a_wave = std::min(
      kPairsAWave, kPartsAWave * parts_.workers->threads() * parts_.engine->range_pairs().most);
  std::size_t end = 0;
  do {
    wave_ = end;
    end = std::min(n, wave_ + ranges_of(wave_ == 0 ? std::min(a_wave, kPairsOfFirst) : a_wave));
    read_wave(wave_, end);
    append(*parts_.workers, pieces_, ranges);
    if (wave_ == 0 && end < n) reserve(ranges, (n + end - 1) / end);
    if (end != 0) a_range_ = std::max<std::size_t>(1, ranges.keys.offsets.size() / end);
    MutexLock const lock(mutex_);
    if (!failure_.ok()) return failure_;
    answers_.clear();
    for (Reader& reader : readers_) reader.found->clear();
  } while (end < n);
  return rocksdb::Status::OK();
}

void RangeRead::read_wave(std::size_t begin, std::size_t end) {
  pieces_.assign(end - begin, {});
  if (runs_.empty()) {
    parts_.workers->for_chunks(end - begin, kIteratedAChunk, [&](std::size_t b, std::size_t e) {
      Lent const reader(*this);
      for (std::size_t i = begin + b; i < begin + e; ++i) iterate(i, *reader);
    });
    return;
  }
  auto const best = parts_.engine->range_pairs();
  std::size_t const part = parts_.read_rooms->part_ranges.of(
      end - begin, parts_.workers->threads(), {ranges_of(best.least), ranges_of(best.most)});
  parts_.workers->for_chunks(
      end - begin, part, [&](std::size_t b, std::size_t e) { read_part(begin + b, begin + e); });
}

void RangeRead::read_part(std::size_t begin, std::size_t end) {
  auto const rooms = parts_.read_rooms->range_parts.take();
  RangeQuery query;
  query.begins = part_of(asked_.begins, begin, end, rooms->begins);
  if (asked_.ends.count != 0) query.ends = part_of(asked_.ends, begin, end, rooms->ends);
  query.limit = sight_.view->last;
  query.most = asked_.limit;
  for (std::size_t i = begin; i < end && !query.with_erased; ++i)
    query.with_erased = below_meets(i);
  auto read = parts_.engine->ranges(runs_, query);
  if (read) return take(begin, keep(std::move(*read)));
  Code const code = read.status().code();
  if (code != Code::unsupported && code != Code::no_space) return fail(to_rocks(read.status()));
  Lent const reader(*this);
  for (std::size_t i = begin; i < end; ++i) iterate(i, *reader);
}

void RangeRead::take(std::size_t begin, RangePairs const& pairs) {
  parts_.counters->table_hits += pairs.firsts.back();
  std::vector<std::size_t> mixed;
  for (std::size_t k = 0; k < pairs.ranges.size(); ++k) {
    if (is_mixed(begin + k, pairs, k))
      mixed.push_back(k);
    else
      piece(begin + k) = RangePiece::of(pairs, k);
  }
  if (mixed.empty()) return;
  std::ranges::sort(mixed, [&](std::size_t a, std::size_t b) {
    return element(asked_.begins, begin + a).compare(element(asked_.begins, begin + b)) < 0;
  });
  Lent const reader(*this);
  for (std::size_t const k : mixed) {
    RangeCount const& count = pairs.ranges[k];
    if (count.is_cut != 0 || count.merges != 0)
      iterate(begin + k, *reader);
    else
      merge(begin + k, pairs, k, *reader);
  }
}

bool RangeRead::below_meets(std::size_t range) const {
  if (asked_.ends.count == 0) return below_->meets(element(asked_.begins, range), nullptr);
  Slice const end = element(asked_.ends, range);
  return below_->meets(element(asked_.begins, range), &end);
}

/// Whether the range has more, or other things, than the pairs that the machine found.
bool RangeRead::is_mixed(std::size_t range, RangePairs const& pairs, std::size_t number) const {
  RangeCount const& count = pairs.ranges[number];
  if (count.is_cut != 0 || count.merges != 0 || count.erased != 0) return true;
  if (count.keys < asked_.limit) return below_meets(range);
  if (count.keys == 0) return false;
  Slice const last = key_of(pairs, pairs.firsts[number + 1] - 1);
  return below_->meets(element(asked_.begins, range), &last);
}

bool RangeRead::ends_before(std::size_t range, Slice const& key) const {
  return asked_.ends.count != 0 && key.compare(element(asked_.ends, range)) >= 0;
}

void RangeRead::iterate(std::size_t range, Reader& reader) {
  if (reader.all == nullptr) reader.all.reset(database_.NewIterator(options_, family_));
  rocksdb::Iterator& at = *reader.all;
  FoundPairs& found = *reader.found;
  std::size_t const first = found.keys.count();
  std::uint64_t n = 0;
  for (at.Seek(element(asked_.begins, range)); n < asked_.limit && at.Valid(); at.Next(), ++n) {
    if (ends_before(range, at.key())) break;
    found.keys.add(at.key());
    found.values.add(at.value());
  }
  if (!at.status().ok()) fail(at.status());
  piece(range) = RangePiece::of(found, first);
}

void RangeRead::merge(std::size_t range, RangePairs const& pairs, std::size_t number,
                      Reader& reader) {
  if (reader.below == nullptr) {
    LsmSource const source{database_.GetBaseDB(), family_, sight_.view->base_snapshot()};
    reader.below = std::make_unique<LsmCursor>(source, options_);
  }
  LsmCursor& below = *reader.below;
  FoundPairs& found = *reader.found;
  std::size_t const first = found.keys.count();
  std::uint64_t pair = pairs.firsts[number];
  std::uint64_t const end = pairs.firsts[number + 1];
  below.seek(element(asked_.begins, range));
  for (std::uint64_t n = 0; n < asked_.limit;) {
    bool const is_below = below.valid() && !ends_before(range, below.key());
    if (pair == end && !is_below) break;
    int const order = !is_below ? -1 : pair == end ? 1 : key_of(pairs, pair).compare(below.key());
    if (order > 0) {
      if (auto const s = below.value_status(); !s.ok()) return fail(s);
      found.keys.add(below.key());
      found.values.add(below.value());
      ++n;
    } else if (pairs.pairs[pair].found == Found::put) {
      found.keys.add(key_of(pairs, pair));
      found.values.add(value_of(pairs.pairs[pair]));
      ++n;
    }
    if (order >= 0) below.next();
    if (order <= 0) ++pair;
  }
  if (below.failed()) fail(below.status());
  piece(range) = RangePiece::of(found, first);
}

RangePairs const& RangeRead::keep(RangePairs pairs) {
  MutexLock const lock(mutex_);
  return answers_.emplace_back(std::move(pairs));
}

void RangeRead::fail(rocksdb::Status const& why) {
  MutexLock const lock(mutex_);
  if (failure_.ok()) failure_ = why;
}

}  // namespace perdure::lsm
