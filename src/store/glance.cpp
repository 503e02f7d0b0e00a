// A glance at a pool from outside. Invariant: what is read is of one root: if another came
// meanwhile, all is read again. The sample is the same parts of each level each time, so that two
// glances differ by what changed and not by what they happened to look at.
#include "perdure/glance.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/caught.hpp"
#include "index/gphash/root_levels.hpp"
#include "pm/file_lock.hpp"
#include "pm/mapping.hpp"
#include "pm/pool.hpp"
#include "pm/value_log/layout.hpp"

namespace perdure {
namespace {

constexpr std::uint64_t kPart = 4096;  // bytes of a level that are read at once
constexpr std::uint64_t kPartsOfLevel =
    256;  // of 512 words each: 131,072, and smaller levels whole
constexpr std::uint64_t kSuperblocks = 2048;  // whose first bytes are read
constexpr int kTries = 8;

/// So many of `all`, spread evenly; all of them, where there are no more.
template <class F>
Status for_each_sampled(std::uint64_t all, std::uint64_t most, F f) {
  std::uint64_t const taken = std::min(all, most);
  for (std::uint64_t i = 0; i < taken; ++i)
    if (Status s = f(i * all / taken); !s.ok()) return s;
  return {};
}

class Outside {
 public:
  static Result<Outside> open(std::string const& path) {
    auto file = pm::Mapping::open_existing(path, false, pm::Lock::none);
    if (!file) return file.status();
    return Outside(path, std::move(*file));
  }

  /// A file that ends before is read as zeros: nobody has been there.
  Status read(void* to, std::uint64_t bytes, std::uint64_t from) {
    auto* at = static_cast<std::byte*>(to);
    std::memset(at, 0, bytes);
    bytes_read_ += bytes;
    while (bytes > 0) {
      ssize_t const n = ::pread(file_.get(), at, bytes, static_cast<off_t>(from));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        return {Code::io_error, "pool " + path_ + ": cannot read it: " + std::strerror(errno)};
      if (n == 0) return {};
      at += n, from += static_cast<std::uint64_t>(n), bytes -= static_cast<std::uint64_t>(n);
    }
    return {};
  }

  Result<Glance> look();

