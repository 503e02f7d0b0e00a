// What a store asks of its disk, and what waits for it, check by check. Each says what is wrong, if
// anything is, so that faults can be planted under it (disk_mutants_test.cpp). Include it in one
// source of a program.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <future>

#include "ends_soon.hpp"
#include "held_store.hpp"
#include "life_on_disk.hpp"
#include "log_on_disk.hpp"
#include "support/asleep.hpp"
#include "system_calls.hpp"
#include "wal/disk/ring_request.hpp"
#include "wal/log_dir.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure::wal::test {

using Wrong = std::optional<std::string>;

// Bytes of a log of 1 MiB that are in use then.
constexpr std::uint64_t kBeginsCheckpoint = (1u << 20) / 8 * 5;

/// While a batch's write is under way: neither its put nor a get of what it wrote returns, and a
/// get after a power cut in that moment would not have found it. Then both do.
inline Wrong a_batch_and_its_readers_wait() {
  HeldStore held;
  if (Status s = held.put(1, 10); !s.ok()) return s.message();
  held.hold(true);
  std::size_t const before = held.log_writes();
  auto put = held.aside([&] { return held.put(1, 11); });
  static_cast<void>(held.writes_to_log(before));
  auto get = held.aside([&] { return held.get(1); });
  static_cast<void>(ends_soon([&] { return has_ended(put) || has_ended(get); }));
  bool const put_early = has_ended(put), get_early = has_ended(get);
  held.hold(false);
  if (put_early) return "a put returns while its write is under way";
  if (get_early) return "a get returns what is not durable";
  if (!put.get().ok()) return "a put fails on a slow disk";
  if (get.get() != 11) return "a get beside a put returns something else";
  return std::nullopt;
}

inline Wrong a_commit_waits() {
  HeldStore held;
  held.hold(true);
  std::size_t const before = held.log_writes();
  auto commit = held.aside([&] { return held.commit(1, 11); });
  if (!held.writes_to_log(before)) return "a commit writes nothing to the log";
  bool const early = ends_soon([&] { return has_ended(commit); });
  held.hold(false);
  if (early) return "a commit returns while its write is under way";
  if (!commit.get().ok()) return "a commit fails on a slow disk";
  return std::nullopt;
}

inline Wrong a_snapshot_waits_for_the_log() {
  HeldStore held;
  held.hold(true);
  std::size_t const before = held.log_writes();
  auto put = held.aside([&] { return held.put(1, 11); });
  if (!held.writes_to_log(before)) return "a put writes nothing to the log";
  auto snapshot = held.aside([&] { return held.store().snapshot("/snapshot"); });
  bool const early =
      ends_soon([&] { return has_ended(snapshot) || held.asked(What::create, "snapshot") != 0; });
  held.hold(false);
  if (!put.get().ok() || !snapshot.get().ok()) return "a snapshot fails on a slow disk";
  return early ? Wrong("a snapshot is begun with a batch that is not durable") : std::nullopt;
}

inline Wrong a_checkpoint_waits_for_its_log() {
  HeldStore held;
  std::uint64_t batches = 0;
  while (held.store().stats().log.used_bytes <= kBeginsCheckpoint - (100u << 10)) {
    if (Status s = held.put(1, ++batches, 20); !s.ok()) return s.message();  // 44 KiB of log
  }
  std::size_t const images = held.image_writes();
  held.hold(true);
  std::size_t const before = held.log_writes();
  auto fills = held.aside([&] { return held.put(1, 1000, 60); });  // brings a checkpoint about
  if (!held.writes_to_log(before)) return "a put writes nothing to the log";
  auto copies = held.aside([&] { return held.put(1, 1001, 60); });  // goes on with it
  bool const early = ends_soon([&] { return held.image_writes() != images; });
  held.hold(false);
  if (!fills.get().ok() || !copies.get().ok()) return "a put fails on a slow disk";
  if (Status s = held.put(1, 1002, 20); !s.ok()) return s.message();
  if (held.image_writes() == images) return "no checkpoint came about";
  return early ? Wrong("an image is written of what is not durable in the log") : std::nullopt;
}

