#include "explore/sim_disk.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/hash.hpp"
#include "explore/window.hpp"
#include "wal/disk/block_device.hpp"
#include "wal/disk/renaming_disk.hpp"

namespace perdure::explore {
namespace {

using wal::kBlock;
using What = DiskEvent::What;

constexpr std::uint64_t kSector = 512;
constexpr std::uint8_t kWaysOfHeldWrite = 3;
constexpr std::uint8_t kWaysOfWriteUnderWay = 8;

std::string directory_of(std::string const& path) { return path.substr(0, path.rfind('/')); }

bool changes_names(DiskEvent const& e) {
  return e.what == What::name || e.what == What::rename || e.what == What::remove;
}

/// Whether a sector arrives. The ways of a write: none, all, some, and of one under way some that a
/// disk may prefer.
bool arrives(std::uint8_t way, std::uint64_t sector, std::uint64_t sectors, std::uint64_t chance) {
  switch (way) {
    case 0: return false;
    case 1: return true;
    case 2:
      return (hash_bytes(reinterpret_cast<std::byte const*>(&chance), sizeof chance) +
              sector * 0x9e3779b97f4a7c15u) >>
                 63 !=
             0;
    case 3: return sector < sectors / 2;
    case 4: return sector >= sectors / 2;
    case 5: return sector == 0;
    case 6: return sector != 0;
    default: return sector + 1 != sectors;
  }
}

/// Some sectors of a write arrive.
void apply_some(DiskEvent const& e, std::uint8_t way, DiskImage& image) {
  if (way == 0) return;
  if (way == 1) return apply(e, image);
  auto& file = image.files[e.file];
  if (file.size() < e.first_block + e.blocks.size()) file.resize(e.first_block + e.blocks.size());
  std::uint64_t const a_block = kBlock / kSector, sectors = e.blocks.size() * a_block;
  std::uint64_t const chance = e.first_block + e.blocks[0].hash;
  for (std::uint64_t b = 0; b < e.blocks.size(); ++b) {
    std::array<std::byte, kBlock> bytes{};
    DiskBlock& old = file[e.first_block + b];
    if (old.bytes) std::memcpy(bytes.data(), old.bytes.get(), kBlock);
    for (std::uint64_t s = 0; s < a_block; ++s) {
      if (!arrives(way, b * a_block + s, sectors, chance)) continue;
      std::byte* const to = bytes.data() + s * kSector;
      e.blocks[b].bytes ? std::memcpy(to, e.blocks[b].bytes.get() + s * kSector, kSector)
                        : std::memset(to, 0, kSector);
    }
    old = make_block(bytes.data());
  }
}

/// A file of the run's disk. Requests are done when they are begun, so that a run does not depend
/// on the log's thread.
class SimFile final : public wal::BlockDevice {
 public:
  SimFile(DiskRun& run, std::uint32_t file) : run_(&run), file_(file) {}

  int start(wal::Request const& r) override {
    std::int64_t result = 0;
    {
      std::lock_guard const lock(run_->mutex);
      result = run_->dead ? -EIO : r.verb == wal::Verb::read ? read(r) : write(r);
    }
    {
      std::lock_guard const lock(mutex_);
      done_.push_back({r.tag, result});
    }
    changed_.notify_one();
    return 0;
  }