 private:
  Outside(std::string path, pm::Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  Status read_head();
  void tell_head(Glance& to) const;
  Status count_slots(Glance& to);
  Result<std::uint64_t> taken_words(gphash::Level const& level, std::uint64_t& looked_at);
  Status count_superblocks(Glance& to);
  [[nodiscard]] std::uint64_t named_by_root() const;

  std::string path_;
  pm::Fd file_;
  std::uint64_t file_bytes_ = 0, bytes_read_ = 0;
  std::vector<std::byte> head_ = std::vector<std::byte>(pm::kHeadBytes + sizeof(pm::RepairNote));
  pm::PoolHeader header_{};
  pm::Root root_{};
};

Status Outside::read_head() {
  struct stat st{};
  if (::fstat(file_.get(), &st) != 0)
    return {Code::io_error, "pool " + path_ + ": " + std::strerror(errno)};
  file_bytes_ = static_cast<std::uint64_t>(st.st_size);
  if (Status s = read(head_.data(), head_.size(), 0); !s.ok()) return s;
  auto header = pm::Pool::header_in(path_, head_.data());
  if (!header) return header.status();
  auto root = pm::Pool::root_in(path_, head_.data(), *header, file_bytes_);
  if (!root) return root.status();
  header_ = *header, root_ = *root;
  return {};
}

void Outside::tell_head(Glance& to) const {
  auto const word = [this](std::uint64_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, head_.data() + at, sizeof value);
    return value;
  };
  if (auto const holder = pm::lock_holder(file_.get())) {
    to.use = holder->exclusive ? PoolUse::writing : PoolUse::reading;
    to.process = holder->process;
  }
  to.index = static_cast<Index>(header_.index);
  to.layout = static_cast<Layout>(header_.layout);
  to.durability = static_cast<Durability>(header_.durability);
  to.key_bytes = header_.key_bytes;
  to.value_bytes = header_.value_bytes;
  to.closed_in_order = root_.clean == 1;
  to.transactions = word(pm::kEpochOffset) & ~pm::kEpochRevertible;
  if (to.index == Index::gphash) {
    to.changes = word(pm::kChangeWordOffset) / 2;
    to.changing = word(pm::kChangeWordOffset) % 2 != 0;
  }
  pm::RepairNote repair;
  std::memcpy(&repair, head_.data() + pm::kRepairNoteOffset, sizeof repair);
  to.repairs = repair.state == 0 ? 0 : std::max<std::uint64_t>(repair.count, 1);
  to.pool_bytes = file_bytes_;
  to.max_bytes = header_.max_bytes;
  auto const note = pm::Pool::closing_note_in(head_.data(), root_);
  if (to.closed_in_order && note.ok() && note.value()) to.records = note.value()->records;
}

/// Words that are in use among those of a level that are looked at: of layout `in_place` states,
/// where a word of 1 is an insertion that never ended.
Result<std::uint64_t> Outside::taken_words(gphash::Level const& level, std::uint64_t& looked_at) {
  std::uint64_t const bytes = (std::uint64_t{header_.slots} << level.log2_buckets) * 8;
  std::uint64_t const free = header_.in_place() ? gphash::in_place::kInsert : gphash::word::kEmpty;
  std::uint64_t taken = 0;
  std::vector<std::uint64_t> words;
  Status s = for_each_sampled((bytes + kPart - 1) / kPart, kPartsOfLevel, [&](std::uint64_t part) {
    words.resize(std::min(kPart, bytes - part * kPart) / 8);
    Status read_part = read(words.data(), words.size() * 8, level.base.bytes + part * kPart);
    looked_at += words.size();
    taken += static_cast<std::uint64_t>(
        std::ranges::count_if(words, [free](std::uint64_t word) { return word > free; }));
    return read_part;
  });
  if (!s.ok()) return s;
  return taken;
}

Status Outside::count_slots(Glance& to) {
  if (to.index != Index::gphash || header_.logged()) return {};
  auto const found = gphash::read_levels(root_, header_.levels);
  if (!found) return {found.status().code(), "pool " + path_ + ": " + found.status().message()};
  to.growing = found.value().retires;
  std::uint64_t slots = 0, records = 0;
  bool whole = true;
  for (gphash::Level const& level : found.value().levels) {
    std::uint64_t const all = std::uint64_t{header_.slots} << level.log2_buckets;
    std::uint64_t looked_at = 0;
    auto const taken = taken_words(level, looked_at);
    if (!taken) return taken.status();
    whole = whole && looked_at == all;
    records +=
        static_cast<std::uint64_t>(static_cast<double>(taken.value()) *
                                   (static_cast<double>(all) / static_cast<double>(looked_at)));
    bool const retires = to.growing && &level == &found.value().levels.back();
    if (!retires) slots += all;
  }
  if (!to.records) {
    to.records = records;
    to.estimated = !whole || to.growing;
  }
  to.slots = slots;
  to.load_factor = static_cast<double>(*to.records) / static_cast<double>(slots);
  return {};
}

/// Bytes of runs that the root names and that say nothing of themselves.
std::uint64_t Outside::named_by_root() const {
  std::uint64_t const unit = header_.superblock_bytes;
  std::uint64_t bytes = unit;  // the head
  auto const levels = gphash::read_levels(root_, header_.levels);
  if (header_.index == 0 && !header_.logged() && levels)
    for (gphash::Level const& level : levels.value().levels) {
      std::uint64_t const of_level = gphash::level_bytes(header_.in_place(), header_.key_bytes,
                                                         header_.slots, level.log2_buckets);
      bytes += (of_level + unit - 1) / unit * unit;
    }
  if (pm::RootEntry const* const dense = root_.find("dense")) bytes += dense->value * unit;
  return bytes;
}

Status Outside::count_superblocks(Glance& to) {
  std::uint64_t const unit = header_.superblock_bytes, all = root_.superblocks;
  double looked_at = 0, bytes = 0;
  Status s = for_each_sampled(all, kSuperblocks, [&](std::uint64_t index) {
    struct {
      std::uint32_t magic, size;
      std::array<std::uint8_t, 16> pool_id;
    } front{};
    Status read_front = read(&front, sizeof front, index * unit);
    looked_at += 1;
    if (front.pool_id != header_.pool_id) return read_front;
    if (front.magic == pm::kSuperblockMagic || front.magic == pm::kBlocksMagic)
      bytes += static_cast<double>(unit);
    if (front.magic == pm::kLogMagic)
      bytes += std::max(static_cast<double>(unit), static_cast<double>(front.size));
    return read_front;
  });
  if (!s.ok()) return s;
  double const all_bytes = bytes * (static_cast<double>(all) / looked_at);
  to.used_bytes = std::min(to.pool_bytes, named_by_root() + static_cast<std::uint64_t>(all_bytes));
  return {};
}

Result<Glance> Outside::look() {
  Status head;
  for (int left = kTries; left > 0; --left) {
    head = read_head();
    if (!head.ok()) {
      // Two copies were written while they were read, or the file is damaged: the next time says.
      if (head.code() == Code::corrupt) continue;
      return head;
    }
    Glance found;
    tell_head(found);
    if (Status s = count_slots(found); !s.ok()) return s;
    if (Status s = count_superblocks(found); !s.ok()) return s;
    std::uint64_t const sequence = root_.sequence;
    if (Status s = read_head(); !s.ok() || root_.sequence != sequence) continue;
    found.bytes_read = bytes_read_;
    return found;
  }
  if (!head.ok()) return head;
  return Status{Code::busy, "pool " + path_ +
                                " cannot be looked at now, for its root changes more often than it "
                                "can be read: try again"};
}

}  // namespace

Result<Glance> glance(std::string const& path) {
  return caught([&]() -> Result<Glance> {
    auto file = Outside::open(path);
    if (!file) return file.status();
    return file->look();
  });
}

}  // namespace perdure
