#include "pm/named_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/process.hpp"

namespace perdure::pm {
namespace {

constexpr int kTries = 1000;  // of what others may undo between two system calls
constexpr std::string_view kPartial = ".perdure-partial";
constexpr std::uint32_t kOwnerMode = 0600;
constexpr std::uint32_t kModeBits = 0777;

std::string name(std::string_view what, std::string const& path) {
  return std::string(what) + " " + path;
}

Status system_failed(std::string const& named, int error) {
  switch (error) {
    case ENOENT: return {Code::not_found, named + ": no such file or directory"};
    case ENOTDIR: return {Code::invalid_argument, named + ": part of its path is not a directory"};
    case EACCES:
      return {Code::io_error,
              named +
                  ": permission denied; ask the owner of the file, or of its directory, for rights "
                  "(chmod, chown)"};
    case ENOSPC:
    case EDQUOT: return {Code::no_space, named + ": its file system is full"};
    case EWOULDBLOCK: return {Code::busy, named + " is open elsewhere; close it there first"};
    default: return {Code::io_error, named + ": " + std::strerror(error)};
  }
}

Status no_regular_file(std::string const& named, mode_t mode) {
  char const* const kind =
      S_ISLNK(mode)    ? "a symbolic link, which is not followed: name the file that it leads to"
      : S_ISDIR(mode)  ? "a directory"
      : S_ISFIFO(mode) ? "a FIFO"
      : S_ISSOCK(mode) ? "a socket"
      : S_ISCHR(mode)  ? "a character device"
      : S_ISBLK(mode)  ? "a block device"
                       : "no regular file";
  return {Code::invalid_argument,
          named + " is " + kind + (S_ISLNK(mode) ? "" : "; name a regular file")};
}

Status check_path(std::string_view what, std::string const& path) {
  if (path.empty()) return {Code::invalid_argument, std::string(what) + ": its path is empty"};
  if (path.find('\0') != std::string::npos)
    return {Code::invalid_argument, name(what, path.c_str()) + ": its path holds a byte 0"};
  return {};
}

Status check_mode(std::string const& named, std::uint32_t mode) {
  if (mode == 0 || ((mode & kOwnerMode) == kOwnerMode && (mode & ~kModeBits) == 0)) return {};
  char text[16];
  std::snprintf(text, sizeof text, "0%o", mode);
  return {Code::invalid_argument,
          named + ": mode " + text +
              ": choose permission bits up to 0777 with which the owner may read and write"};
}

/// Looked at first, then opened: what came in between is refused after all, and cannot block.
Result<Fd> open_regular(std::string const& named, std::string const& path, bool writing) {
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0) return system_failed(named, errno);
  if (!S_ISREG(st.st_mode)) return no_regular_file(named, st.st_mode);
  int const flags = (writing ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  Fd fd(open_held(path.c_str(), flags));
  if (!fd.open() && errno == ELOOP) return no_regular_file(named, S_IFLNK);
  if (!fd.open()) return system_failed(named, errno);
  if (::fstat(fd.get(), &st) != 0) return system_failed(named, errno);
  if (!S_ISREG(st.st_mode)) return no_regular_file(named, st.st_mode);
  // Of a regular file io_uring would take it for a wish not to wait for the disk.
  int const now = ::fcntl(fd.get(), F_GETFL);
  if (now < 0 || ::fcntl(fd.get(), F_SETFL, now & ~O_NONBLOCK) != 0)
    return system_failed(named, errno);
  return fd;
}

Status made_elsewhere(std::string const& named) {
  return {Code::busy,
          named + " is being made elsewhere at this moment; try again later, or name another"};
}

/// What a crash left of a file that was being made. One that is locked is somebody's.
Status remove_abandoned(std::string const& named, std::string const& partial) {
  auto const left = open_file("file", partial, true, Lock::exclusive);
  if (left.status().code() == Code::not_found) return {};
  if (left.status().code() == Code::busy) return made_elsewhere(named);
  if (!left.ok()) return left.status();
  return ::unlink(partial.c_str()) == 0 ? Status{} : system_failed("file " + partial, errno);
}

Result<Fd> make_partial(std::string const& named, std::string const& partial, std::uint32_t mode) {
  for (int tries = 0; tries < kTries; ++tries) {
    Fd fd(open_held(partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (fd.open()) {
      Status const locked = take_lock(named, fd.get(), Lock::exclusive);
      if (!locked.ok() && locked.code() != Code::busy) {
        ::unlink(partial.c_str());
        return locked;
      }
      // Another may have taken it for abandoned before it was locked; then that one makes the file.
      bool const ours = locked.ok() && id_of(partial) == id_of(fd.get());
      return ours ? Result<Fd>(std::move(fd)) : made_elsewhere(named);
    }
    if (errno == ENOENT)
      return Status{Code::not_found, named + ": no such directory; make it first"};
    if (errno != EEXIST) return system_failed(named, errno);
    if (Status s = remove_abandoned(named, partial); !s.ok()) return s;
  }
  return made_elsewhere(named);
}

/// Owner, group and mode of the file that is replaced. Where its group cannot be had, that group's
/// rights go, too.
Status keep_rights(std::string const& named, int fd, int replaced) {
  struct stat old{}, now{};
  if (::fstat(replaced, &old) != 0 || ::fstat(fd, &now) != 0) return system_failed(named, errno);
  std::uint32_t mode = old.st_mode & kModeBits;
  bool const other = now.st_uid != old.st_uid || now.st_gid != old.st_gid;
  if (other && ::fchown(fd, old.st_uid, old.st_gid) != 0 &&
      ::fchown(fd, static_cast<uid_t>(-1), old.st_gid) != 0)
    mode &= ~070u;
  return ::fchmod(fd, mode) == 0 ? Status{} : system_failed(named, errno);
}

int rename_with(std::string const& from, std::string const& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

bool not_offered(int error) { return error == EINVAL || error == ENOSYS || error == ENOTSUP; }

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close_held(fd_);
}

FileId id_of(std::string const& path) {
  struct stat st{};
  return ::lstat(path.c_str(), &st) == 0 ? FileId{st.st_dev, st.st_ino} : FileId{};
}

FileId id_of(int fd) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 ? FileId{st.st_dev, st.st_ino} : FileId{};
}

std::uint32_t mode_of(int fd) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 ? st.st_mode & kModeBits : kOwnerMode;
}

std::function<Status(int)> only_replaces(std::string named, std::string kind,
                                         std::string_view magic, bool forceable, bool or_empty) {
  return [=, expected = std::string(magic)](int fd) -> Status {
    std::string found(expected.size(), '\0');
    ssize_t const n = ::pread(fd, found.data(), found.size(), 0);
    if (n < 0) return system_failed(named, errno);
    if (found == expected || (or_empty && n == 0)) return {};
    return {Code::already_exists, named + ": what is there is no " + kind +
                                      ", and is not replaced; name another file, " +
                                      (forceable ? "or pass force" : "or remove it first")};
  };
}

std::string partial_name(std::string const& path) { return path + std::string(kPartial); }

Result<Fd> open_file(std::string_view what, std::string const& path, bool writing, Lock lock) {
  if (Status s = check_path(what, path); !s.ok()) return s;
  std::string const named = name(what, path);
  for (int tries = 0; tries < kTries; ++tries) {
    auto fd = open_regular(named, path, writing);
    if (!fd.ok() || lock == Lock::none) return fd;
    if (Status s = take_lock(named, fd->get(), lock); !s.ok()) return s;
    if (id_of(path) == id_of(fd->get())) return fd;
  }
  return Status{Code::busy, named + " is replaced by others again and again; try again later"};
}

Result<std::pair<Fd, NewFile>> NewFile::make(std::string_view what, std::string const& path,
                                             MakeOptions const& options) {
  if (Status s = check_path(what, path); !s.ok()) return s;
  NewFile file;
  file.what_ = what;
  file.path_ = path;
  file.partial_ = partial_name(path);
  // What has such a name gives way, when nobody has it open, to a file that is made.
  if (path.ends_with(kPartial))
    return Status{Code::invalid_argument, file.named() + ": names that end in " +
                                              std::string(kPartial) +
                                              " are those of unfinished files; name another file"};
  if (Status s = check_mode(file.named(), options.mode); !s.ok()) return s;
  if (Status s = file.take_replaced(options); !s.ok()) return s;
  auto fd =
      make_partial(file.named(), file.partial_, options.mode != 0 ? options.mode : kOwnerMode);
  if (!fd.ok()) return fd.status();
  file.id_ = id_of(fd->get());
  file.process_ = this_process();
  file.pending_ = true;
  if (file.replaced_.open() && options.mode == 0) {
    if (Status s = keep_rights(file.named(), fd->get(), file.replaced_.get()); !s.ok()) {
      file.drop();  // while it is locked
      return s;
    }
  }
  return std::pair<Fd, NewFile>(std::move(*fd), std::move(file));
}

/// Opens and locks what is there, if it may be replaced. Asked before it is locked, too: that a
/// file is none of ours says more than that it is in use.
Status NewFile::take_replaced(MakeOptions const& options) {
  struct stat st{};
  if (::lstat(path_.c_str(), &st) != 0) return {};
  if (!S_ISREG(st.st_mode)) return no_regular_file(named(), st.st_mode);
  if (!options.overwrite && !options.force)
    return {Code::already_exists,
            named() + " exists already; name another file, or pass overwrite"};
  for (Lock const lock : {Lock::none, Lock::exclusive}) {
    auto there = open_file(what_, path_, true, lock);
    if (there.status().code() == Code::not_found) return {};
    if (!there.ok()) return there.status();
    if (options.may_replace && !options.force) {
      if (Status s = options.may_replace(there->get()); !s.ok()) return s;
    }
    if (lock == Lock::exclusive) replaced_ = std::move(*there);
  }
  return {};
}

NewFile::NewFile(NewFile&& other) noexcept { *this = std::move(other); }

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  if (this == &other) return *this;
  drop();
  what_ = std::move(other.what_);
  path_ = std::move(other.path_);
  partial_ = std::move(other.partial_);
  id_ = other.id_;
  process_ = other.process_;
  replaced_ = std::exchange(other.replaced_, Fd());
  pending_ = std::exchange(other.pending_, false);
  return *this;
}

NewFile::~NewFile() { drop(); }

/// Nothing in a child that was forked, whose parent goes on making it.
void NewFile::drop() {
  if (pending_ && process_ == this_process() && id_of(partial_) == id_) ::unlink(partial_.c_str());
  pending_ = false;
}

void NewFile::remove() {
  drop();
  if (!path_.empty() && id_of(path_) == id_) ::unlink(path_.c_str());
}

Status NewFile::keep() {
  if (!pending_) return {};
  if (id_of(partial_) != id_) return came_between();
  Status const s = replaced_.open() ? take_name_of_replaced() : take_free_name();
  if (!s.ok()) return s;
  pending_ = false;
  replaced_ = Fd();
  return {};
}

/// In place of nothing: what has come there meanwhile stays.
Status NewFile::take_free_name() {
  std::string const& partial = partial_;
  int error = rename_with(partial, path_, RENAME_NOREPLACE);
  if (not_offered(error)) {  // by this file system
    error = ::link(partial.c_str(), path_.c_str()) == 0 ? 0 : errno;
    if (error == 0) ::unlink(partial.c_str());
  }
  if (error == EEXIST) return came_between();
  return error == 0 ? Status{} : system_failed(named(), error);
}

/// The two change names, so that what comes out can be looked at: if it is not what was locked,
/// they change back.
Status NewFile::take_name_of_replaced() {
  std::string const& partial = partial_;
  int const error = rename_with(partial, path_, RENAME_EXCHANGE);
  if (error == ENOENT) return take_free_name();  // somebody removed what was there
  if (not_offered(error)) {
    if (id_of(path_) != id_of(replaced_.get())) return came_between();
    return ::rename(partial.c_str(), path_.c_str()) == 0 ? Status{} : system_failed(named(), errno);
  }
  if (error != 0) return system_failed(named(), error);
  if (id_of(partial) == id_of(replaced_.get())) {
    ::unlink(partial.c_str());
    return {};
  }
  if (int const back = rename_with(partial, path_, RENAME_EXCHANGE); back != 0)
    return system_failed(named(), back);
  return came_between();
}

Status NewFile::came_between() const {
  return {Code::busy,
          named() + " was made or replaced by others in the meantime, and is left as they made it"};
}

}  // namespace perdure::pm
