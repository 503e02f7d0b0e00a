#include "pm/transaction/undo_lines.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"

namespace perdure::pm {
namespace {

std::uint32_t sum_of(UndoEntry const& entry, std::uint64_t transaction) {
  return crc32c(crc32c(0, &transaction, sizeof transaction), entry.pieces.data(),
                sizeof entry.pieces);
}

std::uint32_t sum_of(UndoRoomHeader header) {
  header.next = 0;
  return checksum(header);
}

/// What each header says.
UndoRoomHeader header_with(std::uint64_t next) {
  UndoRoomHeader header{};
  header.magic = kUndoMagic;
  header.chunk_bytes = static_cast<std::uint32_t>(kChunkBytes);
  header.crc = sum_of(header);
  header.next = next;
  return header;
}

constexpr unsigned kMostFlips = 8;  // bits of a header, all of which is known

/// Bits that differ from what a header says.
unsigned flips(UndoRoomHeader const& header) {
  UndoRoomHeader const whole = header_with(header.next);
  std::array<std::uint64_t, sizeof header / 8> is{}, should{};
  std::memcpy(is.data(), &header, sizeof header);
  std::memcpy(should.data(), &whole, sizeof whole);
  unsigned n = 0;
  for (std::size_t i = 0; i < is.size(); ++i)
    n += static_cast<unsigned>(std::popcount(is[i] ^ should[i]));
  return n;
}

std::string name_of(std::uint64_t at) {
  return "the header of the undo log at byte " + std::to_string(at);
}

}  // namespace

UndoLines::UndoLines(Pool& pool, Mutex& memory)
    : pool_(&pool),
      memory_(&memory),
      base_(pool.base()),
      range_(pool.addresses()),
      stamps_(pool.addresses().size()) {}

Status UndoLines::create() {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(superblocks_.empty() && !is_in(*pool_));
  if (Status s = add_superblock(); !s.ok()) return s;
  MutexLock const pool_lock(*memory_);
  Root root = pool_->root();
  root.set(kUndoLines, superblocks_.front(), 0);
  pool_->publish_root(root);
  return {};
}

Status UndoLines::add_superblock() {
  Result<Offset> run = [&] {
    MutexLock const pool_lock(*memory_);
    return pool_->take_run(1);
  }();
  if (!run) return run.status();
  std::byte* const at = base_ + run->bytes;
  for (std::uint64_t i = 0; i < chunks_each(); ++i)  // of whatever use before
    zero_bytes(at + kFirstChunk + i * kChunkBytes, sizeof(UndoEntry));
  zero_bytes(at + kUndoState, kCacheLine);
  UndoRoomHeader const header = header_with(0);
  write_bytes(at, &header, sizeof header);
  order();
  if (!superblocks_.empty()) store_next(superblocks_.back(), run->bytes);
  keep_superblock(run->bytes);
  return {};
}

void UndoLines::keep_superblock(std::uint64_t at) {
  if (superblocks_.empty()) state_ = reinterpret_cast<std::uint64_t*>(base_ + at + kUndoState);
  superblocks_.push_back(at);
}

Status UndoLines::attach() {
  RootEntry const* const named = pool_->root().find(kUndoLines);
  PERDURE_ASSERT(superblocks_.empty());
  for (std::uint64_t at = named != nullptr ? named->offset : 0; at != 0;) {
    if (!pool_->is_free_run(Offset{at}, 1) || flips(header_at(at)) != 0)
      return {Code::corrupt, "its undo log is damaged at byte " + std::to_string(at)};
    pool_->claim_run(Offset{at}, 1);
    keep_superblock(at);
    at = header_at(at).next;
  }
  if (superblocks_.empty()) return {Code::corrupt, "its root names no undo log"};
  return {};
}

UndoRoomHeader UndoLines::header_at(std::uint64_t at) const {
  UndoRoomHeader header;
  read_bytes(&header, base_ + at, sizeof header);
  return header;
}

void UndoLines::store_next(std::uint64_t at, std::uint64_t next) {
  std::byte* const link = base_ + at + offsetof(UndoRoomHeader, next);
  store_word(reinterpret_cast<std::uint64_t*>(link), next);
  order();
}

bool UndoLines::may_follow(std::uint64_t at, std::vector<std::uint64_t> const& chain) const {
  return at != 0 && pool_->is_free_run(Offset{at}, 1) &&
         std::ranges::find(chain, at) == chain.end() && flips(header_at(at)) <= kMostFlips;
}

/// Entries say by themselves of which transaction they are, so a superblock too many does no harm.
std::vector<std::string> UndoLines::mend() {
  std::vector<std::string> mended;
  RootEntry const* const named = pool_->root().find(kUndoLines);
  if (named == nullptr || !pool_->is_free_run(Offset{named->offset}, 1)) return mended;
  std::vector<std::uint64_t> chain{named->offset};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    std::uint64_t const at = chain[i];
    UndoRoomHeader const found = header_at(at);
    if (flips(found) != 0) {
      UndoRoomHeader const whole = header_with(found.next);
      write_bytes(base_ + at, &whole, sizeof whole);
      order();
      mended.push_back(name_of(at) + ": put right, nothing is lost");
    }
    if (found.next == 0) continue;
    if (may_follow(found.next, chain)) {
      chain.push_back(found.next);
      continue;
    }
    store_next(at, 0);
    mended.push_back(name_of(at) + " led nowhere: what followed it is looked for");
  }
  if (mended.empty()) return mended;
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    std::uint64_t const at = i * pool_->superblock_bytes();
    if (!may_follow(at, chain) || flips(header_at(at)) != 0) continue;
    store_next(at, 0);
    store_next(chain.back(), at);
    chain.push_back(at);
    mended.push_back(name_of(at) + ": found again");
  }
  return mended;
}

