// Snapshots of a store, and pools made from them. Invariant: a snapshot holds whole batches, all of them
// acknowledged; a pool made from one is kept only when it has been opened, with its log where it has one.
#include <shared_mutex>

#include "log/snapshot_file.hpp"
#include "store/store_impl.hpp"
#include "store/world.hpp"

namespace perdure {
namespace {

Status nothing_made(Status const& s) {
  bool const damaged = s.code() == Code::corrupt;
  return {s.code(), s.message() + "; no pool was made" + (damaged ? ": restore another snapshot" : "")};
}

/// The snapshot's pool under a new name, with everything in it as it was.
Result<pm::Pool> load(std::string const& snapshot, std::string const& path, bool overwrite,
                      pm::MapOptions const& options) {
  auto from = log::open_snapshot(snapshot);
  if (!from) return from.status();
  return pm::Pool::create_from(path, from->info.bytes, overwrite, options,
                               [&](std::span<std::byte> into) { return load_image(*from->file, from->info, into); });
}

}  // namespace

/// Readers go on: nothing is written to the pool meanwhile, for writers wait.
Status Store::Impl::snapshot(std::string const& to, bool overwrite) {
  if (holds_world(transaction_thread_)) return held_by_this_thread();  // a snapshot holds no half of it
  std::lock_guard const no_writers(writers_);
  std::shared_lock const world(world_);
  if (Status s = check_open(false); !s.ok()) return s;
  if (!failed_.ok()) {
    return {Code::closed, "pool " + path + " gives no snapshot since an earlier failure (" + failed_.message() +
                              "): it may hold half of a batch; close and reopen it"};
  }
  log::ImageInfo info;
  info.pool_id = pool_.header().pool_id;
  if (power_) {
    info.at = power_->log().position();
    // Else the snapshot could hold a batch that the pool itself loses.
    if (Status s = power_->log().wait_durable(info.at.lsn); !s.ok()) return s;
  }
  return log::write_snapshot(to, overwrite, info, {pool_.base(), pool_.bytes()}, pool_.closed_head());
}

Result<std::unique_ptr<Store::Impl>> Store::Impl::restore(std::string const& snapshot, std::string const& path,
                                                          RestoreOptions const& restore, OpenOptions const& open) {
  auto const bad = [](std::string what) { return Status{Code::invalid_argument, std::move(what)}; };
  if (open.read_only) return bad("a restored pool cannot be opened read-only");
  if (!open.log_dir.empty()) return bad("log_dir " + open.log_dir + ": to restore, name it in RestoreOptions");
  if (Status s = can_run(open.device); !s.ok()) return s;
  auto pool = load(snapshot, path, restore.overwrite, {false, open.lock_memory, open.device == Device::cuda});
  if (!pool) return nothing_made(pool.status());
  CreateOptions create;
  create.durability = restore.durability.value_or(static_cast<Durability>(pool->header().durability));
  create.overwrite = restore.overwrite;
  create.log_dir = restore.log_dir;
  create.log_bytes = restore.log_bytes;
  if (Status s = check_log_dir(create.durability, create.log_dir); !s.ok()) return nothing_made(s);
  if (Status s = check_expected(path, open, pool->header()); !s.ok()) return nothing_made(s);

  auto impl = std::make_unique<Impl>(path, open, std::move(*pool));
  if (Status s = impl->open_restored(create); !s.ok()) return nothing_made(s);
  return impl;
}

Status Store::Impl::open_restored(CreateOptions const& create) {
  if (Status s = attach(); !s.ok()) return s;
  // Of its own identity, so that no log directory of the pool it comes from can be taken for its own.
  pool_.take_identity(static_cast<std::uint8_t>(create.durability));
  if (Status s = start(); !s.ok()) return s;
  if (Status s = recover(); !s.ok()) return s;
  if (Status s = create_log(create); !s.ok()) return s;
  Status const s = pool_.keep();
  if (!s.ok() && power_) {
    power_.reset();
    log::LogDir::remove(create.log_dir);
  }
  return s;
}

}  // namespace perdure
