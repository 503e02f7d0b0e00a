// A disk in memory that misbehaves as disks may: it completes requests in any order and in short
// pieces, and keeps what was written without a sync in a cache that a power cut loses by 512-byte
// sectors, in any subset. Failures are planned by call number. Everything follows from one seed.
#pragma once

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "wal/disk/block_device.hpp"

namespace perdure::wal::test {

inline constexpr std::uint64_t kSector = 512;

enum class Asked : std::uint8_t { read, write, write_durably, sync };

/// What outlives a power cut, and the cache before it; shared by the devices that open it one after
/// another.
class FaultyDisk {
 public:
  explicit FaultyDisk(std::uint64_t seed = 1) : random(seed) {}

  /// The power fails: of each write that was not durable, any sectors may have reached the medium.
  void cut_power() {
    std::lock_guard const lock(mutex);
    for (auto& w : volatile_writes) put_some(w);
    volatile_writes.clear();
    cache = medium;
    dead = true;
    ++cuts;
    changed.notify_all();
  }
  /// The process is killed: what it wrote is there to be read, of the last write perhaps its first
  /// part alone, and what was not durable may still be lost at a power cut.
  void kill() {
    std::lock_guard const lock(mutex);
    if (!volatile_writes.empty()) {
      auto& last = volatile_writes.back().bytes;
      last.resize(random() % 2 == 0 ? last.size()
                                    : random() % (last.size() / kSector + 1) * kSector);
    }
    for (Write const& w : volatile_writes) {
      if (cache.size() < w.offset + w.bytes.size()) cache.resize(w.offset + w.bytes.size());
      std::memcpy(cache.data() + w.offset, w.bytes.data(), w.bytes.size());
    }
    dead = true;
    ++cuts;
    changed.notify_all();
  }
  void sync_all() {
    std::lock_guard const lock(mutex);
    for (auto const& w : volatile_writes) put(w.offset, w.bytes.data(), w.bytes.size());
    volatile_writes.clear();
  }
  /// Completes nothing from here on but `passing` requests, the first begun first; or goes on.
  void hold_back(bool whether, std::uint64_t passing = 0) {
    std::lock_guard const lock(mutex);
    hold = whether;
    passes = passing;
    changed.notify_all();
  }
  /// What may complete has been handed over, and whoever took it has come back for more.
  [[nodiscard]] bool waited_in_vain() {
    std::lock_guard const lock(mutex);
    return hold && passes == 0 && waiting;
  }
  /// The power is back; open it anew.
  void restore() {
    std::lock_guard const lock(mutex);
    dead = hold = fail_sync = false;
    fail_write_at = fail_writes_until = passes = 0;
  }
  void flip(std::uint64_t byte, unsigned bit) {
    medium[byte] ^= static_cast<std::byte>(1u << bit);
    cache = medium;
  }
  void cut_off(std::uint64_t bytes) {
    medium.resize(bytes);
    cache = medium;
  }

  struct Write {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  void put(std::uint64_t offset, std::byte const* data, std::uint64_t bytes) {
    if (medium.size() < offset + bytes) medium.resize(offset + bytes);
    std::memcpy(medium.data() + offset, data, bytes);
  }

  /// All sectors, none, or any of them.
  void put_some(Write const& w) {
    std::uint64_t const fate = random() % 4;
    for (std::uint64_t at = 0; at < w.bytes.size(); at += kSector) {
      bool const there = fate == 0 || (fate > 1 && (random() & 1) != 0);
      if (there) put(w.offset + at, w.bytes.data() + at, std::min(kSector, w.bytes.size() - at));
    }
  }

