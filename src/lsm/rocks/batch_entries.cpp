#include "lsm/rocks/batch_entries.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "lsm/engine/key_words.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::Slice;

constexpr std::size_t kWord = sizeof(std::uint64_t);

/// Puts operations one behind the other.
class Adder {
 public:
  Adder(BatchEntries& to, Slice const& batch, std::uint32_t count)
      : to_(&to), begin_(batch.data()), count_(count) {}

  void add(std::uint32_t family, Kind kind, Slice const& key, Slice const& value) {
    FamilyEntries& to = of(family);
    std::size_t const n = to.size();
    if (n == 0) {
      to.width = key.size();
      to.keys.reserve(to_->families.size() == 1 ? key.size() * count_ : 0);
    }
    if (to.offsets.empty() && key.size() != to.width) write_down_offsets(to);
    std::byte const* const bytes = as_bytes(key.data());
    to.keys.insert(to.keys.end(), bytes, bytes + key.size());
    if (!to.offsets.empty()) to.offsets.push_back(static_cast<std::int64_t>(to.keys.size()));
    if (to.kinds.empty() && kind != Kind::put) to.kinds.assign(n, Kind::put);
    if (!to.kinds.empty() || kind != Kind::put) to.kinds.push_back(kind);
    to.merges |= kind == Kind::merge;
    if (to_->families.size() > 1) to.requests.push_back(to_->requests);
    ++to_->requests;
    if (kind == Kind::erase)
      to.values.emplace_back();
    else
      to.values.push_back({static_cast<std::uint64_t>(value.data() - begin_), value.size()});
    if (to.has_words) add_word(to, kind, value);
  }

 private:
  FamilyEntries& of(std::uint32_t family) {
    std::vector<FamilyEntries>& all = to_->families;
    if (last_ < all.size() && all[last_].family == family) return all[last_];
    for (last_ = 0; last_ < all.size(); ++last_)
      if (all[last_].family == family) return all[last_];
    if (last_ == 1) {  // from here on requests have gaps
      all[0].requests.resize(all[0].size());
      std::iota(all[0].requests.begin(), all[0].requests.end(), RequestId{0});
    }
    FamilyEntries& fresh = all.emplace_back();
    fresh.family = family;
    if (last_ > 0) return fresh;
    fresh.values.reserve(count_);  // most batches have one family
    fresh.words.reserve(count_);
    return fresh;
  }
  static void add_word(FamilyEntries& to, Kind kind, Slice const& value) {
    if (kind == Kind::erase) return to.words.push_back(0);
    if (to.word_bytes == 0) to.word_bytes = value.size();
    to.has_words = value.size() == to.word_bytes && !value.empty() && value.size() <= kWord;
    if (to.has_words)
      to.words.push_back(
          bytes_as_word(as_bytes(value.data()), static_cast<std::uint32_t>(value.size())));
    else
      to.words = {};
  }
  static void write_down_offsets(FamilyEntries& of) {
    for (std::size_t i = 0; i <= of.size(); ++i)
      of.offsets.push_back(static_cast<std::int64_t>(i * of.width));
  }

  BatchEntries* to_;
  char const* begin_;
  std::size_t count_;
  std::size_t last_ = 0;  // family
};

/// Operations as RocksDB writes them down, in its WAL as well: a tag, the family where it is not
/// the first, the key, and the value where there is one, each with its length before it.
class Records {
 public:
  explicit Records(Slice const& batch)
      : at_(reinterpret_cast<std::uint8_t const*>(batch.data())), end_(at_ + batch.size()) {
    at_ += std::min<std::size_t>(kHead, batch.size());
  }
  [[nodiscard]] bool at_end() const { return at_ == end_; }
  /// As many operations as the batch says that it has.
  static std::uint32_t count(Slice const& batch) {
    std::uint32_t count = 0;
    if (batch.size() >= kHead)
      std::memcpy(&count, batch.data() + kHead - sizeof count, sizeof count);
    return count;
  }

  struct Operation {
    std::uint32_t family = 0;
    Kind kind = Kind::put;
    Slice key, value;
  };
  /// False: what stands there is something else.
  bool take(Operation& to) {
    Tag const tag{*at_++};
    bool const has_family = tag == Tag::family_erase || tag == Tag::family_put ||
                            tag == Tag::family_merge || tag == Tag::family_erase_single;
    to.family = 0;
    if (has_family && !take_number(to.family)) return false;
    switch (tag) {
      case Tag::put:
      case Tag::family_put: to.kind = Kind::put; break;
      case Tag::merge:
      case Tag::family_merge: to.kind = Kind::merge; break;
      case Tag::erase:
      case Tag::family_erase:
      case Tag::erase_single:
      case Tag::family_erase_single: to.kind = Kind::erase; break;
      default: return false;
    }
    return take_bytes(to.key) && (to.kind == Kind::erase || take_bytes(to.value));
  }

