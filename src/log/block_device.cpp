// Files on a disk: through io_uring where the kernel grants it, else through plain system calls.
#include "log/block_device.hpp"

#include <fcntl.h>
#include <liburing.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/mutants.hpp"
#include "log/ring_request.hpp"

namespace perdure::log {
namespace {

constexpr unsigned kQueue = 64;                  // entries of the submission queue
constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};

/// A file descriptor and what is known of it; shared by both ways to reach it.
class FileDevice : public BlockDevice {
 public:
  FileDevice(int fd, IoMethod method) : fd_(fd), method_(std::move(method)) {}
  ~FileDevice() override { ::close(fd_); }
  FileDevice(FileDevice const&) = delete;
  FileDevice& operator=(FileDevice const&) = delete;

  int sync() override {
    if (mutated(Mutant::disk_not_synced)) return 0;
    int const error = ::fdatasync(fd_) == 0 ? 0 : errno;
    return mutated(Mutant::disk_sync_error_dropped) ? 0 : error;
  }
  [[nodiscard]] std::uint64_t bytes() const override {
    struct stat st{};
    return ::fstat(fd_, &st) == 0 ? static_cast<std::uint64_t>(st.st_size) : 0;
  }
  [[nodiscard]] IoMethod const& method() const override { return method_; }

 protected:
  int fd_;
  IoMethod method_;
};

/// Durable writes complete together, after one fdatasync: group commit by itself.
class PlainDevice final : public FileDevice {
 public:
  using FileDevice::FileDevice;

  int start(Request const& r) override {
    auto const at = static_cast<off_t>(r.offset);
    ssize_t n = 0;
    do {
      n = r.verb == Verb::read ? ::pread(fd_, r.data, r.bytes, at) : ::pwrite(fd_, r.data, r.bytes, at);
    } while (n < 0 && errno == EINTR);
    std::int64_t const result = n < 0 ? -errno : n;
    {
      std::lock_guard const lock(mutex_);
      done_.push_back({r.tag, result});
      needs_sync_ |= r.verb == Verb::write_durably && !mutated(Mutant::plain_write_not_synced);
    }
    changed_.notify_one();
    return 0;
  }

  int wait(std::vector<Completion>& done) override {
    std::vector<Completion> mine;
    bool needs_sync = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return woken_ || !done_.empty(); });
      woken_ = false;
      mine.swap(done_);
      needs_sync = std::exchange(needs_sync_, false);
    }
    // Which of the writes a failed sync lost is unknown, so that all of them failed.
    int const error = needs_sync ? sync() : 0;
    for (Completion& c : mine) {
      if (error != 0 && c.result >= 0 && !mutated(Mutant::plain_sync_error_dropped)) c.result = -error;
      done.push_back(c);
    }
    return 0;
  }

  void wake() override {
    {
      std::lock_guard const lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  void register_buffer(std::span<std::byte> /*buffer*/) override {}

 private:
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<Completion> done_;  // done but for the sync
  bool needs_sync_ = false;
  bool woken_ = false;
};

class RingDevice final : public FileDevice {
 public:
  RingDevice(int fd, IoMethod method, io_uring const& ring) : FileDevice(fd, std::move(method)), ring_(ring) {}
  ~RingDevice() override { io_uring_queue_exit(&ring_); }

  int start(Request const& r) override {
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return EBUSY;
    bool const fixed = method_.fixed_buffers && r.data >= fixed_.data() && r.data < fixed_.data() + fixed_.size();
    prepare(*sqe, fd_, r, fixed);
    return submit();
  }

  int wait(std::vector<Completion>& done) override {
    io_uring_cqe* cqe = nullptr;
    int result = 0;
    do {
      result = io_uring_wait_cqe(&ring_, &cqe);
    } while (result == -EINTR);
    if (result < 0) return -result;
    for (; cqe != nullptr; cqe = nullptr, io_uring_peek_cqe(&ring_, &cqe)) {
      std::uint64_t const tag = io_uring_cqe_get_data64(cqe);
      if (tag != kWakeTag) done.push_back({tag, cqe->res});
      io_uring_cqe_seen(&ring_, cqe);
    }
    return 0;
  }

  void wake() override {
    io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return;  // the queue is full: a completion will come
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, kWakeTag);
    static_cast<void>(submit());
  }

  void register_buffer(std::span<std::byte> buffer) override {
    iovec const whole{buffer.data(), buffer.size()};
    int const result = io_uring_register_buffers(&ring_, &whole, 1);
    method_.fixed_buffers = result == 0;
    if (result == 0) fixed_ = buffer;
    if (result < 0) {
      if (!method_.why_not.empty()) method_.why_not += "; ";
      method_.why_not += std::string("registering buffers: ") + std::strerror(-result);
    }
  }

 private:
  int submit() {
    int result = 0;
    do {
      result = io_uring_submit(&ring_);
    } while (result == -EINTR || result == -EAGAIN);
    return result < 0 ? -result : 0;
  }

  io_uring ring_;
  std::span<std::byte> fixed_;
};