/// So many are waiting, each for another write, and one for what the first wrote.
inline Wrong a_failed_write_wakes(std::uint64_t waiting) {
  HeldStore held;
  if (Status s = held.put(1, 10); !s.ok()) return s.message();
  held.hold(true);
  held.disk().plan(Mishap::error, 1);
  std::size_t before = held.log_writes();
  std::vector<std::future<Status>> puts;
  std::atomic<pid_t> thread{0};
  for (std::uint64_t key = 1; key <= waiting; ++key) {
    thread = 0;
    puts.push_back(held.aside([&held, key] { return held.put(key, 11); }, &thread));
    if (!held.writes_to_log(before)) return "a put writes nothing to the log";
    perdure::test::until_asleep(thread);
    before = held.log_writes();
  }
  thread = 0;
  auto get = held.aside([&] { return held.get(1); }, &thread);
  perdure::test::until_asleep(thread);
  held.hold(false);
  for (auto& put : puts)
    if (put.wait_for(kLong) != std::future_status::ready)
      std::abort();  // a hung thread: nothing else ends this
  if (get.wait_for(kLong) != std::future_status::ready) std::abort();
  if (puts[0].get().ok()) return "a put whose write failed is acknowledged";
  if (held.put(5, 11).code() != Code::closed) return "a store whose log failed takes batches";
  return std::nullopt;
}

/// Where no other write is under way, nothing else wakes anybody.
inline Wrong a_failed_write_wakes_all_that_wait() {
  Wrong const alone = a_failed_write_wakes(1);
  return alone ? alone : a_failed_write_wakes(3);
}

/// All that a store writes to its log lasts when it is said to be done, and every name is made to
/// last at once.
inline Wrong requests_ask_for_durability() {
  HeldStore held;
  for (std::uint64_t key = 0; key < 30; ++key)  // more than half of the log
    if (Status s = held.put(key, key, 10); !s.ok()) return s.message();
  if (Status s = held.commit(3, 4); !s.ok()) return s.message();
  if (Status s = held.store().snapshot("/snapshot"); !s.ok()) return s.message();
  if (Status s = held.store().close(); !s.ok()) return s.message();
  auto const events = held.disk().events();
  bool log_made = false, image_dirty = false;
  for (std::size_t i = 0; i < events.size(); ++i) {
    auto const& e = events[i];
    bool const made = e.what == What::make_directory, kept = e.what == What::rename;
    // Files are kept together: the names of a log's are synced at once. Before that they have none
    // that counts.
    std::size_t next = i + 1;
    while (kept && next < events.size() && events[next].what == What::rename) ++next;
    if ((made || kept) && (next == events.size() || events[next].what != What::sync_directory ||
                           (made && events[next].name != e.name)))
      return "the directory of " + e.name + " is not synced when that is made";
    bool const image = e.name.starts_with("image") || e.name.starts_with("snapshot");
    if (image && e.what == What::write) image_dirty = true;
    if (image && e.what == What::sync) image_dirty = false;
    if (image && e.what == What::write_durably && e.offset == 0 && image_dirty)
      return "the header of " + e.name + " is written before what it stands for is synced";
    if (e.name == "checkpoint" && e.what == What::write_durably && image_dirty)
      return "the record of a checkpoint is written before its image is synced";
    if (e.name == "checkpoint" && e.what == What::write)
      return "the record of a checkpoint is not written durably";
    if (e.name != "redo.log") continue;
    if (e.what == What::sync) log_made = true;
    if (log_made && e.what == What::write)
      return "a write to the log is not durable when it is done";
  }
  return log_made ? std::nullopt : Wrong("the log's zeros are never synced");
}

/// After checkpoints and a power cut one image is damaged: the other one and the log still give
/// every batch back.
inline Wrong either_image_serves() {
  for (char const* const image : {"/log/image-a", "/log/image-b"}) {
    HeldStore held;
    std::uint64_t batch = 0;
    auto const put_next = [&](std::size_t values) {
      ++batch;
      return held.put(batch % 100, batch, values);
    };
    while (held.store().stats().log.checkpoints < 4)
      if (Status s = put_next(20); !s.ok()) return s.message();
    // As much more as brings no other checkpoint, which would write over one of them.
    while (held.store().stats().log.used_bytes <= kBeginsCheckpoint - (80u << 10))
      if (Status s = put_next(20); !s.ok()) return s.message();
    if (Status s = put_next(10); !s.ok()) return s.message();
    held.disk().cut_power();
    held.disk().file(image)->flip(kBlock + 100, 3);
    if (Status s = held.reopen(); !s.ok())
      return "with " + std::string(image) + " damaged: " + s.message();
    if (held.store().recovery().lost_acknowledged)
      return "acknowledged batches are lost with " + std::string(image);
    for (std::uint64_t i = 0; i < 10; ++i)  // the last batch
      if (held.get(batch % 100 + i) != batch) return "a batch is lost with " + std::string(image);
  }
  return std::nullopt;
}

