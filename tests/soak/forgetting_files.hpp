// A disk of files that forgets what was not synced, also when its process is killed: beside each
// file of a log directory DIR that the process sees lies what of it is durable, in DIR-medium, and
// beside the directory the names that are, in DIR-names. A write that asks for durability goes to
// both once it has ended, a sync brings one to the other, and cut_power(), in another process,
// leaves of all that differs any sectors, old or new. Now and then a request fails. Invariant: what
// was acknowledged as durable is in DIR-medium, under a name in DIR-names, before anybody is told.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include "wal/disk/disk.hpp"

namespace perdure::test {

class ForgettingFiles final : public wal::Disk {
 public:
  ForgettingFiles() { wal::use_disk(this); }
  ~ForgettingFiles() override { wal::use_disk(nullptr); }
  ForgettingFiles(ForgettingFiles const&) = delete;
  ForgettingFiles& operator=(ForgettingFiles const&) = delete;

  /// From now on one request in `one_in` ends with EIO or ENOSPC, of a write any sectors done; 0:
  /// none does.
  void fail(std::uint64_t seed, std::uint64_t one_in);
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  /// A planted fault: some durable writes are acknowledged and not made durable.
  void lie() { lies_ = true; }

  /// The power fails now, with nobody having the files open. Answers how many sectors were
  /// forgotten.
  static std::uint64_t cut_power(std::string const& directory, std::mt19937_64& random);
  static void remove(std::string const& directory);

  Result<std::unique_ptr<wal::BlockDevice>> open(std::string const& path, wal::OpenMode mode,
                                                 wal::IoOptions const& options) override;
  Result<wal::NewDevice> make(std::string const& path, pm::MakeOptions const& make,
                              wal::IoOptions const& options) override;
  Result<bool> make_directory(std::string const& path, mode_t mode) override;
  Result<bool> forgets(std::string const&) override { return false; }
  Status sync_directory_of(std::string const& path) override;

  /// The errno of the next request; 0: it goes well. Asked by the files.
  int next_failure();
  [[nodiscard]] bool lies();

 private:
  std::atomic<std::uint64_t> seed_ = 0, one_in_ = 0, asked_ = 0, failures_ = 0, told_ = 0;
  std::atomic<bool> lies_ = false;
};

}  // namespace perdure::test