  std::mutex mutex;  // guards the rest while a device is open
  std::vector<std::byte> medium;
  std::vector<std::byte> cache;  // as reads see it
  std::vector<Write> volatile_writes;  // in the cache, or under way
  std::mt19937_64 random;
  // Plans.
  std::uint64_t writes = 0;  // begun so far
  std::uint64_t fail_write_at = 0;  // this write and ...
  std::uint64_t fail_writes_until = 0;  // ... those before this number end with fail_errno
  int fail_errno = EIO;
  bool fail_sync = false;
  bool short_writes = false;
  std::uint64_t waits = 0;  // so far
  std::uint64_t fail_wait_at = 0;  // this one and ...
  std::uint64_t fail_waits = 0;  // ... so many in all end with ENOMEM, and hand nothing over
  std::uint64_t starts = 0;  // so far
  // from this one on the device takes no request (EBUSY) ...
  std::uint64_t refuse_starts_from = ~std::uint64_t{0};
  std::uint64_t refuse_starts_until = ~std::uint64_t{0};  // ... before this one
  std::uint64_t under_way = 0;  // requests whose memory is the disk's
  /// Hears of each request (`grows`: it makes the file longer), and says with which errno it ends;
  /// 0 = it does not fail. It may cut the power.
  std::function<int(Asked, std::uint64_t offset, std::uint64_t bytes, bool grows)> asked;
  std::condition_variable changed;
  std::uint64_t cuts = 0;  // a device that was open at one stays useless
  bool dead = false;  // every request fails, and leaves nothing
  bool hold = false;  // completes nothing: what is begun stays under way ...
  std::uint64_t passes = 0;  // ... but so many of the first begun
  bool waiting = false;  // a device's owner, for a completion
};

class FaultyDevice final : public BlockDevice {
 public:
  /// `lock` goes with the device: whoever else may not open the file meanwhile sees by it that it
  /// is open.
  explicit FaultyDevice(std::shared_ptr<FaultyDisk> disk, std::shared_ptr<void> lock = {})
      : disk_(std::move(disk)), lock_(std::move(lock)), cuts_(disk_->cuts) {}

  int start(Request const& r) override {
    Begun b{r, 0, 0};
    bool grows = false;
    {
      std::lock_guard const lock(disk_->mutex);
      ++disk_->starts;
      if (disk_->starts >= disk_->refuse_starts_from && disk_->starts < disk_->refuse_starts_until)
        return EBUSY;
      grows = r.verb != Verb::read && r.offset + r.bytes > disk_->cache.size();
      if (r.verb != Verb::read) b.number = ++disk_->writes;
      if (r.verb != Verb::read && !gone())
        disk_->volatile_writes.push_back({r.offset, {r.data, r.data + r.bytes}});
    }
    if (disk_->asked) {
      Asked const what = r.verb == Verb::read    ? Asked::read
                         : r.verb == Verb::write ? Asked::write
                                                 : Asked::write_durably;
      b.fails = disk_->asked(what, r.offset, r.bytes, grows);
    }
    {
      std::lock_guard const lock(disk_->mutex);
      begun_.push_back(b);
      ++disk_->under_way;
    }
    disk_->changed.notify_all();
    return 0;
  }

  int wait(std::vector<Completion>& done) override {
    std::unique_lock lock(disk_->mutex);
    disk_->waiting = true;
    disk_->changed.wait(lock, [&] { return woken_ || may_complete(); });
    disk_->waiting = false;
    ++disk_->waits;
    if (disk_->waits >= disk_->fail_wait_at &&
        disk_->waits < disk_->fail_wait_at + disk_->fail_waits)
      return ENOMEM;
    woken_ = false;
    if (!may_complete()) return 0;
    bool const passing = disk_->hold && !gone();
    if (passing) --disk_->passes;
    std::size_t const some = passing ? 1 : 1 + disk_->random() % begun_.size();
    for (std::size_t i = 0; i < some; ++i) {
      std::size_t const which = passing ? 0 : disk_->random() % begun_.size();
      Begun const b = begun_[which];
      begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(which));
      --disk_->under_way;
      done.push_back({b.request.tag, finish(b)});
    }
    return 0;
  }

  void wake() override {
    {
      std::lock_guard const lock(disk_->mutex);
      woken_ = true;
    }
    disk_->changed.notify_all();
  }

