// A copy of a pool that another process has open for writing, as it was between two of that
// process's changes. It lies in memory of this process alone, and nothing of the file is locked,
// written or waited for by the other process. Invariant: a copy counts only if the pool's change
// word was even before its first byte was read, and the same after the last. Where the word stays
// odd and nobody has the pool, its owner was killed: it is copied as that left it.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>

#include "pm/mapping.hpp"
#include "pm/pool_format.hpp"

namespace perdure::pm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kCopiedAtOnce = 4u << 20;  // copied between two looks at the word
constexpr auto kPatience = std::chrono::seconds(2);
constexpr auto kPause = std::chrono::microseconds(50);

/// False: the file ends before.
Result<bool> read_at(std::string const& path, int fd, std::byte* to, std::uint64_t bytes,
                     std::uint64_t from) {
  while (bytes > 0) {
    ssize_t const n = ::pread(fd, to, bytes, static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return Status{Code::io_error, "pool " + path + ": cannot read it: " + std::strerror(errno)};
    if (n == 0) return false;
    auto const got = static_cast<std::uint64_t>(n);
    to += got, from += got, bytes -= got;
  }
  return true;
}

Result<std::uint64_t> size_of(std::string const& path, int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0)
    return Status{Code::io_error, "pool " + path + ": " + std::strerror(errno)};
  return static_cast<std::uint64_t>(st.st_size);
}

Result<std::uint64_t> change_word(std::string const& path, int fd) {
  std::uint64_t word = 1;
  auto read =
      read_at(path, fd, reinterpret_cast<std::byte*>(&word), sizeof word, kChangeWordOffset);
  if (!read) return read.status();
  return *read ? word : 1;
}

Status too_large(std::string const& path, std::uint64_t bytes) {
  return {Code::no_space, "pool " + path +
                              ": a live look takes as much memory as the pool has bytes, " +
                              std::to_string(bytes) +
                              ", which is more than there is; look at a snapshot of it instead"};
}

Status busy(std::string const& path, std::string const& why) {
  return {Code::busy, "pool " + path + " cannot be looked at live now, for " + why +
                          ": try again, or once its transaction or device session has ended"};
}

/// True: this is the pool as it was when the word was `word`, or, of a pool that nobody has
/// (`alone`), as it is.
Result<bool> copy_all(std::string const& path, int fd, std::uint64_t word, bool alone,
                      std::span<std::byte> to) {
  for (std::uint64_t at = 0; at < to.size(); at += kCopiedAtOnce) {
    auto read = read_at(path, fd, to.data() + at,
                        std::min<std::uint64_t>(kCopiedAtOnce, to.size() - at), at);
    if (!read) return read.status();
    auto now = change_word(path, fd);
    if (!now) return now.status();
    if (!*read || (!alone && *now != word)) return false;
  }
  auto bytes = size_of(path, fd);
  if (!bytes) return bytes.status();
  return *bytes >= to.size();  // longer by what its owner prepares, and does not use yet
}

}  // namespace

Result<Mapping> Mapping::copy_live(std::string const& path, MapOptions const& options,
                                   FileCheck const& check) {
  auto file = open_existing(path, false, Lock::none);
  if (!file) return file.status();
  auto bytes = size_of(path, file->get());
  if (!bytes) return bytes.status();
  if (auto const checked = check(file->get(), *bytes); !checked) return checked.status();
  if (*bytes > available_memory()) return too_large(path, *bytes);
  auto copy = in_memory(path, file->get(), *bytes, options);
  if (!copy) return copy.status();
  auto const copied = [&](std::uint64_t word, bool alone) -> Result<bool> {
    bytes = size_of(path, file->get());
    if (!bytes) return bytes.status();
    if (copy->size() > *bytes) {  // its owner gave back what it had prepared
      copy->close();
      copy = in_memory(path, file->get(), *bytes, options);
      if (!copy) return copy.status();
    }
    if (Status s = copy->grow(*bytes); !s.ok()) return s;
    return copy_all(path, file->get(), word, alone, {copy->data(), *bytes});
  };
  bool changes = true;
  for (auto const deadline = Clock::now() + kPatience; Clock::now() < deadline;
       std::this_thread::sleep_for(kPause)) {
    auto word = change_word(path, file->get());
    if (!word) return word.status();
    changes = *word % 2 != 0;
    if (changes) continue;
    auto whole = copied(*word, false);
    if (!whole) return whole.status();
    if (*whole) return copy;
  }
  if (!changes) return busy(path, "it changes more often than it can be copied");
  // All the time in the midst of a change: a transaction, a device session, or an owner that was
  // killed.
  auto const alone = open_existing(path, false, Lock::shared);
  if (alone.status().code() == Code::busy) return busy(path, "it is in the midst of a change");
  if (!alone) return alone.status();
  auto whole = copied(0, true);
  if (!whole) return whole.status();
  if (!*whole) return busy(path, "its size changes");
  return copy;
}

}  // namespace perdure::pm