/// Nobody is in a transaction. What a crash leaves in between is a superblock that nobody has.
void UndoLines::shrink() {
  MutexLock const lock(mutex_);
  if (superblocks_.size() <= kMostKept) return;
  store_next(superblocks_[kMostKept - 1], 0);
  MutexLock const pool_lock(*memory_);
  for (std::size_t i = kMostKept; i < superblocks_.size(); ++i)
    pool_->give_run(Offset{superblocks_[i]}, 1);
  superblocks_.resize(kMostKept);
}

std::byte* UndoLines::chunk(std::uint64_t number) const {
  return base_ + superblocks_[number / chunks_each()] + kFirstChunk +
         number % chunks_each() * kChunkBytes;
}

std::uint64_t UndoLines::ended() const { return load_word(base_ + kEpochOffset); }

void UndoLines::end(std::uint64_t transaction) {
  store_word(reinterpret_cast<std::uint64_t*>(base_ + kEpochOffset), transaction);
  order();
  open_ = 0;
  MutexLock const lock(mutex_);
  next_chunk_ = 0;
  cursors_.clear();
}

void UndoLines::commit() {
  PERDURE_ASSERT(open_ == ended() + 1);
  if (!mutated("undo_commit_not_ordered")) order();
  end(open_);
}

bool UndoLines::read_live(std::byte const* at, std::uint64_t transaction, UndoEntry& entry) const {
  read_bytes(&entry, at, sizeof entry);
  return entry.transaction == static_cast<std::uint32_t>(transaction) &&
         (entry.crc == sum_of(entry, transaction) || mutated("undo_line_check_ignored"));
}

Status UndoLines::undo_entry(UndoEntry const& entry, std::uint64_t& pieces) {
  auto const* at = entry.pieces.data();
  auto const* const end = at + UndoEntry::kRoom;
  while (at != end && *at != 0) {
    UndoPiece const piece = UndoPiece::of(*at++);
    bool const possible = piece.line % kCacheLine == 0 && piece.line >= kHeadBytes &&
                          piece.line + kCacheLine <= pool_->bytes() && piece.words != 0 &&
                          piece.count() <= static_cast<std::size_t>(end - at);
    if (!possible)
      return {Code::corrupt,
              "its undo log names byte " + std::to_string(piece.line) + ", which is none of it"};
    auto* const line = reinterpret_cast<std::uint64_t*>(base_ + piece.line);
    for (unsigned left = piece.words; left != 0; left &= left - 1)
      store_word(line + std::countr_zero(left), *at++);
    ++pieces;
    if (mutated("undo_first_piece_alone")) break;
  }
  return {};
}

Status UndoLines::undo_chunk(std::byte const* at, std::uint64_t transaction,
                             std::uint64_t& pieces) {
  UndoEntry entry;
  for (std::uint64_t i = 0; i < kChunkEntries; ++i) {
    if (!read_live(at + i * sizeof entry, transaction, entry)) return {};
    if (Status s = undo_entry(entry, pieces); !s.ok()) return s;
  }
  return {};
}

Result<std::uint64_t> UndoLines::undo() {
  std::uint64_t const transaction = ended() + 1;
  std::uint64_t pieces = 0;
  for (std::uint64_t i = 0; i < superblocks_.size() * chunks_each(); ++i)
    if (Status s = undo_chunk(chunk(i), transaction, pieces); !s.ok()) return s;
  if (!mutated("no_order_after_undone_lines")) order();
  end(transaction);
  shrink();
  return pieces;
}

UndoLines::Cursor UndoLines::take_cursor() {
  MutexLock const lock(mutex_);
  if (cursors_.empty()) return {};
  Cursor const cursor = cursors_.back();
  cursors_.pop_back();
  return cursor;
}

void UndoLines::give_cursor(Cursor cursor) {
  MutexLock const lock(mutex_);
  if (cursors_.size() < cursors_.capacity()) cursors_.push_back(cursor);  // else its rest is idle
}

UndoLines::Cursor UndoLines::next_chunk() {
  MutexLock const lock(mutex_);
  cursors_.reserve(next_chunk_ + 1);  // so that giving one back needs no memory
  if (next_chunk_ == superblocks_.size() * chunks_each()) {
    if (Status const s = add_superblock(); !s.ok())
      throw NoRoom("the batch's undo log has no room: " + s.message());
  }
  std::byte* const at = chunk(next_chunk_++);
  return {at, at + kChunkBytes};
}

std::uint64_t* UndoLines::append_piece(std::uint64_t* at, UndoPiece const& piece) const {
  will_read(base_ + piece.line, kCacheLine);
  auto const* const words = reinterpret_cast<std::uint64_t const*>(base_ + piece.line);
  *at++ = piece.head();
  for (unsigned left = piece.words; left != 0; left &= left - 1)  // locks may change beside it
    *at++ = __atomic_load_n(&words[std::countr_zero(left)], __ATOMIC_RELAXED);
  return at;
}

void UndoLines::seal(UndoEntry& entry) const {
  entry.transaction = static_cast<std::uint32_t>(open_);
  entry.crc = sum_of(entry, open_);
}

}  // namespace perdure::pm