  int sync() override {
    int const fails = disk_->asked ? disk_->asked(Asked::sync, 0, 0, false) : 0;
    if (fails != 0) return fails;
    std::lock_guard const lock(disk_->mutex);
    if (disk_->fail_sync || gone()) return EIO;
    for (auto const& w : disk_->volatile_writes)
      disk_->put(w.offset, w.bytes.data(), w.bytes.size());
    disk_->volatile_writes.clear();
    return 0;
  }

  void register_buffer(std::span<std::byte> /*buffer*/) override {}
  [[nodiscard]] std::uint64_t bytes() const override {
    std::lock_guard const lock(disk_->mutex);
    return disk_->cache.size();
  }
  [[nodiscard]] IoMethod const& method() const override { return method_; }

 private:
  struct Begun {
    Request request;
    std::uint64_t number;  // of the write
    int fails;  // errno that it ends with
  };

  [[nodiscard]] bool gone() const { return disk_->dead || cuts_ != disk_->cuts; }
  [[nodiscard]] bool may_complete() const {
    return !begun_.empty() && (!disk_->hold || disk_->passes > 0 || gone());
  }

  std::int64_t finish(Begun const& b) {
    Request const& r = b.request;
    FaultyDisk& d = *disk_;
    if (gone()) return -EIO;
    if (b.fails != 0) {
      if (r.verb != Verb::read) fail(r);
      return -b.fails;
    }
    if (r.verb == Verb::read) {
      if (r.offset >= d.cache.size()) return 0;
      std::uint64_t const n = std::min<std::uint64_t>(r.bytes, d.cache.size() - r.offset);
      std::memcpy(r.data, d.cache.data() + r.offset, n);
      return static_cast<std::int64_t>(n);
    }
    if (b.number >= d.fail_write_at && b.number < d.fail_writes_until) {
      fail(r);
      return -d.fail_errno;
    }
    std::uint64_t n = r.bytes;
    if (d.short_writes && n > kSector) n = kSector * (1 + d.random() % (n / kSector));
    if (d.cache.size() < r.offset + n) d.cache.resize(r.offset + n);
    std::memcpy(d.cache.data() + r.offset, r.data, n);
    forget(r, r.verb == Verb::write_durably ? n : 0);
    if (r.verb == Verb::write_durably) put_durably(r, n);
    return static_cast<std::int64_t>(n);
  }

  /// A write that ends with an error has left any of its sectors behind.
  void fail(Request const& r) {
    disk_->put_some({r.offset, {r.data, r.data + r.bytes}});
    forget(r, r.bytes);
    if (disk_->volatile_writes.empty()) disk_->cache = disk_->medium;
  }

  /// What was written to the same place before, and is not durable, cannot come after it.
  void put_durably(Request const& r, std::uint64_t bytes) {
    disk_->put(r.offset, r.data, bytes);
    for (auto& w : disk_->volatile_writes) {
      std::uint64_t const from = std::max(w.offset, r.offset),
                          to = std::min(w.offset + w.bytes.size(), r.offset + bytes);
      if (from < to)
        std::memcpy(w.bytes.data() + (from - w.offset), r.data + (from - r.offset), to - from);
    }
  }

  /// The first `durable` bytes of this write are no longer at risk.
  void forget(Request const& r, std::uint64_t durable) {
    if (durable == 0) return;
    auto& all = disk_->volatile_writes;
    for (auto w = all.begin(); w != all.end(); ++w) {
      if (w->offset != r.offset || w->bytes.size() != r.bytes) continue;
      all.erase(w);
      return;
    }
  }

  std::shared_ptr<FaultyDisk> disk_;
  std::shared_ptr<void> lock_;
  std::uint64_t const cuts_;
  std::vector<Begun> begun_;
  bool woken_ = false;
  IoMethod method_{false, false, false, "a disk in memory"};
};

inline std::unique_ptr<BlockDevice> open(std::shared_ptr<FaultyDisk> const& disk) {
  return std::make_unique<FaultyDevice>(disk);
}

}  // namespace perdure::wal::test