Status failed(std::string const& path, int error) {
  std::string const what = "file " + path + ": ";
  switch (error) {
    case ENOENT: return {Code::not_found, what + "no such file or directory"};
    case EEXIST: return {Code::already_exists, what + "is there already; remove it, or name another"};
    case ENOSPC: return {Code::no_space, what + "its file system is full"};
    default: return {Code::io_error, what + std::strerror(error)};
  }
}

void add(std::string& to, std::string const& what) {
  if (!to.empty()) to += "; ";
  to += what;
}

/// File systems that refuse O_DIRECT do so at open; some only at the first transfer.
int open_direct(std::string const& path, int flags, IoMethod& method) {
  int const fd = ::open(path.c_str(), flags | O_DIRECT, 0644);
  if (fd < 0 && errno != EINVAL) return -1;
  if (fd >= 0) {
    alignas(kBlock) std::byte probe[kBlock];
    if (::pread(fd, probe, sizeof probe, 0) >= 0 || errno != EINVAL) {
      method.direct = true;
      return fd;
    }
    ::close(fd);
    flags &= ~O_EXCL;  // we have just made it
  }
  add(method.why_not, "O_DIRECT is refused here (EINVAL)");
  return ::open(path.c_str(), flags & ~O_EXCL, 0644);
}

}  // namespace

Status sync_directory_of(std::string const& path) {
  auto const slash = path.rfind('/');
  std::string const directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  int const fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == EACCES)
    return {Code::unsupported, "directory " + directory + " may not be read, and so not be synced"};
  if (fd < 0) return failed(directory, errno);
  int const error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error == 0 ? Status{} : failed(directory, error);
}

std::string IoMethod::describe() const {
  std::string text = io_uring ? "io_uring" : "pwrite and fdatasync";
  text += direct ? ", O_DIRECT" : ", page cache";
  if (fixed_buffers) text += ", registered buffers";
  if (!why_not.empty()) text += " (" + why_not + ")";
  return text;
}

Result<std::unique_ptr<BlockDevice>> open_device(std::string const& path, OpenMode mode, IoOptions const& options) {
  int const flags = O_CLOEXEC | (mode == OpenMode::read_only ? O_RDONLY
                                 : mode == OpenMode::create  ? O_RDWR | O_CREAT | O_EXCL
                                                             : O_RDWR);
  IoMethod method;
  int const fd = options.direct ? open_direct(path, flags, method) : ::open(path.c_str(), flags, 0644);
  if (fd < 0) return failed(path, errno);
  if (::flock(fd, (mode == OpenMode::read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    int const error = errno;
    ::close(fd);
    if (error != EWOULDBLOCK) return failed(path, error);
    return Status{Code::busy, "file " + path + " is open elsewhere; close it there first"};
  }
  if (options.io_uring) {
    io_uring ring{};
    int const result = io_uring_queue_init(kQueue, &ring, 0);
    if (result == 0) {
      method.io_uring = true;
      return std::unique_ptr<BlockDevice>(new RingDevice(fd, std::move(method), ring));
    }
    add(method.why_not, std::string("io_uring is refused here (") + std::strerror(-result) + ")");
  }
  return std::unique_ptr<BlockDevice>(new PlainDevice(fd, std::move(method)));
}

}  // namespace perdure::log
