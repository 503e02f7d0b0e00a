#include "pm/extension.hpp"

#include <algorithm>
#include <iterator>

#include "base/assert.hpp"
#include "base/own_thread.hpp"
#include "exec/pinning.hpp"

namespace perdure::pm {
namespace {

// Prepared at a time, and pinned in one call of the GPU's driver, which others wait for.
constexpr std::uint64_t kPiece = 64u << 20;
// A piece that nobody waits for is left to others while they have less than so many times of it.
constexpr std::uint64_t kLeft = 4;

}  // namespace

Extension::Extension(FileMemory file, std::uint64_t end, std::uint64_t granule)
    : file_(std::move(file)),
      piece_(std::max(kPiece, granule)),
      taken_(end),
      ready_(end),
      target_(end) {
  thread_ = own_thread([this] { serve(); });
}

Extension::~Extension() {
  PERDURE_ASSERT(is_here());
  {
    MutexLock const lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  MutexLock const lock(mutex_);  // which nobody else has any more
  for (auto const& [from, to] : pinned_) exec::unpin(file_.data + from, to - from);
  // A file that cannot be cut is longer than its root says, as after a crash.
  if (taken_ < ready_) static_cast<void>(cut(file_, taken_, ready_));
}

bool Extension::prepare(std::uint64_t to) {
  {
    MutexLock const lock(mutex_);
    if (refused_ || to <= target_) return !refused_;
    target_ = to;
  }
  changed_.notify_all();
  return true;
}

std::uint64_t Extension::take(std::uint64_t least, std::vector<Range>& pinned) {
  MutexLock const lock(mutex_);
  if (ready_ < least && !refused_) {
    needed_ = least;
    target_ = std::max(target_, least);
    changed_.notify_all();
    while (ready_ < least && !refused_) changed_.wait(mutex_);
    needed_ = 0;
  }
  pinned.insert(pinned.end(), pinned_.begin(), pinned_.end());
  pinned_.clear();
  PERDURE_ASSERT(taken_ <= ready_);
  taken_ = ready_;
  return taken_;
}

void Extension::serve() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stop_ && (refused_ || ready_ >= target_)) changed_.wait(mutex_);
    if (stop_) return;
    std::uint64_t const from = ready_;
    std::uint64_t const to = std::min(from + piece_, target_);
    bool const hurried = needed_ > from;
    lock.unlock();
    bool const done = prepare_piece(from, to, hurried);
    lock.lock();
    if (done)
      ready_ = to;
    else
      refused_ = true;
    changed_.notify_all();
  }
}

bool Extension::prepare_piece(std::uint64_t from, std::uint64_t to, bool hurried) {
  try {
    std::uint64_t const left = kLeft * (to - from);
    bool const of_system = file_.medium != Medium::hugetlbfs;  // whose pages were set aside before
    if (!hurried &&
        ((of_system && available_memory() < left) || free_on_file_system(file_.fd) < left))
      return false;
    if (file_.options.gpu) {  // room for the range, before there is one
      MutexLock const lock(mutex_);
      pinned_.reserve(pinned_.size() + 1);
    }
    // While nobody waits, most cores are left to whatever the program does.
    unsigned const cores = std::max(1u, std::thread::hardware_concurrency());
    unsigned const threads = hurried ? most_growing_threads() : (cores + 3) / 4;
    if (!extend(file_, from, to, threads).ok()) return false;
  } catch (std::exception const&) {  // no memory for a message, say
    return false;
  }
  if (file_.options.gpu) {
    MutexLock const lock(mutex_);
    pinned_.emplace_back(from, to);
  }
  return true;
}

}  // namespace perdure::pm
