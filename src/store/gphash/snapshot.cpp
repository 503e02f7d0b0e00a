// Snapshots of a store, and pools made from them. Invariant: a snapshot holds whole batches, all of
// them acknowledged; a pool made from one is kept only when it has been opened, with its log where
// it has one.
#include "base/hooks.hpp"
#include "store/checks.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/store_lock.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure {
/// Readers go on: nothing is written to the pool meanwhile, for writers wait.
Status GphashStore::snapshot(std::string const& to, SnapshotOptions const& how) {
  if (store_lock_.is_held_here()) return held_by_this_thread();  // a snapshot holds no half of it
  WriterLock const no_writers(store_lock_);
  SharedLock const store_lock(store_lock_);
  if (Status s = check_open(false); !s.ok()) return s;
  if (!failed_.ok()) {
    return {Code::closed, "pool " + path + " gives no snapshot since an earlier failure (" +
                              failed_.message() +
                              "): it may hold half of a batch; close and reopen it"};
  }
  wal::ImageInfo info;
  info.pool_id = pool_.header().pool_id;
  if (power_) {
    info.at = power_->log().position();
    // Else the snapshot could hold a batch that the pool itself loses.
    Status const logged =
        mutated("snapshot_without_its_log") ? Status{} : power_->log().wait_durable(info.at.lsn);
    if (!logged.ok()) return logged;
  }
  return wal::write_snapshot(to, make_options(how), info, {pool_.base(), pool_.bytes()},
                             pool_.closed_head(closing_note()));
}

Result<std::unique_ptr<Store::Impl>> GphashStore::restore(std::string const& path,
                                                          RestoreOptions const& restore,
                                                          OpenOptions const& open, pm::Pool pool) {
  if (Status s = can_run(open.device); !s.ok()) return s;
  CreateOptions create;
  create.durability =
      restore.durability.value_or(static_cast<Durability>(pool.header().durability));
  create.file.overwrite = restore.file.overwrite;
  create.file.force = restore.file.force;
  create.file.mode = restore.file.mode;
  create.log.dir = restore.log.dir;
  create.log.bytes = restore.log.bytes;
  if (Status s = check_log_dir(path, create.durability, create.log.dir); !s.ok()) return s;
  if (Status s = check_expected(path, open, pool.header()); !s.ok()) return s;
  auto store = std::make_unique<GphashStore>(path, open, std::move(pool));
  if (Status s = store->open_restored(create); !s.ok()) return s;
  store->now_open();
  return std::unique_ptr<Impl>(std::move(store));
}

Status GphashStore::open_restored(CreateOptions const& create) {
  begin_opening();
  if (Status s = attach(); !s.ok()) return s;
  // Of its own identity, so that no log directory of the pool it comes from can be taken for its
  // own.
  pool_.take_identity(static_cast<std::uint8_t>(create.durability));
  if (Status s = start(); !s.ok()) return s;
  if (Status s = recover(); !s.ok()) return s;
  if (Status s = create_log(create); !s.ok()) return s;
  return keep();
}

}  // namespace perdure
