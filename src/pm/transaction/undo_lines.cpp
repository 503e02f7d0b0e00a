#include "pm/transaction/undo_lines.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"

namespace perdure::pm {
namespace {

std::uint32_t sum_of(UndoLine const& entry, std::uint64_t transaction) {
  std::array<std::uint64_t, 2 + kCacheLine / 8> bytes;
  bytes[0] = transaction;
  bytes[1] = entry.line;
  std::ranges::copy(entry.old, bytes.begin() + 2);
  return crc32c(0, bytes.data(), sizeof bytes);
}

std::uint32_t sum_of(UndoRoomHeader header) {
  header.next = 0;
  return checksum(header);
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
    zero_bytes(at + kFirstChunk + i * kChunkBytes, sizeof(UndoLine));
  zero_bytes(at + kUndoState, kCacheLine);
  UndoRoomHeader header{};
  header.magic = kUndoMagic;
  header.chunk_bytes = static_cast<std::uint32_t>(kChunkBytes);
  header.crc = sum_of(header);
  write_bytes(at, &header, sizeof header);
  order();
  if (!superblocks_.empty()) {
    auto* const last = base_ + superblocks_.back() + offsetof(UndoRoomHeader, next);
    store_word(reinterpret_cast<std::uint64_t*>(last), run->bytes);
    order();
  }
  superblocks_.push_back(run->bytes);
  return {};
}

Status UndoLines::attach() {
  RootEntry const* const named = pool_->root().find(kUndoLines);
  PERDURE_ASSERT(superblocks_.empty());
  for (std::uint64_t at = named != nullptr ? named->offset : 0; at != 0;) {
    UndoRoomHeader header{};
    bool const possible = pool_->is_free_run(Offset{at}, 1);
    if (possible) read_bytes(&header, base_ + at, sizeof header);
    if (!possible || header.magic != kUndoMagic || header.crc != sum_of(header) ||
        header.chunk_bytes != kChunkBytes)
      return {Code::corrupt, "its undo log is damaged at byte " + std::to_string(at)};
    pool_->claim_run(Offset{at}, 1);
    superblocks_.push_back(at);
    at = header.next;
  }
  if (superblocks_.empty()) return {Code::corrupt, "its root names no undo log"};
  return {};
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

bool UndoLines::read_live(std::byte const* at, std::uint64_t transaction, UndoLine& entry) const {
  read_bytes(&entry, at, sizeof entry);
  return entry.transaction == static_cast<std::uint32_t>(transaction) &&
         (entry.crc == sum_of(entry, transaction) || mutated("undo_line_check_ignored"));
}

Status UndoLines::undo_chunk(std::byte const* at, std::uint64_t transaction, std::uint64_t& lines) {
  UndoLine entry;
  for (std::uint64_t i = 0; i < kChunkEntries; ++i) {
    if (!read_live(at + i * sizeof entry, transaction, entry)) return {};
    if (entry.line % kCacheLine != 0 || entry.line < kHeadBytes ||
        entry.line + kCacheLine > pool_->bytes())
      return {Code::corrupt,
              "its undo log names byte " + std::to_string(entry.line) + ", which is none of it"};
    write_bytes(base_ + entry.line, entry.old.data(), kCacheLine);
    ++lines;
  }
  return {};
}

Result<std::uint64_t> UndoLines::undo() {
  std::uint64_t const transaction = ended() + 1;
  std::uint64_t lines = 0;
  for (std::uint64_t i = 0; i < superblocks_.size() * chunks_each(); ++i)
    if (Status s = undo_chunk(chunk(i), transaction, lines); !s.ok()) return s;
  if (!mutated("no_order_after_undone_lines")) order();
  end(transaction);
  return lines;
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

UndoLine UndoLines::entry_of(std::uint64_t line) const {
  UndoLine entry{line, static_cast<std::uint32_t>(open_), 0, {}};
  will_read(base_ + line, kCacheLine);
  auto const* const words = reinterpret_cast<std::uint64_t const*>(base_ + line);
  for (std::size_t i = 0; i < entry.old.size(); ++i)
    entry.old[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);  // locks may change beside it
  entry.crc = sum_of(entry, open_);
  return entry;
}

}  // namespace perdure::pm
