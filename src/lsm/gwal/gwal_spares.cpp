#include "lsm/gwal/gwal_spares.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "base/caught.hpp"
#include "base/own_thread.hpp"
#include "base/process.hpp"

namespace perdure::lsm {

/// A file, and the thread that makes it.
struct GwalSpares::Making {
  Making(std::string path, std::uint64_t size)
      : bytes(size), thread(own_thread([this, path = std::move(path)] { make(path); })) {}

  void make(std::string const& path) {
    auto mapping = caught([&] { return pm::Mapping::create(path, bytes, bytes, {}, {}); });
    if (mapping.ok() && mapping->keep().ok()) made = std::move(mapping).value();
  }

  Making* aside = nullptr;  // put_aside()
  std::uint64_t const bytes;
  std::optional<pm::Mapping> made;  // the thread's, until it has ended
  std::thread thread;
};

GwalSpares::GwalSpares(std::string made, std::uint32_t most, std::uint64_t usual_bytes)
    : made_(std::move(made)),
      most_(most),
      least_bytes_(usual_bytes),
      most_bytes_(2 * usual_bytes),
      process_(this_process()) {}

GwalSpares::~GwalSpares() {
  if (ours()) {
    clear();
  } else if (making_ != nullptr) {
    put_aside(std::move(making_));  // its thread is elsewhere
  }
}

bool GwalSpares::ours() const { return process_ == this_process(); }

bool GwalSpares::wants(std::uint64_t bytes) {
  MutexLock const lock(mutex_);
  if (bytes < least_bytes_ || bytes > most_bytes_ || named_ >= most_) return false;
  ++named_;
  return true;
}

void GwalSpares::wants_no_more() {
  MutexLock const lock(mutex_);
  --named_;
}

void GwalSpares::put(Spare spare) {
  MutexLock const lock(mutex_);
  free_.push_back(std::move(spare));
}

void GwalSpares::prepare(std::uint64_t bytes) {
  if (!ours()) return;
  MutexLock const making(making_mutex_);
  if (making_ != nullptr) return;
  {
    MutexLock const lock(mutex_);
    bool const there = std::any_of(free_.begin(), free_.end(),
                                   [&](Spare const& s) { return s.mapping.size() >= bytes; });
    if (there || bytes > most_bytes_ || most_ == 0) return;
    ++named_;
  }
  try {
    making_ = std::make_unique<Making>(made_, bytes);
  } catch (std::system_error const&) {  // no more threads
    wants_no_more();
  }
}

std::optional<GwalSpares::Spare> GwalSpares::take(std::uint64_t bytes) {
  if (auto spare = take_free(bytes)) return spare;
  return take_made(bytes);
}

std::optional<GwalSpares::Spare> GwalSpares::take_free(std::uint64_t bytes) {
  MutexLock const lock(mutex_);
  auto const fits = std::find_if(free_.begin(), free_.end(),
                                 [&](Spare const& s) { return s.mapping.size() >= bytes; });
  if (fits == free_.end()) return std::nullopt;
  std::optional<Spare> taken = std::move(*fits);
  free_.erase(fits);
  --named_;
  return taken;
}

std::optional<GwalSpares::Spare> GwalSpares::take_made(std::uint64_t bytes) {
  MutexLock const making(making_mutex_);
  if (making_ == nullptr || making_->bytes < bytes) return std::nullopt;
  making_->thread.join();
  std::unique_ptr<Making> const made = std::move(making_);
  wants_no_more();
  if (!made->made) return std::nullopt;
  return Spare{made_, std::move(*made->made)};
}

bool GwalSpares::is_making() {
  MutexLock const making(making_mutex_);
  return making_ != nullptr;
}

void GwalSpares::trim(std::size_t left) {
  if (!ours()) return;
  MutexLock const lock(mutex_);
  while (free_.size() > left) {
    ::unlink(free_.back().path.c_str());
    free_.pop_back();
    --named_;
  }
}

bool GwalSpares::clear() {
  if (!ours()) return false;  // nor the locks
  bool any = is_making();  // what could not be made took room meanwhile, too
  if (auto const made = take_made(0)) ::unlink(made->path.c_str());
  MutexLock const lock(mutex_);
  any |= !free_.empty();
  for (Spare const& spare : free_) ::unlink(spare.path.c_str());
  named_ -= static_cast<std::uint32_t>(free_.size());
  free_.clear();
  return any;
}

}  // namespace perdure::lsm
