// Files under names that others know too: how one is opened, made, locked and replaced.
//
// Invariants:
//  1. Only a regular file is opened, and no symbolic link is followed in the last component of its
//     path. What else is there is refused unopened, so that no FIFO blocks and no device notices.
//  2. A lock that is held is one on the file that has the name: whoever locked a file that had just
//     been replaced releases it and opens its successor.
//  3. A new file stands beside its path, locked, until keep(). So the second of two makers of one
//     path is told at once, and what a crash left behind is known by nobody's having it locked.
//  4. keep() replaces the file that was there, and locked, when the new one was begun, or nothing;
//     never one that has come to that name since.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "perdure/status.h"
#include "pm/file_lock.hpp"

namespace perdure::pm {

/// A file descriptor of open_file(), which no child that is forked shares (base/process.hpp);
/// closed when it goes.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Opens the file for reading, or for `writing` too. `what` it is to the caller begins every
/// message: "pool", "file".
Result<Fd> open_file(std::string_view what, std::string const& path, bool writing, Lock lock);

/// What a file is, whatever it is called.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(FileId const&) const = default;
};
/// Of the file that has the name, a symbolic link being itself; {} where there is none.
[[nodiscard]] FileId id_of(std::string const& path);
[[nodiscard]] FileId id_of(int fd);
/// Permission bits.
[[nodiscard]] std::uint32_t mode_of(int fd);

/// How a file is made.
struct MakeOptions {
  // replace the file that is there, if `may_replace` has nothing against it
  bool overwrite = false;
  bool force = false;  // replace whatever file is there
  /// Permission bits, at least 0600, less those that the umask takes away. 0: those of the file
  /// that is replaced, as they are; of another one 0600.
  std::uint32_t mode = 0;
  // asked of what is there, locked; none: any file may go
  std::function<Status(int fd)> may_replace = {};
};

/// For `may_replace`: files that begin with these bytes, which files of that kind do, and where
/// `or_empty` those that hold nothing. `forceable`: whether the caller has a `force` to name as the
/// way out.
[[nodiscard]] std::function<Status(int fd)> only_replaces(std::string named, std::string kind,
                                                          std::string_view magic, bool forceable,
                                                          bool or_empty = false);

/// The name that a file has until it is kept.
[[nodiscard]] std::string partial_name(std::string const& path);

/// A file that is made: its name, and what it replaces. Not kept, it is removed again.
class NewFile {
 public:
  NewFile() = default;
  /// The file, locked, comes beside it; keep the descriptor open as long as this is not kept.
  static Result<std::pair<Fd, NewFile>> make(std::string_view what, std::string const& path,
                                             MakeOptions const& options);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  ~NewFile();

  /// Gives the file its name, as a whole; the second time does nothing.
  Status keep();
  /// Takes a file that was kept away again, if the name still is its.
  void remove();

 private:
  [[nodiscard]] std::string named() const { return what_ + " " + path_; }
  Status take_replaced(MakeOptions const& options);
  Status take_free_name();
  Status take_name_of_replaced();
  Status came_between() const;
  void drop();

  std::string what_, path_;
  std::string partial_;  // the name that it has until it is kept; had before it is made, for it
                         // goes without memory, too
  FileId id_;
  std::uint64_t process_ = 0;  // that makes it
  Fd replaced_;  // locked
  bool pending_ = false;  // it still has its partial name
};

}  // namespace perdure::pm
