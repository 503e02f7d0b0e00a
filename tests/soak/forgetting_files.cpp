#include "soak/forgetting_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "soak/allocations.hpp"

namespace perdure::test {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kSector = 512;
constexpr std::size_t kPiece = 1u << 20;
constexpr std::uint64_t kLieOneIn = 6;

std::string directory_of(std::string const& path) { return path.substr(0, path.rfind('/')); }
std::string names_of(std::string const& directory) { return directory + "-names"; }

/// Where the durable bytes of the file that is seen at `path` lie; empty where there is none.
std::string medium_of(std::string const& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return "";
  return directory_of(path) + "-medium/" + std::to_string(st.st_ino);
}

/// A descriptor of a test's own file; what it needs is there or the soak is broken.
class File {
 public:
  File(std::string const& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
    if (fd_ < 0) throw std::runtime_error("soak: " + path + ": " + std::strerror(errno));
  }
  File(File const&) = delete;
  File& operator=(File const&) = delete;
  ~File() { ::close(fd_); }
  void write(std::uint64_t at, std::byte const* data, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes;) {
      ssize_t const n = ::pwrite(fd_, data + done, bytes - done, static_cast<off_t>(at + done));
      if (n <= 0)
        throw std::runtime_error(std::string("soak: writing what is durable: ") +
                                 std::strerror(errno));
      done += static_cast<std::size_t>(n);
    }
  }
  /// Beyond the end: zeros. False: there is nothing there.
  bool read(std::uint64_t at, std::vector<std::byte>& into) const {
    std::fill(into.begin(), into.end(), std::byte{0});
    ssize_t const n = ::pread(fd_, into.data(), into.size(), static_cast<off_t>(at));
    return n > 0;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    struct stat st{};
    return ::fstat(fd_, &st) == 0 ? static_cast<std::uint64_t>(st.st_size) : 0;
  }

 private:
  int const fd_;
};

/// Calls `with(offset, old sector, new sector)` for each that differs, and answers whether lengths
/// do.
template <class With>
void for_each_difference(File const& medium, File const& seen, With const& with) {
  std::vector<std::byte> was(kPiece), is(kPiece);
  std::uint64_t const end = std::max(medium.bytes(), seen.bytes());
  for (std::uint64_t at = 0; at < end; at += kPiece) {
    medium.read(at, was);
    seen.read(at, is);
    if (was == is) continue;
    for (std::size_t s = 0; s < kPiece && at + s < end; s += kSector)
      if (std::memcmp(was.data() + s, is.data() + s, kSector) != 0) with(at + s, is.data() + s);
  }
}

class ForgettingDevice final : public wal::BlockDevice {
 public:
  ForgettingDevice(ForgettingFiles& disk, std::unique_ptr<wal::BlockDevice> inner,
                   std::string const& path, bool made)
      : disk_(disk),
        inner_(std::move(inner)),
        medium_(medium_of(path), made ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR | O_CREAT),
        seen_(path, O_RDONLY) {}

  int start(wal::Request const& r) override {
    std::unique_lock lock(mutex_);
    if (int const error = disk_.next_failure(); error != 0) {
      if (r.verb != wal::Verb::read) leave_some(r);
      failed_.push_back({r.tag, -error});
      lock.unlock();
      inner_->wake();
      return 0;
    }
    begun_[r.tag] = r;
    lock.unlock();
    int const error = inner_->start(r);
    if (error != 0) {
      lock.lock();
      begun_.erase(r.tag);
    }
    return error;
  }

  int wait(std::vector<wal::Completion>& done) override {
    std::size_t const first = done.size();
    if (int const error = inner_->wait(done); error != 0) return error;
    std::lock_guard const lock(mutex_);
    for (std::size_t i = first; i < done.size(); ++i) {
      auto const it = begun_.find(done[i].tag);
      wal::Request const r = it->second;
      begun_.erase(it);
      if (r.verb == wal::Verb::write_durably && done[i].result > 0 && !disk_.lies())
        medium_.write(r.offset, r.data, static_cast<std::size_t>(done[i].result));
    }
    done.insert(done.end(), failed_.begin(), failed_.end());
    failed_.clear();
    return 0;
  }

  void wake() override { inner_->wake(); }

  int sync() override {
    if (int const error = disk_.next_failure(); error != 0) return error;
    if (int const error = inner_->sync(); error != 0) return error;
    std::lock_guard const lock(mutex_);
    for_each_difference(medium_, seen_, [&](std::uint64_t at, std::byte const* sector) {
      medium_.write(at, sector, kSector);
    });
    return 0;
  }

  void register_buffer(std::span<std::byte> buffer) override { inner_->register_buffer(buffer); }
  [[nodiscard]] std::uint64_t bytes() const override { return inner_->bytes(); }
  [[nodiscard]] wal::IoMethod const& method() const override { return inner_->method(); }

 private:
  /// Of a write that fails any sectors may be durable.
  void leave_some(wal::Request const& r) {
    for (std::uint64_t s = 0; s < r.bytes; s += kSector)
      if (fails(r.offset, s, 3)) medium_.write(r.offset + s, r.data + s, kSector);
  }

  ForgettingFiles& disk_;
  std::unique_ptr<wal::BlockDevice> inner_;
  std::mutex mutex_;  // guards the rest
  File const medium_, seen_;
  std::map<std::uint64_t, wal::Request> begun_;
  std::vector<wal::Completion> failed_;
};

std::set<std::string> names_in(std::string const& directory) {
  std::set<std::string> names;
  std::error_code none;
  for (auto const& entry : fs::directory_iterator(directory, none))
    names.insert(entry.path().filename());
  return names;
}