  int wait(std::vector<wal::Completion>& done) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return woken_ || !done_.empty(); });
    woken_ = false;
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
    return 0;
  }

  void wake() override {
    {
      std::lock_guard const lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  int sync() override {
    std::lock_guard const lock(run_->mutex);
    if (run_->dead) return EIO;
    run_->record({What::sync, file_});
    return 0;
  }

  void register_buffer(std::span<std::byte> /*buffer*/) override {}
  [[nodiscard]] std::uint64_t bytes() const override {
    std::lock_guard const lock(run_->mutex);
    return run_->now.files[file_].size() * kBlock;
  }
  [[nodiscard]] wal::IoMethod const& method() const override { return method_; }

 private:
  std::int64_t read(wal::Request const& r) const {
    auto const& blocks = run_->now.files[file_];
    std::uint64_t const first = r.offset / kBlock;
    if (first >= blocks.size()) return 0;
    std::uint64_t const count = std::min<std::uint64_t>(r.bytes / kBlock, blocks.size() - first);
    for (std::uint64_t b = 0; b < count; ++b) {
      std::byte* const to = r.data + b * kBlock;
      auto const& from = blocks[first + b].bytes;
      from ? std::memcpy(to, from.get(), kBlock) : std::memset(to, 0, kBlock);
    }
    return static_cast<std::int64_t>(count * kBlock);
  }

  std::int64_t write(wal::Request const& r) const {
    DiskEvent e{r.verb == wal::Verb::write ? What::write : What::write_durably, file_,
                r.offset / kBlock};
    auto const& old = run_->now.files[file_];
    for (std::uint64_t b = 0; b < r.bytes / kBlock; ++b) {
      std::uint64_t const at = e.first_block + b;
      // Most of an image is what it was before.
      bool const same = at < old.size() && old[at].bytes &&
                        std::memcmp(old[at].bytes.get(), r.data + b * kBlock, kBlock) == 0;
      e.blocks.push_back(same ? old[at] : make_block(r.data + b * kBlock));
    }
    run_->record(std::move(e));
    return static_cast<std::int64_t>(r.bytes);
  }

  DiskRun* run_;
  std::uint32_t file_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<wal::Completion> done_;
  bool woken_ = false;
  wal::IoMethod const method_{false, false, false, "a simulated disk"};
};

class SimDisk final : public wal::RenamingDisk {
 public:
  Result<std::unique_ptr<wal::BlockDevice>> open(std::string const& path, wal::OpenMode mode,
                                                 wal::IoOptions const&) override {
    DiskRun& run = *disk_run;
    std::lock_guard const lock(run.mutex);
    auto file = run.now.find(path);
    if (mode == wal::OpenMode::create) {
      if (file) return Status{Code::already_exists, "file " + path + " is there already"};
      if (run.dead) return no_power(path);
      auto const fresh = static_cast<std::uint32_t>(run.now.files.size());
      run.record({What::name, fresh, 0, {}, path});
      file = fresh;
    }
    if (!file || *file == DiskImage::kDirectory)
      return Status{Code::not_found, "file " + path + ": no such file"};
    return std::unique_ptr<wal::BlockDevice>(std::make_unique<SimFile>(run, *file));
  }
  Result<bool> make_directory(std::string const& path, mode_t) override {
    std::lock_guard const lock(disk_run->mutex);
    if (disk_run->now.find(path)) return false;
    if (disk_run->dead) return no_power(path);
    disk_run->record({What::name, DiskImage::kDirectory, 0, {}, path});
    return true;
  }
  Result<bool> forgets(std::string const& directory) override {
    std::lock_guard const lock(disk_run->mutex);
    if (disk_run->now.find(directory) == DiskImage::kDirectory) return false;
    return Status{Code::not_found, "directory " + directory + ": no such directory"};
  }
  Result<std::optional<wal::Found>> look(std::string const& path, std::size_t head_bytes) override {
    std::lock_guard const lock(disk_run->mutex);
    auto const file = disk_run->now.find(path);
    if (!file) return std::optional<wal::Found>{};
    wal::Found found{*file != DiskImage::kDirectory, {}};
    if (found.regular && !disk_run->now.files[*file].empty()) {
      found.head.resize(std::min<std::size_t>(head_bytes, kBlock));
      auto const& first = disk_run->now.files[*file][0].bytes;
      if (first) std::memcpy(found.head.data(), first.get(), found.head.size());
    }
    return std::optional<wal::Found>{found};
  }
  Status rename(std::string const& from, std::string const& to, bool replace) override {
    std::lock_guard const lock(disk_run->mutex);
    auto const file = disk_run->now.find(from);
    if (!file) return {Code::not_found, "file " + from + ": no such file"};
    if (!replace && disk_run->now.find(to))
      return {Code::already_exists, "file " + to + " is there already"};
    if (disk_run->dead) return no_power(to);
    disk_run->record({What::rename, *file, 0, {}, to, from});
    return {};
  }
  Status remove(std::string const& path) override {
    std::lock_guard const lock(disk_run->mutex);
    if (!disk_run->now.find(path)) return {Code::not_found, "file " + path + ": no such file"};
    if (disk_run->dead) return no_power(path);
    disk_run->record({What::remove, 0, 0, {}, path});
    return {};
  }
  Status sync_directory_of(std::string const& path) override {
    std::lock_guard const lock(disk_run->mutex);
    if (disk_run->dead) return no_power(path);
    disk_run->record({What::sync_directory, 0, 0, {}, directory_of(path)});
    return {};
  }

 private:
  static Status no_power(std::string const& path) {
    return {Code::io_error, path + ": the power is off"};
  }
};

}  // namespace

