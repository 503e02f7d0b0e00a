// A G-WAL's files in a directory: each is mapped, and locked, as pools are (pm/mapping.hpp). So a
// child that is forked has no part in them. The directory is one process's by the lock of its
// gwal.lock, which says whose database it is.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "base/hash.hpp"
#include "lsm/gwal/gwal_files.hpp"
#include "lsm/gwal/gwal_format.hpp"
#include "lsm/gwal/gwal_headers.hpp"
#include "lsm/gwal/gwal_spares.hpp"
#include "pm/host_verbs.hpp"
#include "pm/mapping.hpp"
#include "pm/named_file.hpp"
#include "wal/disk/block_device.hpp"

namespace perdure::lsm {
namespace {

constexpr std::string_view kSegmentEnd = ".gwal";
constexpr std::string_view kSpareEnd = ".spare";
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2u << 20;
constexpr std::uint64_t kLeastFile = 3 * kPage;  // that pm::Mapping opens
constexpr mode_t kDirectoryMode = 0700;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

constexpr std::uint64_t file_bytes(std::uint64_t bytes) {
  return std::max(round_up(bytes, kPage), kLeastFile);
}

std::string file_name(std::uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%012llu.gwal", static_cast<unsigned long long>(number));
  return text;
}

std::optional<std::uint64_t> number_of(std::string const& name) {
  if (!name.ends_with(kSegmentEnd)) return std::nullopt;
  std::uint64_t number = 0;
  auto const [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || file_name(number) != name) return std::nullopt;
  return number;
}

Status failed(std::string const& path, char const* doing, int error) {
  return {error == ENOSPC ? Code::no_space : Code::io_error,
          "G-WAL " + path + ": " + doing + ": " + std::strerror(error)};
}

Result<std::vector<std::string>> names_in(std::string const& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(directory, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error))
    found.push_back(it->path().filename().string());
  if (error == std::errc::no_such_file_or_directory)
    return Status{Code::not_found, "G-WAL " + directory + ": there is no such directory"};
  if (error) return failed(directory, "cannot read the directory", error.value());
  return found;
}

class MappedFile final : public GwalFile {
 public:
  MappedFile(std::string path, pm::Mapping mapping, std::shared_ptr<GwalSpares> spares)
      : path_(std::move(path)), mapping_(std::move(mapping)), spares_(std::move(spares)) {}
  /// One that has another name yet.
  MappedFile(std::string path, GwalSpares::Spare spare, std::shared_ptr<GwalSpares> spares)
      : MappedFile(std::move(path), std::move(spare.mapping), std::move(spares)) {
    spare_path_ = std::move(spare.path);
  }
  ~MappedFile() override {
    if (spare_path_.empty() || !spares_->ours()) return;
    if (named_spare_ || spares_->wants(mapping_.size()))
      spares_->put({spare_path_, std::move(mapping_)});
    else
      ::unlink(spare_path_.c_str());
  }
  MappedFile(MappedFile const&) = delete;
  MappedFile& operator=(MappedFile const&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const override {
    return {mapping_.data(), mapping_.size()};
  }
  [[nodiscard]] std::string name() const override { return path_; }
  Status keep() override {
    if (!spare_path_.empty()) {
      if (::rename(spare_path_.c_str(), path_.c_str()) != 0)
        return failed(path_, "cannot use a spare file again", errno);
      spare_path_.clear();
    } else if (Status s = mapping_.keep(); !s.ok()) {
      return of_gwal(s);
    }
    return wal::sync_directory_of(path_);
  }
  Status remove(bool again) override {
    std::string const spare = path_ + std::string(kSpareEnd);
    named_spare_ = again && spares_->wants(mapping_.size());
    if (named_spare_ && ::rename(path_.c_str(), spare.c_str()) == 0) {
      spare_path_ = spare;
      return wal::sync_directory_of(path_);
    }
    if (std::exchange(named_spare_, false)) spares_->wants_no_more();
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT)
      return failed(path_, "cannot remove it", errno);
    return wal::sync_directory_of(path_);
  }
  Status sync(void const* at, std::size_t bytes) const override {
    Status const s = mapping_.sync(at, bytes);
    return s.ok() ? s : of_gwal(s);
  }

 private:
  std::string path_;
  pm::Mapping mapping_;
  std::shared_ptr<GwalSpares> spares_;
  std::string spare_path_;  // the name that it has instead; empty: its own
  bool named_spare_ = false;  // and is counted among the spares
};

class Directory final : public GwalFiles {
 public:
  explicit Directory(GwalOptions const& options)
      : path_(options.directory),
        spares_(std::make_shared<GwalSpares>(path_of(file_name(0)) + std::string(kSpareEnd),
                                             options.spare_segments, options.segment_bytes)) {}

  [[nodiscard]] std::string name() const override { return path_; }
  [[nodiscard]] std::uint64_t boot() const override { return gwal_boot(); }
  Result<std::vector<std::uint64_t>> numbers() override { return gwal_segment_numbers(path_); }
  Result<std::shared_ptr<GwalFile>> open(std::uint64_t number) override;
  Result<std::shared_ptr<GwalFile>> make(std::uint64_t number, std::uint64_t bytes) override;
  void prepare(std::uint64_t bytes) override { spares_->prepare(file_bytes(bytes)); }
  void trim(std::size_t left) override { spares_->trim(left); }

  Status make_directory();
  Status lock(GwalIdentity const& identity, std::uint32_t identity_bytes);
  Status remove_leftovers() const;

 private:
  [[nodiscard]] std::string path_of(std::string const& file) const { return path_ + "/" + file; }
  Result<pm::Mapping> open_or_make_lock();

