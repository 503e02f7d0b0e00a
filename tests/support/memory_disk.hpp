// A disk in memory that does what it is asked, at once: for tests that open a log directory, or a
// snapshot, thousands of times, each time with other bytes in it. Invariant: a file's bytes are
// those that were laid or written last; the disk is in place of the system's as long as it lives.
#pragma once

#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "wal/disk/renaming_disk.hpp"

namespace perdure::test {

class MemoryDisk final : public wal::RenamingDisk {
 public:
  using Bytes = std::vector<std::byte>;

  MemoryDisk() { wal::use_disk(this); }
  ~MemoryDisk() override { wal::use_disk(nullptr); }
  MemoryDisk(MemoryDisk const&) = delete;
  MemoryDisk& operator=(MemoryDisk const&) = delete;

  /// Nobody has it open.
  void lay(std::string const& path, Bytes const& bytes) {
    files_[path] = std::make_shared<Bytes>(bytes);
  }
  [[nodiscard]] Bytes const& bytes_of(std::string const& path) const { return *files_.at(path); }

  Result<std::unique_ptr<wal::BlockDevice>> open(std::string const& path, wal::OpenMode mode,
                                                 wal::IoOptions const& /*options*/) override {
    if (mode == wal::OpenMode::create) files_[path] = std::make_shared<Bytes>();
    auto const file = files_.find(path);
    if (file == files_.end())
      return Status{Code::not_found, "file " + path + ": no such file or directory"};
    return std::unique_ptr<wal::BlockDevice>(std::make_unique<Device>(file->second));
  }
  Result<bool> make_directory(std::string const& /*path*/, mode_t /*mode*/) override {
    return false;
  }
  Result<bool> forgets(std::string const& /*directory*/) override { return false; }
  Status sync_directory_of(std::string const& /*path*/) override { return {}; }
  Result<std::optional<wal::Found>> look(std::string const& path, std::size_t head_bytes) override {
    auto const file = files_.find(path);
    if (file == files_.end()) return std::optional<wal::Found>{};
    Bytes head = *file->second;
    head.resize(std::min(head.size(), head_bytes));
    return std::optional<wal::Found>{wal::Found{true, std::move(head)}};
  }
  Status rename(std::string const& from, std::string const& to, bool /*replace*/) override {
    files_[to] = std::exchange(files_[from], nullptr);
    files_.erase(from);
    return {};
  }
  Status remove(std::string const& path) override {
    files_.erase(path);
    return {};
  }

 private:
  class Device final : public wal::BlockDevice {
   public:
    explicit Device(std::shared_ptr<Bytes> file) : file_(std::move(file)) {
      method_.why_not = "in memory";
    }
    int start(wal::Request const& r) override {
      std::lock_guard const lock(mutex_);
      std::uint64_t bytes = r.bytes;
      if (r.verb == wal::Verb::read) {
        bytes =
            r.offset < file_->size() ? std::min<std::uint64_t>(bytes, file_->size() - r.offset) : 0;
        if (bytes > 0) std::memcpy(r.data, file_->data() + r.offset, bytes);
      } else {
        if (file_->size() < r.offset + bytes) file_->resize(r.offset + bytes);
        std::memcpy(file_->data() + r.offset, r.data, bytes);
      }
      done_.push_back({r.tag, static_cast<std::int64_t>(bytes)});
      changed_.notify_all();
      return 0;
    }
    int wait(std::vector<wal::Completion>& done) override {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return woken_ || !done_.empty(); });
      woken_ = false;
      done.insert(done.end(), done_.begin(), done_.end());
      done_.clear();
      return 0;
    }
    void wake() override {
      std::lock_guard const lock(mutex_);
      woken_ = true;
      changed_.notify_all();
    }
    int sync() override { return 0; }
    void register_buffer(std::span<std::byte> /*buffer*/) override {}
    [[nodiscard]] std::uint64_t bytes() const override {
      std::lock_guard const lock(mutex_);
      return file_->size();
    }
    [[nodiscard]] wal::IoMethod const& method() const override { return method_; }

   private:
    mutable std::mutex mutex_;  // guards the rest
    std::condition_variable changed_;
    std::shared_ptr<Bytes> const file_;
    std::vector<wal::Completion> done_;
    bool woken_ = false;
    wal::IoMethod method_;
  };

  std::map<std::string, std::shared_ptr<Bytes>> files_;
};

}  // namespace perdure::test