 private:
  static constexpr std::size_t kHead = 12;  // sequence number, and how many operations
  enum class Tag : std::uint8_t {
    erase = 0,
    put = 1,
    merge = 2,
    family_erase = 4,
    family_put = 5,
    family_merge = 6,
    erase_single = 7,
    family_erase_single = 8,
  };

  /// Seven bits a byte, the lowest first; the highest bit says that more follow.
  bool take_number(std::uint32_t& to) {
    to = 0;
    for (std::uint32_t shift = 0; shift < 32 && at_ < end_; shift += 7) {
      std::uint32_t const byte = *at_++;
      to |= (byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  bool take_bytes(Slice& to) {
    std::uint32_t size = 0;
    if (!take_number(size) || size > static_cast<std::size_t>(end_ - at_)) return false;
    to = Slice(reinterpret_cast<char const*>(at_), size);
    at_ += size;
    return true;
  }

  std::uint8_t const* at_;
  std::uint8_t const* end_;
};

/// Operations as RocksDB hands them out.
class Collector final : public rocksdb::WriteBatch::Handler {
 public:
  explicit Collector(Adder adder) : adder_(adder) {}

  rocksdb::Status PutCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return add(family, Kind::put, key, value);
  }
  rocksdb::Status DeleteCF(std::uint32_t family, Slice const& key) override {
    return add(family, Kind::erase, key, Slice());
  }
  rocksdb::Status SingleDeleteCF(std::uint32_t family, Slice const& key) override {
    return add(family, Kind::erase, key, Slice());
  }
  rocksdb::Status MergeCF(std::uint32_t family, Slice const& key, Slice const& value) override {
    return add(family, Kind::merge, key, value);
  }
  // The defaults of all others refuse, and so end the iteration: they are RocksDB's.
  void LogData(Slice const&) override {}

 private:
  rocksdb::Status add(std::uint32_t family, Kind kind, Slice const& key, Slice const& value) {
    adder_.add(family, kind, key, value);
    return rocksdb::Status::OK();
  }

  Adder adder_;
};

}  // namespace

bool BatchEntries::read(rocksdb::WriteBatch const& batch) {
  return read_known(batch.Data()) || read_by_rocksdb(batch);
}

bool BatchEntries::read(std::span<std::byte const> bytes) {
  Slice const batch = as_slice(bytes);
  return read_known(batch) || read_by_rocksdb(rocksdb::WriteBatch(batch.ToString()));
}

bool BatchEntries::read_known(Slice const& batch) {
  std::uint32_t const count = Records::count(batch);
  Adder adder(*this, batch, count);
  Records records(batch);
  Records::Operation next;
  bool known = true;
  while (known && !records.at_end()) {
    known = records.take(next);
    if (known) adder.add(next.family, next.kind, next.key, next.value);
  }
  return known && requests == count;
}

/// It takes three times as long, and does what the other one does not know.
bool BatchEntries::read_by_rocksdb(rocksdb::WriteBatch const& batch) {
  *this = {};
  Collector collector(Adder(*this, batch.Data(), batch.Count()));
  return batch.Iterate(&collector).ok();
}

void GroupEntries::add(BatchEntries const& batch, std::byte const* copy) {
  for (FamilyEntries const& from : batch.families) {
    std::size_t const at = plan(from);
    Family& to = families_[at];
    parts_.push_back({&from, copy, at, to.count, to.key_bytes, requests_});
    to.count += from.size();
    to.key_bytes += from.keys.size();
  }
  parts_of_.push_back(parts_.size());
  requests_ += batch.requests;
}

/// Which of the families it is.
std::size_t GroupEntries::plan(FamilyEntries const& from) {
  auto const end = families_.begin() + static_cast<std::ptrdiff_t>(used_);
  auto const known = std::find_if(families_.begin(), end,
                                  [&](Family const& one) { return one.family == from.family; });
  bool const is_new = known == end;
  if (is_new && used_++ == families_.size()) families_.emplace_back();
  Family& to = is_new ? families_[used_ - 1] : *known;
  if (is_new) {
    to.family = from.family;
    to.width = from.width;
  }
  to.one_width &= from.offsets.empty() && to.width == from.width;
  to.only_puts &= from.kinds.empty();
  to.merges |= from.merges;
  bool const same_size =
      to.word_bytes == 0 || from.word_bytes == 0 || to.word_bytes == from.word_bytes;
  to.has_words &= from.has_words && same_size;
  to.word_bytes = std::max(to.word_bytes, from.word_bytes);
  return static_cast<std::size_t>(&to - families_.data());
}

void GroupEntries::clear() {
  for (Family& one : families_) {
    one.count = one.key_bytes = one.width = one.word_bytes = 0;
    one.one_width = one.only_puts = one.has_words = true;
    one.merges = false;
  }
  used_ = 0;
  parts_.clear();
  parts_of_ = {0};
  requests_ = 0;
}

std::size_t GroupEntries::bytes() const {
  std::size_t all = 0;
  for (Family const& one : families_)
    all += one.keys.bytes() + one.offsets.bytes() + one.kinds.bytes() + one.requests.bytes() +
           one.values.bytes() + one.words.bytes();
  return all;
}

void GroupEntries::make_room() {
  for (Family& one : std::span(families_).first(used_)) {
    one.keys.take(one.key_bytes);
    one.values.take(one.count);
    one.words.take(one.has_words ? one.count : 0);
    one.offsets.take(one.has_width() ? 0 : one.count + 1);
    if (!one.has_width()) one.offsets.get()[0] = 0;
    one.kinds.take(one.only_puts ? 0 : one.count);
    one.requests.take(used_ > 1 ? one.count : 0);
  }
}

void GroupEntries::put(std::size_t i) {
  for (Part const& part : std::span(parts_).subspan(parts_of_[i], parts_of_[i + 1] - parts_of_[i]))
    put(part);
}

namespace {

/// Where the keys end, behind those `before` them.
void put_offsets(FamilyEntries const& from, std::int64_t before, std::int64_t* to) {
  auto const width = static_cast<std::int64_t>(from.width);
  for (std::size_t k = 0; k < from.size(); ++k)
    to[k] = before +
            (from.offsets.empty() ? static_cast<std::int64_t>(k + 1) * width : from.offsets[k + 1]);
}

}  // namespace

void GroupEntries::put(Part const& part) const {
  Family const& to = families_[part.family];
  FamilyEntries const& from = *part.from;
  std::size_t const n = from.size();
  if (!from.keys.empty())
    std::memcpy(to.keys.get().data() + part.key_at, from.keys.data(), from.keys.size());
  ValueRef* const values = to.values.get().data() + part.entry;
  for (std::size_t k = 0; k < n; ++k)
    values[k] = {part.copy + from.values[k].at, from.values[k].size};
  if (to.has_words) std::copy_n(from.words.data(), n, to.words.get().data() + part.entry);
  if (!to.has_width())
    put_offsets(from, static_cast<std::int64_t>(part.key_at),
                to.offsets.get().data() + part.entry + 1);
  if (!to.only_puts && from.kinds.empty())
    std::fill_n(to.kinds.get().data() + part.entry, n, Kind::put);
  else if (!to.only_puts)
    std::copy_n(from.kinds.data(), n, to.kinds.get().data() + part.entry);
  if (used_ == 1) return;
  RequestId* const requests = to.requests.get().data() + part.entry;
  for (std::size_t k = 0; k < n; ++k)
    requests[k] = part.first + (from.requests.empty() ? k : from.requests[k]);
}

Entries GroupEntries::entries(Family const& of, RequestId first) const {
  Entries entries;
  bool const has_width = of.has_width();
  entries.keys = {of.keys.get().data(), has_width ? nullptr : of.offsets.get().data(),
                  has_width ? static_cast<std::uint32_t>(of.width) : 0, of.count,
                  MemorySpace::host};
  entries.kinds = of.kinds.get();
  entries.requests = of.requests.get();
  entries.first_request = first;
  entries.values = of.values.get();
  entries.value_words = of.words.get();
  return entries;
}

std::vector<FamilyBatch> GroupEntries::batches(RequestId first) const {
  std::vector<FamilyBatch> all;
  for (Family const& one : std::span(families_).first(used_))
    all.push_back({one.family, entries(one, first), one.merges});
  return all;
}

}  // namespace perdure::lsm