/// A process is killed in the write of a batch. What the next opening finds of it, and shows, no
/// power cut takes.
inline Wrong a_batch_that_an_opening_shows_lasts() {
  HeldStore held;
  std::uint64_t shown = 0;
  for (std::uint64_t value = 1; value <= 24; ++value) {
    held.disk().plan(Mishap::kill, 1);
    if (held.put(1, value).ok()) return "a killed process has acknowledged a batch";
    if (Status s = held.reopen(); !s.ok()) return "after a kill: " + s.message();
    auto const before = held.get(1);
    shown += before == value ? 1 : 0;
    held.disk().cut_power();
    if (Status s = held.reopen(); !s.ok()) return "after a kill and a power cut: " + s.message();
    if (held.get(1) != before) return "what was shown is not there any more";
  }
  return shown > 4 && shown < 20 ? std::nullopt : Wrong("the kills are of one kind");
}

/// Of several groups under way at a power cut the first was lost and the second was not: what is
/// written in its place does not make that one count.
inline Wrong what_lies_beyond_a_lost_group_never_counts() {
  auto const disk = formatted(64u << 10);
  {
    auto log = start(disk);
    for (char const* const batch : {"lost", "beyond"}) commit(*log, batch);
  }
  std::fill_n(disk->medium.begin() + static_cast<std::ptrdiff_t>(kRingOffset), kBlock,
              std::byte{0});
  disk->cache = disk->medium;
  commit(*start(disk, replay_all(disk).report.end), "new");
  return replay_all(disk).batches == std::vector<Batch>{"new"}
             ? std::nullopt
             : Wrong("what was lost has come back");
}

/// Two bits of a group, which no syndrome tells from a torn write; the group after it was sealed
/// when it was durable.
inline Wrong damage_is_told_by_what_was_sealed_later() {
  auto const disk = formatted(64u << 10);
  {
    auto log = start(disk);
    for (char const* const batch : {"damaged", "later"}) commit(*log, batch);
  }
  disk->flip(kRingOffset + 100, 0);
  disk->flip(kRingOffset + 200, 3);
  return replay_all(disk).report.lost_acknowledged
             ? std::nullopt
             : Wrong("damage passes for a write that was cut off");
}

/// Both were under way at once, and the power failed: nothing was acknowledged of the first, which
/// is lost.
inline Wrong what_was_under_way_is_no_loss() {
  auto const disk = formatted(64u << 10);
  {
    auto log = start(disk);
    disk->hold_back(true);
    for (char const* const batch : {"lost", "there"})
      if (!append(*log, batch).ok()) return "a slow disk refuses a batch";
    disk->hold_back(false);
  }
  std::fill_n(disk->medium.begin() + static_cast<std::ptrdiff_t>(kRingOffset), kBlock,
              std::byte{0});
  disk->cache = disk->medium;
  auto const found = replay_all(disk).report;
  return found.lost_acknowledged
             ? Wrong("a write that was under way is said to be lost: " + found.describe())
             : std::nullopt;
}

/// The newer copy of the header is damaged: what was written since counts; and once it is cut off,
/// nothing of it does.
inline Wrong the_newest_epoch_needs_no_header() {
  for (bool const cut : {false, true}) {
    auto const disk = formatted(64u << 10);
    {
      auto log = start(disk);
      for (char const* const batch : {"one", "two", "three"}) commit(*log, batch);
    }
    disk->flip(kBlock * (read_identity(*file_on(disk))->epoch % 2) + 12, 1);
    if (!cut) {
      if (replay_all(disk).batches.size() != 3)
        return "what the damaged header's epoch wrote is lost";
      continue;
    }
    disk->flip(kRingOffset + kBlock + 100, 0);
    disk->flip(kRingOffset + kBlock + 200, 3);
    commit(*start(disk, replay_all(disk).report.end), "new");
    if (replay_all(disk).batches != std::vector<Batch>{"one", "new"})
      return "what was cut off has come back";
  }
  return std::nullopt;
}