/// What a power loss leaves of one file.
std::uint64_t compose(std::string const& to, std::string const& medium, std::string const& seen,
                      std::mt19937_64& random) {
  fs::copy_file(medium, to);
  fs::permissions(to, fs::perms::owner_read | fs::perms::owner_write);
  if (seen.empty()) return 0;
  File const out(to, O_RDWR), now(seen, O_RDONLY), durable(medium, O_RDONLY);
  std::uint64_t const fate = random() % 3;  // all of it is lost, nothing, or any sectors
  std::uint64_t forgotten = 0;
  for_each_difference(durable, now, [&](std::uint64_t at, std::byte const* sector) {
    bool const stays = fate == 1 || (fate == 2 && random() % 2 == 0);
    stays ? out.write(at, sector, kSector) : static_cast<void>(++forgotten);
  });
  return forgotten;
}

}  // namespace

void ForgettingFiles::fail(std::uint64_t seed, std::uint64_t one_in) {
  seed_ = seed;
  one_in_ = one_in;
}

int ForgettingFiles::next_failure() {
  std::uint64_t const n = asked_++;
  if (!fails(seed_, n, one_in_)) return 0;
  ++failures_;
  return n % 2 == 0 ? EIO : ENOSPC;
}

bool ForgettingFiles::lies() { return lies_ && told_++ % kLieOneIn == kLieOneIn - 1; }

Result<std::unique_ptr<wal::BlockDevice>> ForgettingFiles::open(std::string const& path,
                                                                wal::OpenMode mode,
                                                                wal::IoOptions const& options) {
  if (int const error = next_failure(); error != 0)
    return Status{Code::io_error, path + ": " + std::strerror(error)};
  auto inner = wal::open_device(path, mode, options);
  if (!inner) return inner.status();
  return std::unique_ptr<wal::BlockDevice>(std::make_unique<ForgettingDevice>(
      *this, std::move(*inner), path, mode == wal::OpenMode::create));
}

Result<wal::NewDevice> ForgettingFiles::make(std::string const& path, pm::MakeOptions const& make,
                                             wal::IoOptions const& options) {
  if (int const error = next_failure(); error != 0)
    return Status{Code::no_space, path + ": " + std::strerror(error)};
  auto made = wal::make_device(path, make, options);
  if (!made) return made.status();
  made->device = std::make_unique<ForgettingDevice>(*this, std::move(made->device),
                                                    pm::partial_name(path), true);
  return made;
}

Result<bool> ForgettingFiles::make_directory(std::string const& path, mode_t mode) {
  for (std::string const& d : {path + "-medium", names_of(path), path})
    if (::mkdir(d.c_str(), mode) != 0 && errno != EEXIST)
      return Status{Code::io_error, "directory " + d + ": " + std::strerror(errno)};
  return true;
}

/// Each name there is now leads to its file's durable bytes, and no other does.
Status ForgettingFiles::sync_directory_of(std::string const& path) {
  std::string const directory = directory_of(path);
  if (int const error = next_failure(); error != 0)
    return Status{Code::io_error, directory + ": " + std::strerror(error)};
  if (Status s = wal::sync_directory_of(path); !s.ok()) return s;
  std::string const names = names_of(directory);
  if (!fs::exists(names)) return {};
  auto const now = names_in(directory);
  for (std::string const& name : now) {
    std::string const link = names + "/" + name + "-new";
    ::unlink(link.c_str());
    if (::link(medium_of(directory + "/" + name).c_str(), link.c_str()) != 0 ||
        ::rename(link.c_str(), (names + "/" + name).c_str()) != 0)
      throw std::runtime_error("soak: naming what is durable: " + link + ": " +
                               std::strerror(errno));
    ::unlink(link.c_str());  // two names of one file: rename() left it
  }
  for (std::string const& name : names_in(names))
    if (!now.contains(name)) ::unlink((names + "/" + name).c_str());
  return {};
}

std::uint64_t ForgettingFiles::cut_power(std::string const& directory, std::mt19937_64& random) {
  if (!fs::exists(directory)) return 0;
  std::string const names = names_of(directory), after = directory + "-after";
  // names that were not synced are there all, or none of them is
  bool const by_new_names = random() % 2 == 0;
  fs::remove_all(after);
  fs::create_directory(after);
  fs::permissions(after, fs::perms::owner_all);
  std::uint64_t forgotten = 0;
  for (std::string const& name : names_in(by_new_names ? directory : names)) {
    std::string const seen = directory + "/" + name, durable = names + "/" + name;
    std::string const medium = by_new_names ? medium_of(seen) : durable;
    if (!fs::exists(medium)) continue;  // killed while it was made
    bool const same = by_new_names || (fs::exists(seen) && fs::exists(medium_of(seen)) &&
                                       fs::equivalent(medium_of(seen), durable));
    forgotten += compose(after + "/" + name, medium, same ? seen : "", random);
  }
  for (std::string const& d : {directory, directory + "-medium", names}) fs::remove_all(d);
  fs::rename(after, directory);
  fs::create_directory(directory + "-medium");
  fs::create_directory(names);
  for (std::string const& name : names_in(directory)) {
    std::string const seen = directory + "/" + name;
    fs::copy_file(seen, medium_of(seen));
    fs::create_hard_link(medium_of(seen), names + "/" + name);
  }
  return forgotten;
}

void ForgettingFiles::remove(std::string const& directory) {
  std::error_code none;
  for (std::string const& d :
       {directory, directory + "-medium", names_of(directory), directory + "-after"})
    fs::remove_all(d, none);
}

}  // namespace perdure::test
