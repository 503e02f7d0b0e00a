// Files on a disk: through io_uring where the kernel grants it, else through plain system calls.
#include "wal/disk/block_device.hpp"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/mutex.hpp"
#include "base/process.hpp"
#include "wal/disk/ring_request.hpp"

namespace perdure::wal {
namespace {

constexpr unsigned kQueue = 64;                  // entries of the submission queue
constexpr std::uint64_t kNoTag = ~std::uint64_t{0};  // of a request that was taken back

/// A file descriptor and what is known of it; shared by both ways to reach it.
class FileDevice : public BlockDevice {
 public:
  FileDevice(int fd, IoMethod method) : fd_(fd), method_(std::move(method)) {}
  ~FileDevice() override {
    if (fd_ >= 0) close_held(fd_);
  }
  FileDevice(FileDevice const&) = delete;
  FileDevice& operator=(FileDevice const&) = delete;

  int sync() override {
    if (mutated("disk_not_synced")) return 0;
    int const error = ::fdatasync(fd_) == 0 ? 0 : errno;
    return mutated("disk_sync_error_dropped") ? 0 : error;
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
  PlainDevice(int fd, IoMethod method) : FileDevice(fd, std::move(method)) {
    done_.reserve(kQueue);
  }
  void take(int fd) { fd_ = fd; }

  int start(Request const& r) override {
    PERDURE_ASSERT(fd_ >= 0 && r.data != nullptr);
    auto const at = static_cast<off_t>(r.offset);
    {
      MutexLock const lock(mutex_);
      done_.reserve(done_.size() + 1);  // before anything is done
    }
    ssize_t n = 0;
    do {
      n = r.verb == Verb::read ? ::pread(fd_, r.data, r.bytes, at)
                               : ::pwrite(fd_, r.data, r.bytes, at);
    } while (n < 0 && errno == EINTR);
    std::int64_t const result = n < 0 ? -errno : n;
    {
      MutexLock const lock(mutex_);
      done_.push_back({r.tag, result});
      needs_sync_ |= r.verb == Verb::write_durably && !mutated("plain_write_not_synced");
    }
    changed_.notify_one();
    return 0;
  }

  int wait(std::vector<Completion>& done) override {
    std::size_t const first = done.size();
    bool needs_sync = false;
    {
      MutexLock const lock(mutex_);
      while (!woken_ && done_.empty()) changed_.wait(mutex_);
      woken_ = false;
      done.insert(done.end(), done_.begin(), done_.end());
      done_.clear();
      needs_sync = std::exchange(needs_sync_, false);
    }
    // Which of the writes a failed sync lost is unknown, so that all of them failed.
    int const error = needs_sync ? sync() : 0;
    for (std::size_t i = first; i < done.size(); ++i)
      if (error != 0 && done[i].result >= 0 && !mutated("plain_sync_error_dropped"))
        done[i].result = -error;
    return 0;
  }

  void wake() override {
    {
      MutexLock const lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  void register_buffer(std::span<std::byte> /*buffer*/) override {}

 private:
  Mutex mutex_;  // guards the rest
  Condition changed_;
  std::vector<Completion> done_
      PERDURE_GUARDED_BY(mutex_);  // done but for the sync; keeps the room that start() made
  bool needs_sync_ PERDURE_GUARDED_BY(mutex_) = false;
  bool woken_ PERDURE_GUARDED_BY(mutex_) = false;
};

/// Whoever waits sleeps on the ring and on a counter of wakes, so that waking needs nothing of the
/// ring.
class RingDevice final : public FileDevice {
  // Milliseconds. A program that closes descriptors which are not its own wakes nobody by that.
  static constexpr int kLooksAgain = 1000;

 public:
  RingDevice() : FileDevice(-1, {}) {}
  ~RingDevice() override {
    if (wakes_ >= 0) close_held(wakes_);
    if (!begun_) return;
    let_go_of(ring_.ring_fd);
    io_uring_queue_exit(&ring_);
  }
  /// 0, or why there is no io_uring, as -errno.
  int begin() {
    wakes_ = eventfd_held();
    if (wakes_ < 0) return -errno;
    int const result = io_uring_queue_init(kQueue, &ring_, 0);
    begun_ = result == 0;
    if (!begun_) return result;
    ring_.ring_fd = ring_.enter_ring_fd = above_standard(ring_.ring_fd);
    if (ring_.ring_fd < 0) return -errno;
    hold(ring_.ring_fd);  // a child would share it
    return 0;
  }
  void take(int fd, IoMethod method) {
    fd_ = fd;
    method_ = std::move(method);
  }

  int start(Request const& r) override {
    PERDURE_ASSERT(begun_ && fd_ >= 0 && r.tag != kNoTag);
    bool const fixed =
        method_.fixed_buffers && r.data >= fixed_.data() && r.data < fixed_.data() + fixed_.size();
    return begin([&](io_uring_sqe& sqe) { prepare(sqe, fd_, r, fixed); });
  }

  int start_sync(std::uint64_t tag) override {
    PERDURE_ASSERT(begun_ && fd_ >= 0 && tag != kNoTag);
    return begin([&](io_uring_sqe& sqe) { prepare_sync(sqe, fd_, tag); });
  }

  int wait(std::vector<Completion>& done) override {
    for (;;) {
      if (take_ends(done)) return 0;
      pollfd of[] = {{ring_.ring_fd, POLLIN, 0}, {wakes_, POLLIN, 0}};
      if (::poll(of, 2, kLooksAgain) < 0 && errno != EINTR) return errno;
      if (((of[0].revents | of[1].revents) & POLLNVAL) != 0) return EBADF;
      if ((of[1].revents & POLLIN) == 0) continue;
      std::uint64_t count = 0;
      if (::read(wakes_, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR)
        return errno;
      take_ends(done);
      return 0;
    }
  }

  void wake() override {
    std::uint64_t const one = 1;
    while (::write(wakes_, &one, sizeof one) < 0 && errno == EINTR) {
    }  // EAGAIN: 2^64 wakes stand already
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
  template <class Prepare>
  int begin(Prepare const& prepare_request) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {  // full of what was taken back
      if (int const error = submit(); error != 0) return error;
      sqe = io_uring_get_sqe(&ring_);
    }
    if (sqe == nullptr) return EBUSY;
    prepare_request(*sqe);
    int const error = submit();
    if (error == 0) return 0;
    // Its place stays in the queue and goes with a later request, when the memory may be gone: it
    // asks for nothing then.
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, kNoTag);
    return error;
  }

  /// 0 once the kernel has taken all that was prepared.
  int submit() {
    for (;;) {
      int const result = io_uring_submit(&ring_);
      if (io_uring_sq_ready(&ring_) == 0) return 0;
      if (result < 0 && result != -EINTR && result != -EAGAIN) return -result;
    }
  }

  /// Whether there were any.
  bool take_ends(std::vector<Completion>& done) {
    bool any = false;
    for (io_uring_cqe* cqe = nullptr; io_uring_peek_cqe(&ring_, &cqe) == 0 && cqe != nullptr;
         cqe = nullptr) {
      std::uint64_t const tag = io_uring_cqe_get_data64(cqe);
      if (tag != kNoTag) done.push_back({tag, cqe->res});
      any |= tag != kNoTag;
      io_uring_cqe_seen(&ring_, cqe);
    }
    return any;
  }

  io_uring ring_{};
  bool begun_ = false;
  int wakes_ = -1;  // an eventfd
  std::span<std::byte> fixed_;
};

Status failed(std::string const& path, int error) {
  Code const code = error == ENOENT   ? Code::not_found
                    : error == ENOSPC ? Code::no_space
                                      : Code::io_error;
  return {code, "file " + path + ": " + std::strerror(error)};
}

void add(std::string& to, std::string const& what) {
  if (!to.empty()) to += "; ";
  to += what;
}

/// File systems that refuse O_DIRECT do so when it is set; some only at the first transfer.
void ask_for_direct(int fd, IoMethod& method) {
  int const flags = ::fcntl(fd, F_GETFL);
  if (::fcntl(fd, F_SETFL, flags | O_DIRECT) == 0) {
    alignas(kBlock) std::byte probe[kBlock];
    method.direct = ::pread(fd, probe, sizeof probe, 0) >= 0 || errno != EINVAL;
    if (method.direct || ::fcntl(fd, F_SETFL, flags) == 0) {
      if (!method.direct) add(method.why_not, "O_DIRECT is refused here (EINVAL)");
      return;
    }
  }
  add(method.why_not, std::string("O_DIRECT is refused here (") + std::strerror(errno) + ")");
}

/// The descriptor is the device's once nothing can fail any more.
std::unique_ptr<BlockDevice> device_over(pm::Fd fd, IoOptions const& options) {
  IoMethod method;
  if (options.direct) ask_for_direct(fd.get(), method);
  if (options.io_uring) {
    auto ring = std::make_unique<RingDevice>();
    int const result = ring->begin();
    if (result == 0) {
      method.io_uring = true;
      ring->take(fd.release(), std::move(method));
      return ring;
    }
    add(method.why_not, std::string("io_uring is refused here (") + std::strerror(-result) + ")");
  }
  auto plain = std::make_unique<PlainDevice>(-1, std::move(method));
  plain->take(fd.release());
  return plain;
}

class FileName final : public NewName {
 public:
  explicit FileName(pm::NewFile file) : file_(std::move(file)) {}
  Status keep() override { return file_.keep(); }
  void remove() override { file_.remove(); }

 private:
  pm::NewFile file_;
};

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

Result<std::unique_ptr<BlockDevice>> open_device(std::string const& path, OpenMode mode,
                                                 IoOptions const& options) {
  if (mode == OpenMode::create) {
    auto made = make_device(path, {}, options);
    if (!made) return made.status();
    if (Status s = made->name->keep(); !s.ok()) return s;
    return std::move(made->device);
  }
  bool const writing = mode == OpenMode::read_write;
  auto fd = pm::open_file("file", path, writing, writing ? pm::Lock::exclusive : pm::Lock::shared);
  if (!fd) return fd.status();
  return device_over(std::move(*fd), options);
}

Result<NewDevice> make_device(std::string const& path, pm::MakeOptions const& make,
                              IoOptions const& options) {
  auto made = pm::NewFile::make("file", path, make);
  if (!made) return made.status();
  // The name first: where memory lacks, what was made goes while it is locked.
  auto name = std::make_unique<FileName>(std::move(made->second));
  return NewDevice{device_over(std::move(made->first), options), std::move(name)};
}

}  // namespace perdure::wal
