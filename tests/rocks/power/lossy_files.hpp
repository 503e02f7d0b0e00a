// RocksDB's files on a disk that loses power: what was not synced is gone, of files and of names.
// Invariant: keep_what_lasts() leaves the directory as a disk would that wrote nothing by itself:
// of each file as much as was synced last, under the names that its directory had when that was
// synced last.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace perdure::test {

class LossyFiles final : public rocksdb::FileSystemWrapper {
 public:
  using IOStatus = rocksdb::IOStatus;
  using IOOptions = rocksdb::IOOptions;
  using Context = rocksdb::IODebugContext;

  /// What lies below `directory`. Each file has another name in `store`, where its bytes outlive
  /// its own. `asked` hears of each change, and says whether the power is still there.
  LossyFiles(std::string directory, std::string store, std::function<bool()> asked)
      : FileSystemWrapper(rocksdb::FileSystem::Default()),
        directory_(std::move(directory)),
        store_(std::move(store)),
        asked_(std::move(asked)) {
    std::filesystem::create_directories(store_);
  }
  [[nodiscard]] char const* Name() const override { return "LossyFiles"; }

  /// After the power failed, and whoever used them is gone.
  void keep_what_lasts() {
    std::lock_guard const lock(mutex_);
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    now_.clear();
    for (auto const& [name, file] : lasting_) {
      std::filesystem::create_directories(std::filesystem::path(name).parent_path());
      std::filesystem::copy_file(file->bytes_at, name);
      std::filesystem::resize_file(name, file->synced);
      now_[name] = add(name);
      now_[name]->synced = file->synced;
    }
    lasting_ = now_;
  }

  IOStatus NewWritableFile(std::string const& name, rocksdb::FileOptions const& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           Context* context) override {
    if (!is_ours(name)) return target()->NewWritableFile(name, options, result, context);
    if (!asked_()) return no_power();
    if (auto s = target()->NewWritableFile(name, options, result, context); !s.ok()) return s;
    std::lock_guard const lock(mutex_);
    now_[name] = add(name);
    wrap(now_[name], result);
    return IOStatus::OK();
  }
  IOStatus ReopenWritableFile(std::string const& name, rocksdb::FileOptions const& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              Context* context) override {
    if (!is_ours(name)) return target()->ReopenWritableFile(name, options, result, context);
    if (!asked_()) return no_power();
    if (auto s = target()->ReopenWritableFile(name, options, result, context); !s.ok()) return s;
    std::lock_guard const lock(mutex_);
    if (!now_.contains(name)) now_[name] = add(name);
    wrap(now_[name], result);
    return IOStatus::OK();
  }
  IOStatus DeleteFile(std::string const& name, IOOptions const& options,
                      Context* context) override {
    return change(
        name, [&] { return target()->DeleteFile(name, options, context); },
        [&] { now_.erase(name); });
  }
  IOStatus RenameFile(std::string const& from, std::string const& to, IOOptions const& options,
                      Context* context) override {
    return change(
        to, [&] { return target()->RenameFile(from, to, options, context); },
        [&] {
          now_[to] = now_[from];
          now_.erase(from);
        });
  }
  IOStatus LinkFile(std::string const& from, std::string const& to, IOOptions const& options,
                    Context* context) override {
    return change(
        to, [&] { return target()->LinkFile(from, to, options, context); },
        [&] { now_[to] = now_[from]; });
  }
  IOStatus NewDirectory(std::string const& name, IOOptions const& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result, Context* context) override {
    auto s = target()->NewDirectory(name, options, result, context);
    if (s.ok() && is_ours(name + "/"))
      *result = std::make_unique<Directory>(*this, name, std::move(*result));
    return s;
  }

 private:
  struct File {
    std::string bytes_at;  // in the store
    std::uint64_t synced = 0;
  };
  using FilePtr = std::shared_ptr<File>;
  using Names = std::map<std::string, FilePtr>;

  class Writable final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    Writable(LossyFiles& disk, FilePtr file, std::unique_ptr<rocksdb::FSWritableFile> target)
        : FSWritableFileOwnerWrapper(std::move(target)), disk_(disk), file_(std::move(file)) {}
    using FSWritableFileOwnerWrapper::Append;
    IOStatus Append(rocksdb::Slice const& data, IOOptions const& options,
                    Context* context) override {
      return disk_.asked_() ? FSWritableFileOwnerWrapper::Append(data, options, context)
                            : no_power();
    }
    IOStatus Sync(IOOptions const& options, Context* context) override {
      return synced(FSWritableFileOwnerWrapper::Flush(options, context));
    }
    IOStatus Fsync(IOOptions const& options, Context* context) override {
      return synced(FSWritableFileOwnerWrapper::Flush(options, context));
    }

   private:
    IOStatus synced(IOStatus s) {
      if (!disk_.asked_()) return no_power();
      std::lock_guard const lock(disk_.mutex_);
      if (s.ok()) file_->synced = std::filesystem::file_size(file_->bytes_at);
      return s;
    }
    LossyFiles& disk_;
    FilePtr file_;
  };

  class Directory final : public rocksdb::FSDirectory {
   public:
    Directory(LossyFiles& disk, std::string name, std::unique_ptr<rocksdb::FSDirectory> target)
        : disk_(disk), name_(std::move(name)), target_(std::move(target)) {}
    IOStatus Fsync(IOOptions const&, Context*) override {
      if (!disk_.asked_()) return no_power();
      std::lock_guard const lock(disk_.mutex_);
      std::erase_if(disk_.lasting_, [&](auto const& one) { return is_here(one.first); });
      for (auto const& one : disk_.now_)
        if (is_here(one.first)) disk_.lasting_.insert(one);
      return IOStatus::OK();
    }
    std::size_t GetUniqueId(char* id, std::size_t size) const override {
      return target_->GetUniqueId(id, size);
    }

   private:
    [[nodiscard]] bool is_here(std::string const& name) const {
      return std::filesystem::path(name).parent_path() ==
             std::filesystem::path(name_ + "/x").parent_path();
    }
    LossyFiles& disk_;
    std::string const name_;
    std::unique_ptr<rocksdb::FSDirectory> target_;
  };

  static IOStatus no_power() { return IOStatus::IOError("the power is off"); }
  [[nodiscard]] bool is_ours(std::string const& name) const {
    return name.starts_with(directory_ + "/") &&
           std::filesystem::path(name).filename().string().find("LOG") == std::string::npos;
  }
  FilePtr add(std::string const& name) {
    auto file = std::make_shared<File>();
    file->bytes_at = store_ + "/" + std::to_string(next_++);
    std::filesystem::create_hard_link(name, file->bytes_at);
    return file;
  }
  void wrap(FilePtr const& file, std::unique_ptr<rocksdb::FSWritableFile>* result) {
    *result = std::make_unique<Writable>(*this, file, std::move(*result));
  }
  template <class Doing, class Known>
  IOStatus change(std::string const& name, Doing const& doing, Known const& known) {
    if (!is_ours(name)) return doing();
    if (!asked_()) return no_power();
    std::lock_guard const lock(mutex_);
    auto s = doing();
    if (s.ok()) known();
    return s;
  }

  std::string const directory_, store_;
  std::function<bool()> const asked_;
  std::mutex mutex_;  // guards the rest
  Names now_, lasting_;
  std::uint64_t next_ = 0;
};

}  // namespace perdure::test
