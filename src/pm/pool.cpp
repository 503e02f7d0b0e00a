#include "pm/pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "perdure/survival.h"
#include "pm/host_verbs.hpp"
#include "pm/log_word.hpp"
#include "pm/older_format.hpp"
#include "pm/root.hpp"

namespace perdure::pm {
namespace {

std::array<std::uint8_t, 16> random_id() {
  std::random_device entropy;
  std::array<std::uint8_t, 16> id{};
  for (auto& byte : id) byte = static_cast<std::uint8_t>(entropy());
  return id;
}

Status corrupt(std::string const& path, std::string const& what) {
  return {Code::corrupt, "pool " + path + ": " + what +
                             "; nothing was changed: restore it from a copy or an export"};
}

Status not_a_pool(std::string const& path) {
  return {Code::corrupt, "pool " + path +
                             ": not a Perdure pool, for it does not begin like one; nothing was "
                             "changed: name the pool's own file "
                             "(uncompress it, or restore a snapshot, first), or make a pool whose "
                             "creation was cut short again, with "
                             "force"};
}

/// As far as the file's head says so, which nobody has checked yet: else all.
std::uint64_t counted_on(std::string const& path, int fd, std::uint64_t bytes) {
  std::vector<std::byte> head(kHeadBytes);
  if (::pread(fd, head.data(), head.size(), 0) != static_cast<ssize_t>(head.size())) return bytes;
  auto header = Pool::header_in(path, head.data());
  if (!header) return bytes;
  auto root = Pool::root_in(path, head.data(), *header, bytes);
  return root ? root->superblocks * header->superblock_bytes : bytes;
}

/// Before it is mapped: another file is told from a pool that was cut short, however short it is.
Status begins_like_a_pool(std::string const& path, int fd, std::uint64_t bytes) {
  std::array<char, sizeof kPoolMagic> first{};
  ssize_t const n = ::pread(fd, first.data(), first.size(), 0);
  if (n < 0) return {Code::io_error, "pool " + path + ": cannot read it: " + std::strerror(errno)};
  if (!std::equal(first.begin(), first.begin() + n, kPoolMagic.begin())) return not_a_pool(path);
  if (bytes < kHeadBytes)
    return corrupt(path, "truncated: " + std::to_string(bytes) +
                             " bytes are left, its head alone has " + std::to_string(kHeadBytes));
  if (bytes % 4096 != 0)
    return corrupt(path, "truncated: " + std::to_string(bytes) +
                             " bytes are left, which are no whole pages of 4096");
  return {};
}

Status has_head(std::string const& path, std::uint64_t bytes) {
  if (bytes >= kHeadBytes) return {};
  return corrupt(path, std::to_string(bytes) + " bytes hold no pool header");
}

MakeOptions pool_file(std::string const& path, MakeOptions make) {
  if (!make.may_replace)
    make.may_replace =
        only_replaces("pool " + path, "Perdure pool", {kPoolMagic.data(), kPoolMagic.size()}, true);
  return make;
}

/// The way out of what cannot be opened as it is. The header is the same in all versions so far.
Status other_version(std::string const& path, PoolHeader const& header) {
  std::string const version = std::to_string(header.format_version);
  std::string const says = "pool " + path + " has format version " + version +
                           "; this build reads version " + std::to_string(kFormatVersion);
  if (!is_convertible(header))
    return {Code::corrupt,
            says + ": export it with the build that made it, and load that with this one"};
  if (header.durability == static_cast<std::uint8_t>(Durability::power))
    return {Code::corrupt, says + ": name its log_dir, from which this build makes it anew"};
  return {Code::corrupt,
          says + ", and snapshots of version " + version +
              ": take a snapshot with the build that made it (perdure snapshot) and restore that "
              "with this one (perdure restore), or export and load it"};
}

/// Bytes with any index; numbers with a B+-tree, of keys that are as long as numbers are.
bool has_sane_order(PoolHeader const& h) {
  bool const number = h.key_bytes == 1 || h.key_bytes == 2 || h.key_bytes == 4 || h.key_bytes == 8;
  return h.key_order == 0 || (h.key_order <= 2 && h.btree() && number);
}

bool has_sane_persistence(PoolHeader const& h) {
  return h.persist == 0 || (h.persist <= 2 && h.btree());
}

/// Values are of no known type, or as long as their type says.
bool has_sane_type(PoolHeader const& h) {
  constexpr std::uint8_t kLastKind = 6;
  bool sane = h.value_kind <= kLastKind && h.value_rank <= std::size(h.extents) &&
              (h.value_kind == 0) == (h.element_bytes == 0) &&
              (h.value_kind != 0 || h.value_rank == 0);
  std::uint64_t bytes = h.element_bytes;
  for (std::size_t i = 0; i < std::size(h.extents); ++i) {
    std::uint32_t const extent = h.extents[i];
    sane &= (extent != 0) == (i < h.value_rank);
    if (i < h.value_rank && bytes <= h.value_bytes) bytes *= extent;
  }
  return sane && (h.value_kind == 0 || bytes == h.value_bytes);
}

}  // namespace

Result<Pool> Pool::create(std::string const& path, PoolHeader shape, std::uint64_t superblocks,
                          MakeOptions const& make, MapOptions const& options) {
  PERDURE_ASSERT(superblocks > 0 && std::has_single_bit(shape.superblock_bytes));
  PERDURE_ASSERT(shape.superblock_bytes >= kLeastSuperblock);
  std::uint64_t const bytes = superblocks * shape.superblock_bytes;
  if (shape.max_bytes != 0 && bytes > shape.max_bytes) {
    return Status{Code::no_space, "pool " + path + ": max_bytes " +
                                      std::to_string(shape.max_bytes) + " is less than the " +
                                      std::to_string(bytes) + " bytes it needs to begin with"};
  }
  auto mapping = Mapping::create(path, bytes, shape.max_bytes, pool_file(path, make), options);
  if (!mapping) return mapping.status();
  Pool pool(std::move(*mapping));
  shape.magic = kPoolMagic;
  shape.format_version = kFormatVersion;
  shape.hash_id = kHashId;
  shape.pool_id = random_id();
  shape.created_unix_s = static_cast<std::uint64_t>(std::time(nullptr));
  shape.crc = checksum(shape);
  pool.header_ = shape;
  PERDURE_ASSERT(pool.bytes() >= bytes);
  pool.in_use_.assign(superblocks, false);
  pool.mark(0, true);
  // The root first: a pool whose creation was cut short has no valid header, and is refused.
  pool.root_.superblocks = superblocks;
  pool.publish_root(pool.root_);
  write_bytes(pool.base() + kHeaderOffset, &shape, sizeof shape);
  order();
  return pool;
}

Result<Pool> Pool::open(std::string const& path, MapOptions const& options) {
  auto const check = [&](int fd, std::uint64_t bytes) -> Result<std::uint64_t> {
    if (Status s = begins_like_a_pool(path, fd, bytes); !s.ok()) return s;
    return counted_on(path, fd, bytes);
  };
  auto mapping =
      options.live ? Mapping::copy_live(path, options, check) : Mapping::open(path, options, check);
  if (!mapping) return mapping.status();
  return of(path, std::move(*mapping));
}

Result<PoolHeader> Pool::header_of(std::string const& path) {
  auto file = Mapping::open_existing(path, false, Lock::none);
  if (!file) return file.status();
  PoolHeader header{};
  if (Status s = begins_like_a_pool(path, file->get(), kHeadBytes); !s.ok()) return s;
  if (::pread(file->get(), &header, sizeof header, kHeaderOffset) !=
      static_cast<ssize_t>(sizeof header))
    return corrupt(path, "its header cannot be read");
  return header;
}

Result<Pool> Pool::of(std::string const& path, Mapping mapping) {
  Pool pool(std::move(mapping));
  if (Status s = pool.check(path); !s.ok()) return s;
  return pool;
}

Result<Pool> Pool::of_image(std::string const& path, Mapping mapping) {
  if (Status s = has_head(path, mapping.size()); !s.ok()) return s;
  if (std::string const fault = convert_older({mapping.data(), mapping.size()}); !fault.empty())
    return corrupt(path, fault);
  return of(path, std::move(mapping));
}

Result<Pool> Pool::create_from(std::string const& path, std::uint64_t bytes,
                               MakeOptions const& make, MapOptions const& options,
                               std::function<Status(std::span<std::byte>)> const& fill) {
  if (Status s = has_head(path, bytes); !s.ok()) return s;
  auto mapping = Mapping::create(path, bytes, 0, pool_file(path, make), options);
  if (!mapping) return mapping.status();
  if (Status s = fill({mapping->data(), bytes}); !s.ok()) return s;
  return of_image(path, std::move(*mapping));
}

void Pool::take_identity(std::uint8_t durability) {
  auto const old = std::exchange(header_.pool_id, random_id());
  for (std::uint64_t i = 1; i < superblocks(); ++i) {
    Offset const at{i * superblock_bytes()};
    if (!is_free(at)) continue;
    SuperblockHeader header;
    read_bytes(&header, base() + at.bytes, sizeof header);
    // A damaged header stays as it is, for recovery to find.
    bool const ours = header.magic == kSuperblockMagic || header.magic == kBlocksMagic;
    if (!ours || header.pool_id != old || header.crc != checksum(header)) continue;
    header.pool_id = header_.pool_id;
    header.crc = checksum(header);
    write_bytes(base() + at.bytes, &header, sizeof header);
  }
  header_.durability = durability;
  header_.crc = checksum(header_);
  write_bytes(base() + kHeaderOffset, &header_, sizeof header_);
  order();
}

std::vector<std::byte> Pool::closed_head(std::optional<ClosingNote> note) const {
  std::vector<std::byte> head(kHeadBytes);
  read_bytes(head.data(), base(), head.size());
  ClosingNote const noted = note ? for_next_root(*note) : ClosingNote{};
  std::memcpy(head.data() + kClosingNoteOffset, &noted, sizeof noted);
  std::memset(head.data() + kLogWordOffset, 0, sizeof(std::uint64_t));  // it gets a log of its own
  Root root = root_;
  root.clean = 1;
  PERDURE_ASSERT(root.superblocks <= superblocks());
  for (int copy = 0; copy < 2; ++copy) {
    ++root.sequence;
    root.crc = root.checksum();
    std::memcpy(head.data() + kRootOffset[root.sequence % 2], &root, root.bytes());
  }
  return head;
}

Status Pool::check(std::string const& path) {
  auto header = header_in(path, base());
  if (!header) return header.status();
  header_ = *header;
  auto root = root_in(path, base(), header_, bytes());
  if (!root) return root.status();
  root_ = *root;
  in_use_.assign(bytes() / superblock_bytes(), false);
  used_ = 0;
  mark(0, true);
  mapping_.limit(header_.max_bytes);
  return {};
}

Result<PoolHeader> Pool::header_in(std::string const& path, std::byte const* head) {
  PoolHeader h;
  read_bytes(&h, head + kHeaderOffset, sizeof h);
  if (h.magic != kPoolMagic) return not_a_pool(path);
  if (h.format_version != kFormatVersion) return other_version(path, h);
  if (h.crc != checksum(h)) return corrupt(path, "the header's checksum does not match");
  if (h.hash_id != kHashId)
    return corrupt(
        path, "keys are placed by hash " + std::to_string(h.hash_id) + ", which this build lacks");
  bool const sane = h.superblock_bytes >= kLeastSuperblock &&
                    h.superblock_bytes <= kMaxSuperblock &&
                    (h.superblock_bytes & (h.superblock_bytes - 1)) == 0 && h.levels >= 1 &&
                    h.hashes >= 1 && h.slots >= 1 && h.levels * h.hashes * h.slots <= 32 &&
                    (h.slots & (h.slots - 1)) == 0 && h.index <= 3 && h.max_key_bytes >= 1 &&
                    h.layout <= 2 && (h.key_bytes == 0 || h.key_bytes == h.max_key_bytes) &&
                    (h.value_bytes == 0 || h.value_bytes == h.max_value_bytes) &&
                    std::uint64_t{h.max_key_bytes} + h.max_value_bytes <= h.superblock_bytes / 4;
  if (!sane || !has_sane_type(h) || !has_sane_order(h) || !has_sane_persistence(h))
    return corrupt(path, "the header describes an impossible pool");
  return h;
}

Result<Root> Pool::root_in(std::string const& path, std::byte const* head, PoolHeader const& header,
                           std::uint64_t bytes) {
  std::optional<Root> const newest = newest_root(head);
  if (!newest) return corrupt(path, "neither copy of the root has a valid checksum");
  Root const& root = *newest;
  std::uint64_t const held = bytes / header.superblock_bytes;
  if (root.superblocks == 0 || root.superblocks > held) {
    return corrupt(path, "truncated: the file has " + std::to_string(bytes) +
                             " bytes, the root counts on " +
                             std::to_string(root.superblocks * header.superblock_bytes));
  }
  if (std::string const fault = names_fault(root); !fault.empty()) return corrupt(path, fault);
  return root;
}

void Pool::publish_root(Root next) {
  PERDURE_ASSERT(next.superblocks > 0 && next.superblocks * superblock_bytes() <= bytes());
  PERDURE_ASSERT(next.superblocks >= root_.superblocks);  // a pool never shrinks
  if (!mutated("no_order_before_root")) order();
  // Into both copies, one after the other: a crash spoils one at most, and afterwards neither is
  // out of date, so that a bit lost in one later brings no old entries back.
  for (int copy = mutated("root_in_one_copy") ? 1 : 0; copy < 2; ++copy) {
    next.sequence = root_.sequence + 1;
    write_root(base() + kRootOffset[mutated("root_in_same_place") ? 0 : next.sequence % 2], next);
    if (copy == 0 ? !mutated("no_order_between_roots")
                  : !mutated("order_after_second_root_skipped"))
      order();
    root_ = next;
  }
}

/// As the root that is published next, in two copies, is to have it.
ClosingNote Pool::for_next_root(ClosingNote note) const {
  note.magic = kClosingMagic;
  note.sequence = root_.sequence + 2;
  note.crc = checksum(note);
  return note;
}

// Before the root, which orders it: while the root does not say `clean`, nobody looks at the note.
void Pool::publish_clean(std::optional<ClosingNote> note) {
  if (note) {
    ClosingNote const noted = for_next_root(*note);
    write_bytes(base() + kClosingNoteOffset, &noted, sizeof noted);
  }
  Root root = root_;
  root.clean = 1;
  publish_root(root);
  PERDURE_ASSERT(root_.clean == 1);
}

std::uint64_t Pool::noted_lsn(int fd) {
  ClosingNote note{};
  auto const n = ::pread(fd, &note, sizeof note, static_cast<off_t>(kClosingNoteOffset));
  bool const whole = n == sizeof note && note.magic == kClosingMagic && note.crc == checksum(note);
  std::uint64_t word = 0;
  if (::pread(fd, &word, sizeof word, static_cast<off_t>(kLogWordOffset)) != sizeof word) word = 0;
  return std::max(whole ? note.log_lsn : 0, lsn_of_log_word(word));
}

Result<std::optional<ClosingNote>> Pool::closing_note_in(std::byte const* head, Root const& root) {
  ClosingNote note;
  read_bytes(&note, head + kClosingNoteOffset, sizeof note);
  ClosingNote const none{};
  if (std::memcmp(&note, &none, sizeof note) == 0) return std::optional<ClosingNote>{};
  if (note.crc != checksum(note) || note.magic != kClosingMagic)
    return Status{Code::corrupt, "the note of its last close, at byte " +
                                     std::to_string(kClosingNoteOffset) + ", is damaged"};
  bool const ours = note.sequence == root.sequence || note.sequence == root.sequence + 1;
  return ours ? std::optional(note) : std::nullopt;
}

void Pool::find_owners() {
  if (find_owners_.empty()) return;
  auto owners = std::exchange(find_owners_, {});
  try {
    for (auto const& find : owners)
      if (!mutated("owners_forgotten")) find();
  } catch (...) {  // what nobody has claimed yet is not free for that
    find_owners_ = std::move(owners);
    throw;
  }
}

std::uint64_t Pool::superblocks_in_use() {
  find_owners();
  PERDURE_ASSERT(!kCostlyAssertions ||
                 used_ == static_cast<std::uint64_t>(std::ranges::count(in_use_, true)));
  return used_;
}

void Pool::mark(std::uint64_t superblock, bool in_use) {
  if (in_use_[superblock] == in_use) return;
  in_use_[superblock] = in_use;
  in_use ? ++used_ : --used_;
}

/// By an eighth, so that steady inserts grow the file a logarithmic number of times; by what is
/// missing at least.
Status Pool::grow(std::uint64_t missing) {
  std::uint64_t const least = (in_use_.size() + missing) * superblock_bytes();
  std::uint64_t const eager = (in_use_.size() + in_use_.size() / 8) * superblock_bytes();
  if (Status s = mapping_.grow(least, eager); !s.ok()) return s;
  PERDURE_ASSERT(mapping_.size() >= least);
  prepares_ |= mapping_.size() >= std::max(least, eager);
  in_use_.resize(mapping_.size() / superblock_bytes(), false);
  return {};
}

/// While less than an eighth is free, the next eighth is prepared: as much as a growth would add,
/// so that a pool which is filled steadily finds it ready. Up to a size at which no single batch is
/// likely to need more, and not in small pools, which grow sooner than a thread begins.
void Pool::prepare_growth() {
  constexpr std::uint64_t kLeast = 8u << 20;
  constexpr std::uint64_t kMost = std::uint64_t{8} << 30;
  std::uint64_t const eighth = std::min(superblocks() / 8, kMost / superblock_bytes());
  if (!prepares_ || eighth * superblock_bytes() < kLeast || superblocks() - used_ >= eighth) return;
  prepares_ = mapping_.prepare(eighth * superblock_bytes(), superblock_bytes());
}

Result<Offset> Pool::take_run(std::uint64_t superblocks) {
  PERDURE_ASSERT(superblocks > 0);
  find_owners();
  std::uint64_t run = 0;
  std::uint64_t at = first_free_;
  for (; at < in_use_.size() && run < superblocks; ++at) run = in_use_[at] ? 0 : run + 1;
  if (run < superblocks) {
    std::uint64_t const missing = superblocks - run;
    if (Status s = grow(missing); !s.ok()) return s;
    at += missing;
  }
  if (at > root_.superblocks) {  // it grew; or a process that was killed had made the file longer
    Root next = root_;
    next.superblocks = in_use_.size();
    publish_root(next);
  }
  std::uint64_t const first = at - superblocks;
  PERDURE_ASSERT(first > 0 &&
                 at <= in_use_.size());  // the first superblock holds the pool's own head
  PERDURE_ASSERT(!kCostlyAssertions ||
                 is_free_run(Offset{first * superblock_bytes()}, superblocks));
  for (std::uint64_t i = first; i < at; ++i) mark(i, true);
  while (first_free_ < in_use_.size() && in_use_[first_free_]) ++first_free_;
  prepare_growth();
  return Offset{first * superblock_bytes()};
}

void Pool::give_run(Offset first, std::uint64_t superblocks) {
  find_owners();
  std::uint64_t const begin = first.bytes / superblock_bytes();
  PERDURE_ASSERT(first.bytes % superblock_bytes() == 0 && begin > 0);
  PERDURE_ASSERT(begin + superblocks <= in_use_.size());
  for (std::uint64_t i = begin; i < begin + superblocks; ++i) mark(i, false);
  first_free_ = std::min(first_free_, begin);
  PERDURE_ASSERT(first_free_ > 0);
}

void Pool::claim_run(Offset first, std::uint64_t superblocks) {
  std::uint64_t const begin = first.bytes / superblock_bytes();
  PERDURE_ASSERT(first.bytes % superblock_bytes() == 0 && begin > 0);
  PERDURE_ASSERT(begin + superblocks <= in_use_.size());
  for (std::uint64_t i = begin; i < begin + superblocks; ++i) mark(i, true);
  while (first_free_ < in_use_.size() && in_use_[first_free_]) ++first_free_;
}

bool Pool::is_free_run(Offset first, std::uint64_t superblocks) const {
  std::uint64_t const begin = first.bytes / superblock_bytes();
  if (first.bytes % superblock_bytes() != 0 || begin >= in_use_.size() ||
      superblocks > in_use_.size() - begin)
    return false;
  for (std::uint64_t i = begin; i < begin + superblocks; ++i) {
    if (in_use_[i]) return false;
  }
  return true;
}

}  // namespace perdure::pm