/// Acknowledged batches are damaged. Wherever the power fails while a repair goes on without them,
/// either the next opening is refused, too, or verify tells of them.
inline Wrong a_loss_is_told_whenever_a_repair_ends() {
  bool ended = false;
  for (std::uint64_t at = 1; !ended; ++at) {
    HeldStore held;
    for (std::uint64_t key = 1; key < 4; ++key)
      if (Status s = held.put(key, 10); !s.ok()) return s.message();
    held.disk().cut_power();
    held.disk().file("/log/redo.log")->flip(kRingOffset + 100, 0);
    if (held.reopen().code() != Code::corrupt) return "a store that has lost batches opens";
    held.disk().plan(Mishap::power, at);
    Status const repaired = held.reopen(true);
    ended = !held.disk().happened();
    if (ended && !repaired.ok())
      return "no repair goes on without what is lost: " + repaired.message();
    held.disk().cut_power();
    Status const again = held.reopen();
    if (again.code() == Code::corrupt && !ended) continue;
    if (!again.ok()) return "after a repair: " + again.message();
    auto verified = held.store().verify();
    if (!verified.ok()) return verified.status().message();
    if (verified->fault_count == 0)
      return "after request " + std::to_string(at) + " nothing tells what is lost";
    if (!ended) continue;
    if (Status s = held.store().acknowledge_repair(); !s.ok()) return s.message();
    held.disk().cut_power();
    if (Status s = held.reopen(); !s.ok()) return "after it was acknowledged: " + s.message();
    if (held.store().verify()->fault_count != 0) return "what was acknowledged is a fault again";
  }
  return std::nullopt;
}

// ------------------------------------------------------------------------------------------------
// The system's own calls

/// The flags of an io_uring write, whether or not the kernel grants one.
inline Wrong io_uring_writes_ask_for_durability() {
  alignas(kBlock) static std::array<std::byte, kBlock> block;
  for (bool const fixed : {false, true}) {
    for (Verb const verb : {Verb::read, Verb::write, Verb::write_durably}) {
      io_uring_sqe sqe{};
      prepare(sqe, 7, {verb, 2 * kBlock, block.data(), kBlock, 42}, fixed);
      int const durable = verb == Verb::write_durably ? RWF_DSYNC : 0;
      if (sqe.rw_flags != durable) return "an io_uring request has the wrong flags";
      if (sqe.fd != 7 || sqe.off != 2 * kBlock || sqe.len != kBlock || sqe.user_data != 42)
        return "an io_uring request asks for something else";
    }
  }
  io_uring_sqe sqe{};
  prepare_sync(sqe, 7, 42);
  if (sqe.opcode != IORING_OP_FSYNC || sqe.fsync_flags != IORING_FSYNC_DATASYNC)
    return "an io_uring request that is to sync does not";
  if (sqe.fd != 7 || sqe.user_data != 42) return "an io_uring sync is of something else";
  return std::nullopt;
}

inline Wrong plain_writes_are_synced_and_say_so() {
  perdure::test::DiskDir const folder("plain-writes");
  std::filesystem::create_directory(folder.path);
  auto file = BlockFile::open(folder.file("file"), OpenMode::create, {.io_uring = false});
  auto block = AlignedBuffer::make(kBlock);
  if (!file || !block) return "no file to write to";
  system_calls.forget();
  if (Status s = (*file)->write_durably(0, block->span()); !s.ok()) return s.message();
  if (system_calls.data_syncs != 1) return "a durable write is not synced";
  if (Status s = (*file)->sync(); !s.ok()) return s.message();
  if (system_calls.data_syncs != 2) return "sync() syncs nothing";
  system_calls.data_sync_error = EIO;
  Wrong wrong;
  if ((*file)->write_durably(0, block->span()).code() != Code::io_error)
    wrong = "a durable write hides that it is not";
  if ((*file)->sync().code() != Code::io_error) wrong = "sync() hides its error";
  system_calls.forget();
  return wrong;
}

/// A log directory that was made, the files in it, and a snapshot have names that last.
inline Wrong directories_are_synced() {
  perdure::test::DiskDir const folder("names");
  std::filesystem::create_directory(folder.path);
  system_calls.forget();
  auto made = LogDir::create(folder.file("log"), PoolId{1}, 1u << 20, {});
  if (!made) return made.status().message();
  if (Status s = (*made)->keep(); !s.ok()) return s.message();
  if (!system_calls.has_synced(folder.path)) return "the name of a new log directory is not synced";
  if (!system_calls.has_synced(folder.file("log")))
    return "the names in a log directory are not synced";
  system_calls.forget();
  auto bytes = AlignedBuffer::make(kBlock);
  if (!bytes) return bytes.status().message();
  if (Status s = write_snapshot(folder.file("snapshot"), {}, {}, bytes->span(), {}); !s.ok())
    return s.message();
  if (!system_calls.has_synced(folder.path)) return "the name of a snapshot is not synced";
  return std::nullopt;
}

}  // namespace perdure::wal::test