DiskBlock make_block(std::byte const* bytes) {
  // An array of that size costs nothing to make and to drop; one whose size is not known is set to
  // zero first, and visited byte by byte when it goes.
  using Bytes = std::array<std::byte, kBlock>;
  auto const copy = std::make_shared_for_overwrite<Bytes>();
  std::memcpy(copy->data(), bytes, kBlock);
  return {{copy, copy->data()}, hash_bytes(bytes, kBlock)};
}

std::optional<std::uint32_t> DiskImage::find(std::string const& path) const {
  auto const at = names.find(path);
  return at == names.end() ? std::nullopt : std::optional(at->second);
}

std::uint64_t DiskImage::hash() const {
  std::uint64_t h = 0;
  for (auto const& [name, file] : names) {
    h = mix(h, hash_bytes(reinterpret_cast<std::byte const*>(name.data()), name.size()));
    if (file == kDirectory) continue;
    h = mix(h, files[file].size());
    for (DiskBlock const& block : files[file]) h = mix(h, block.hash);
  }
  return h;
}

void apply(DiskEvent const& e, DiskImage& image) {
  switch (e.what) {
    case What::write:
    case What::write_durably: {
      auto& file = image.files[e.file];
      if (file.size() < e.first_block + e.blocks.size())
        file.resize(e.first_block + e.blocks.size());
      std::copy(e.blocks.begin(), e.blocks.end(),
                file.begin() + static_cast<std::ptrdiff_t>(e.first_block));
      return;
    }
    case What::name:
      if (e.file != DiskImage::kDirectory && image.files.size() <= e.file)
        image.files.resize(e.file + 1);
      image.names[e.name] = e.file;
      return;
    case What::rename:
      image.names.erase(e.was);
      image.names[e.name] = e.file;
      return;
    case What::remove: image.names.erase(e.name); return;
    case What::sync:
    case What::sync_directory: return;
  }
}

void DiskRun::record(DiskEvent event) {
  event.oracle = oracle;
  apply(event, now);
  events.push_back(std::move(event));
}

void use_simulated_disk() {
  static SimDisk simulated;
  wal::use_disk(&simulated);
}

void Leftover::happen(DiskEvent const& e) {
  auto const mine = [&](Held const& held) { return held.event->file == e.file; };
  switch (e.what) {
    case What::write: writes_.push_back({&e, false}); return;
    case What::write_durably:
      if (std::any_of(writes_.begin(), writes_.end(), mine))
        writes_.push_back({&e, true});
      else
        apply(e, lasting_);
      return;
    case What::sync:
      for (Held const& held : writes_)
        if (mine(held)) apply(*held.event, lasting_);
      std::erase_if(writes_, mine);
      return;
    case What::sync_directory: {
      auto const here = [&](DiskEvent const* change) {
        return directory_of(change->name) == e.name;
      };
      for (DiskEvent const* const change : names_)
        if (here(change)) apply(*change, lasting_);
      std::erase_if(names_, here);
      return;
    }
    case What::name:
      // The file is there, whether or not a name leads to it.
      if (e.file != DiskImage::kDirectory && lasting_.files.size() <= e.file)
        lasting_.files.resize(e.file + 1);
      [[fallthrough]];
    case What::rename:
    case What::remove: names_.push_back(&e); return;
  }
}

std::vector<std::uint8_t> Leftover::ways(DiskEvent const* under_way) const {
  std::vector<std::uint8_t> ways(names_.size(), 2);
  for (Held const& held : writes_) ways.push_back(held.lasts ? 1 : kWaysOfHeldWrite);
  if (under_way == nullptr) return ways;
  bool const writes = under_way->what == What::write || under_way->what == What::write_durably;
  ways.push_back(writes ? kWaysOfWriteUnderWay : changes_names(*under_way) ? 2 : 1);
  return ways;
}

DiskImage Leftover::compose(DiskEvent const* under_way,
                            std::vector<std::uint8_t> const& choices) const {
  DiskImage image = lasting_;
  std::size_t next = 0;
  for (DiskEvent const* const change : names_)
    if (choices[next++] != 0) apply(*change, image);
  for (Held const& held : writes_) {
    std::uint8_t const way = choices[next++];
    apply_some(*held.event, held.lasts ? 1 : way, image);
  }
  if (under_way != nullptr && choices[next] != 0) {
    if (changes_names(*under_way))
      apply(*under_way, image);
    else if (under_way->what == What::write || under_way->what == What::write_durably)
      apply_some(*under_way, choices[next], image);
  }
  // What lay in a directory whose name is lost is lost with it.
  std::erase_if(image.names, [&](auto const& name) {
    std::string const directory = directory_of(name.first);
    return !directory.empty() && !image.names.contains(directory);
  });
  return image;
}

}  // namespace perdure::explore
