// A disk in memory that gives files their names by renaming them, as pm::NewFile does with the
// system's. What stands in place of the system's disk in tests and in the explorer is made of it.
// Invariant: a file that is made has the name `PATH.perdure-partial` until it is kept; what is
// there is asked whether it may be replaced, and stays until then.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wal/disk/disk.hpp"

namespace perdure::wal {

/// What lies under a name.
struct Found {
  bool regular = false;
  std::vector<std::byte> head;  // of a regular file: its first bytes
};

class RenamingDisk : public Disk {
 public:
  Result<NewDevice> make(std::string const& path, pm::MakeOptions const& make,
                         IoOptions const& options) override {
    std::unique_ptr<BlockDevice> replaced;
    if (Status s = take_replaced(path, make, replaced); !s.ok()) return s;
    std::string const partial = pm::partial_name(path);
    if (Status s = remove_abandoned(partial); !s.ok()) return s;
    auto device = open(partial, OpenMode::create, options);
    if (!device) return device.status();
    return NewDevice{std::move(*device),
                     std::make_unique<Name>(*this, path, partial, std::move(replaced))};
  }

  /// Nothing where there is nothing.
  virtual Result<std::optional<Found>> look(std::string const& path, std::size_t head_bytes) = 0;
  virtual Status rename(std::string const& from, std::string const& to, bool replace) = 0;
  virtual Status remove(std::string const& path) = 0;

 private:
  static constexpr std::size_t kHead = kBlock;  // as much of a file as who asks what it is may read

  class Name final : public NewName {
   public:
    Name(RenamingDisk& disk, std::string path, std::string partial,
         std::unique_ptr<BlockDevice> replaced)
        : disk_(disk),
          path_(std::move(path)),
          partial_(std::move(partial)),
          replaces_(replaced != nullptr),
          replaced_(std::move(replaced)) {}
    Name(Name const&) = delete;
    Name& operator=(Name const&) = delete;
    ~Name() override {
      if (pending_) static_cast<void>(disk_.remove(partial_));
    }
    Status keep() override {
      if (!pending_) return {};
      if (Status s = disk_.rename(partial_, path_, replaces_); !s.ok()) return s;
      pending_ = false;
      replaced_.reset();
      return {};
    }
    void remove() override {
      static_cast<void>(disk_.remove(std::exchange(pending_, false) ? partial_ : path_));
    }

   private:
    RenamingDisk& disk_;
    std::string const path_, partial_;
    bool const replaces_;
    std::unique_ptr<BlockDevice> replaced_;  // so that nobody else opens it
    bool pending_ = true;
  };

  Status take_replaced(std::string const& path, pm::MakeOptions const& make,
                       std::unique_ptr<BlockDevice>& replaced) {
    auto const found = look(path, kHead);
    if (!found) return found.status();
    if (!found.value()) return {};
    if (!found.value()->regular)
      return {Code::invalid_argument, "file " + path + " is no regular file"};
    if (!make.overwrite && !make.force)
      return {Code::already_exists,
              "file " + path + " exists already; name another file, or pass overwrite"};
    if (make.may_replace && !make.force) {
      if (Status s = ask(make, path, found.value()->head); !s.ok()) return s;
    }
    auto there = open(path, OpenMode::read_write, {});
    if (!there) return there.status();
    replaced = std::move(*there);
    return {};
  }

  /// Through a file of the system's, for that is what is asked of.
  static Status ask(pm::MakeOptions const& make, std::string const& path,
                    std::vector<std::byte> const& head) {
    int const fd = ::memfd_create("head", MFD_CLOEXEC);
    bool const whole =
        fd >= 0 && ::write(fd, head.data(), head.size()) == static_cast<ssize_t>(head.size());
    Status const s =
        whole ? make.may_replace(fd)
              : Status{Code::io_error, "file " + path + ": its head: " + std::strerror(errno)};
    if (fd >= 0) ::close(fd);
    return s;
  }

  /// What a crash left. One that is open is somebody's.
  Status remove_abandoned(std::string const& partial) {
    auto const left = open(partial, OpenMode::read_write, {});
    if (left.status().code() == Code::not_found) return {};
    if (!left.ok()) return left.status();
    return remove(partial);
  }
};

}  // namespace perdure::wal