  std::string path_;
  std::optional<pm::Mapping> lock_;
  std::shared_ptr<GwalSpares> spares_;  // those that are named go before the lock does
};

Status Directory::make_directory() {
  if (::mkdir(path_.c_str(), kDirectoryMode) != 0)
    return errno == EEXIST ? Status{} : failed(path_, "cannot make the directory", errno);
  return wal::sync_directory_of(path_);
}

Result<pm::Mapping> Directory::open_or_make_lock() {
  std::string const path = path_of("gwal.lock");
  auto lock = pm::Mapping::open(path, {}, [this](int, std::uint64_t bytes) {
    return bytes >= kLeastFile ? Result(bytes) : gwal_lock_damaged(path_);
  });
  if (lock.status().code() == Code::not_found)
    lock = pm::Mapping::create(path, kLeastFile, kHugePage, {}, {});
  if (lock.status().code() == Code::busy || lock.status().code() == Code::already_exists)
    return Status{Code::busy, "G-WAL " + path_ +
                                  " is in use by another process, or by another opening of this "
                                  "one; close the database there first"};
  if (!lock.ok()) return of_gwal(lock.status());
  return lock;
}

/// An empty log is anybody's: nothing of another database is lost.
Status Directory::lock(GwalIdentity const& identity, std::uint32_t identity_bytes) {
  auto lock = open_or_make_lock();
  if (!lock.ok()) return lock.status();
  auto const there = numbers();
  if (!there.ok()) return there.status();
  GwalLockHeader h;
  pm::read_bytes(&h, lock->data(), sizeof h);
  Status const s = check_gwal_lock(h, path_, identity);
  if (!s.ok() && (h.format_version > kGwalVersion || !there.value().empty())) return s;
  if (!s.ok()) {
    h = {kGwalLockMagic, kGwalVersion, identity_bytes, identity, {}, 0};
    h.crc = checksum(h);
    pm::write_bytes(lock->data(), &h, sizeof h);
    if (Status synced = lock->sync(lock->data(), sizeof h); !synced.ok()) return of_gwal(synced);
  }
  if (Status kept = lock->keep(); !kept.ok()) return of_gwal(kept);
  lock_ = std::move(lock).value();
  return wal::sync_directory_of(path_of("gwal.lock"));
}

/// What a crash left of files that were spare, or were being made.
Status Directory::remove_leftovers() const {
  auto const all = names_in(path_);
  if (!all.ok()) return all.status();
  for (std::string const& name : all.value()) {
    auto const end = name.find(kSegmentEnd);
    if (end == std::string::npos) continue;
    std::string const segment = name.substr(0, end + kSegmentEnd.size());
    if (!number_of(segment)) continue;
    std::string const spare = segment + std::string(kSpareEnd);
    bool const leftover =
        name == spare || name == pm::partial_name(segment) || name == pm::partial_name(spare);
    if (leftover && ::unlink(path_of(name).c_str()) != 0)
      return failed(path_of(name), "cannot remove it", errno);
  }
  return {};
}

Result<std::shared_ptr<GwalFile>> Directory::open(std::uint64_t number) {
  std::string const path = gwal_segment_path(path_, number);
  auto mapping = pm::Mapping::open(path, {}, [&](int, std::uint64_t bytes) {
    return bytes >= kLeastFile && bytes % kPage == 0
               ? Result(bytes)
               : gwal_damaged(path, "is truncated: it has " + std::to_string(bytes) + " bytes");
  });
  if (!mapping.ok())
    return mapping.status().code() == Code::corrupt ? mapping.status() : of_gwal(mapping.status());
  return std::shared_ptr<GwalFile>(
      std::make_shared<MappedFile>(path, std::move(mapping).value(), spares_));
}

Result<std::shared_ptr<GwalFile>> Directory::make(std::uint64_t number, std::uint64_t bytes) {
  std::string const path = gwal_segment_path(path_, number);
  if (auto spare = spares_->take(bytes))
    return std::shared_ptr<GwalFile>(
        std::make_shared<MappedFile>(path, std::move(*spare), spares_));
  bytes = file_bytes(bytes);
  auto const make = [&] {
    return pm::Mapping::create(path, bytes, round_up(bytes, kHugePage), {}, {});
  };
  auto mapping = make();
  if (mapping.status().code() == Code::no_space && spares_->clear()) mapping = make();
  if (!mapping.ok()) return of_gwal(mapping.status());
  return std::shared_ptr<GwalFile>(
      std::make_shared<MappedFile>(path, std::move(mapping).value(), spares_));
}

}  // namespace

std::string gwal_segment_path(std::string const& directory, std::uint64_t number) {
  return directory + "/" + file_name(number);
}

Result<std::vector<std::uint64_t>> gwal_segment_numbers(std::string const& directory) {
  auto const all = names_in(directory);
  if (!all.ok()) return all.status();
  std::vector<std::uint64_t> found;
  for (std::string const& name : all.value())
    if (auto const number = number_of(name)) found.push_back(*number);
  std::sort(found.begin(), found.end());
  return found;
}

std::uint64_t gwal_boot() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id.empty() ? 0 : hash_bytes(reinterpret_cast<std::byte const*>(id.data()), id.size());
}

Result<std::unique_ptr<GwalFiles>> open_gwal_directory(GwalOptions const& options) {
  auto directory = std::make_unique<Directory>(options);
  if (Status s = directory->make_directory(); !s.ok()) return s;
  if (Status s = directory->lock(gwal_identity(options.identity),
                                 static_cast<std::uint32_t>(options.identity.size()));
      !s.ok())
    return s;
  if (Status s = directory->remove_leftovers(); !s.ok()) return s;
  return std::unique_ptr<GwalFiles>(std::move(directory));
}

}  // namespace perdure::lsm
