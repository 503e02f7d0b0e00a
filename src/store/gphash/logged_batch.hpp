// Durability `power`: what the store does with its log. A batch is executed on the pool first; then
// the operations of it that took effect are logged, in order, so that replaying them on the image
// they were executed on takes effect again, all of them, with the same outcome.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "batch/call.hpp"
#include "perdure/store.h"
#include "pm/mapping.hpp"
#include "wal/batch_record.hpp"
#include "wal/log_dir.hpp"

namespace perdure {

/// Whether an operation with this status has changed something.
[[nodiscard]] bool took_effect(OpKind kind, std::uint8_t status);

/// The operations of a batch that changed something. Refers to the batch's columns where all did.
class Effective {
 public:
  Effective(Call const& call, std::span<std::uint8_t const> status);
  Effective(Effective const&) = delete;
  Effective& operator=(Effective const&) = delete;
  [[nodiscard]] wal::BatchOps const& ops() const { return ops_; }
  [[nodiscard]] bool empty() const { return ops_.keys.count == 0; }

 private:
  wal::BatchOps ops_;
  std::vector<OpKind> kinds_;
  wal::KeptColumn keys_, values_;
};

/// A batch of the log as the store runs it.
[[nodiscard]] Call call_of(wal::BatchOps const& ops);

struct RestoredPool {
  wal::Loaded loaded;
  pm::Mapping file;  // has its name only once it is kept
  wal::Lsn noted = 0;  // by the file that it replaces: the log had got there
};
/// Makes the pool file anew, to stand at `path`, from the newest image in the directory. Refuses to
/// replace anything but the same pool; its mode is kept, and where it is gone is that of the log.
Result<RestoredPool> restore_pool(wal::LogDir& power, std::string const& path,
                                  pm::MapOptions const& options);

}  // namespace perdure
