#include "store/store_impl.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/assert.hpp"
#include "exec/cuda/cuda_info.hpp"
#include "store/btree/btree_store.hpp"
#include "store/checks.hpp"
#include "store/dash/dash_store.hpp"
#include "store/gphash/gphash_store.hpp"
#include "store/index_name.hpp"
#include "store/values_view.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure {
namespace {

pm::MapOptions map_options(OpenOptions const& open) {
  return {open.read_only && !open.live, open.lock_memory, open.device == Device::cuda, open.live};
}

/// Of what there is no moment between two changes, or a change that may be taken back, there is no
/// live look.
Status check_live(std::string const& path, OpenOptions const& options) {
  if (!options.live) return {};
  if (options.repair)
    return {Code::invalid_argument,
            "pool " + path +
                ": a live look changes nothing, so it repairs nothing; open it "
                "without live to repair it"};
  auto header = pm::Pool::header_of(path);
  if (!header) return header.status();
  if (header->index != static_cast<std::uint8_t>(Index::gphash)) {
    return {Code::unsupported,
            "pool " + path + " has index " + name(static_cast<Index>(header->index)) +
                ", whose operations take effect one by one: there is no moment between two "
                "batches to look at it live; close it first"};
  }
  if (!options.log_dir.empty() ||
      header->durability == static_cast<std::uint8_t>(Durability::power)) {
    return {Code::unsupported,
            "pool " + path +
                " is of durability power: what its file shows may not be in its log "
                "yet, so there is no live look at it; have the process that has it open take a "
                "snapshot"};
  }
  return {};
}

/// Asked before a file is touched.
Status check_device(Device device) { return device == Device::cpu ? Status{} : exec::check_gpu(); }

Index index_of(pm::Pool const& pool) { return static_cast<Index>(pool.header().index); }

Status nothing_made(Status const& s) {
  bool const damaged = s.code() == Code::corrupt;
  return {s.code(),
          s.message() + "; no pool was made" + (damaged ? ": restore another snapshot" : "")};
}

/// The snapshot's pool under a new name, with everything in it as it was.
Result<pm::Pool> load(std::string const& snapshot, std::string const& path,
                      pm::MakeOptions const& make, pm::MapOptions const& options) {
  auto from = wal::open_snapshot(snapshot);
  if (!from) return from.status();
  // none of the system's where its disk is another (wal/disk/disk.hpp)
  pm::FileId const source = pm::id_of(snapshot);
  if (source != pm::FileId{} && source == pm::id_of(path))
    return Status{Code::invalid_argument,
                  "pool " + path + " is the snapshot itself; name another file"};
  return pm::Pool::create_from(
      path, from->info.bytes, make, options,
      [&](std::span<std::byte> into) { return load_image(*from->file, from->info, into); });
}

}  // namespace

Status named(Store::Impl const& impl, Status status) noexcept {
  try {
    return {status.code(), "pool " + impl.path + ": " + status.message()};
  } catch (...) {
    return status;
  }
}

Status Store::Impl::check_process() const {
  if (process == this_process()) return {};
  return {
      Code::closed,
      "pool " + path + " was opened by another process, which forked this one (" +
          std::to_string(::getpid()) +
          "): nothing was done. A store belongs to the process that opened it; open a pool of this "
          "process's own, or this one when it is closed there"};
}

namespace {

Status no_order(Store::Impl const& impl) {
  return {Code::unsupported, "pool " + impl.path + ": index " + name(impl.index) +
                                 " keeps no order of keys; scan goes through all records, and a "
                                 "pool of index btree has ranges"};
}

}  // namespace

Result<std::unique_ptr<ValuesView::State>> Store::Impl::view(Call const&, std::span<KeyStatus>) {
  return Status{Code::unsupported, "pool " + path + " has index " + name(index) +
                                       ", which has no views of values; use get, which copies"};
}
Result<RangePage> Store::Impl::range(RangeQuery const&, std::atomic<bool> const*) {
  return no_order(*this);
}
Result<std::uint64_t> Store::Impl::count_range(RangeQuery const&) { return no_order(*this); }

Status Store::Impl::close_noted(Impl& impl) noexcept {
  auto const begin = events::Clock::now();
  Status how = caught([&] { return impl.close(); });
  // A transaction or session that is open keeps it open: that is no end.
  bool const still_open = how.code() == Code::busy;
  if (!still_open && !impl.end_noted.exchange(true))
    events::closed(impl.path, how, events::seconds_since(begin));
  return how;
}

/// Put aside, it stays reachable, and nothing of it is run again: who held its locks, and its
/// threads, are elsewhere.
void Store::Impl::release(std::unique_ptr<Impl> impl) noexcept {
  if (!impl) return;
  if (impl->process == this_process()) {
    log::Delivery const delivery;
    impl->end_holder();  // nobody has the store any more to end it by
    static_cast<void>(close_noted(*impl));
    impl.reset();  // the locks of its threads go before the delivery
    return;
  }
  PERDURE_ASSERT(impl->aside == nullptr);  // once is enough
  put_aside(std::move(impl));
}

Result<std::unique_ptr<Store::Impl>> Store::Impl::open_by_index(std::string const& path,
                                                                OpenOptions const& options,
                                                                pm::Pool pool) {
  switch (index_of(pool)) {
    case Index::gphash: return GphashStore::open(path, options, std::move(pool));
    case Index::dash_eh:
    case Index::dash_lh: return DashStore::open(path, options, std::move(pool));
    case Index::btree: break;
  }
  PERDURE_ASSERT(index_of(pool) == Index::btree);  // Pool::open() knows no others
  return BtreeStore::open(path, options, std::move(pool));
}

Result<std::unique_ptr<Store::Impl>> Store::Impl::restore_by_index(std::string const& path,
                                                                   RestoreOptions const& restore,
                                                                   OpenOptions const& open,
                                                                   pm::Pool pool) {
  switch (index_of(pool)) {
    case Index::gphash: return GphashStore::restore(path, restore, open, std::move(pool));
    case Index::dash_eh:
    case Index::dash_lh: return DashStore::restore(path, restore, open, std::move(pool));
    case Index::btree: break;
  }
  PERDURE_ASSERT(index_of(pool) == Index::btree);
  return BtreeStore::restore(path, restore, open, std::move(pool));
}

Result<std::unique_ptr<Store::Impl>> Store::Impl::create(std::string const& path,
                                                         CreateOptions const& create,
                                                         OpenOptions const& open) {
  if (open.read_only)
    return Status{Code::invalid_argument, "a new pool cannot be opened read-only"};
  if (create.values != Values::heap && create.index != Index::btree)
    return Status{Code::invalid_argument, std::string("index ") + name(create.index) +
                                              " keeps its values in the heap; leave values out, or "
                                              "choose index btree"};
  if (create.persist != Persist::minimal && create.index != Index::btree)
    return Status{Code::invalid_argument, std::string("index ") + name(create.index) +
                                              " is durable itself; leave persist out, or choose "
                                              "index btree"};
  if (create.key_order != KeyOrder::bytes && create.index != Index::btree)
    return Status{Code::invalid_argument, std::string("index ") + name(create.index) +
                                              " keeps no order of keys; leave key_order out, or "
                                              "choose index btree"};
  switch (create.index) {
    case Index::gphash: return GphashStore::create(path, create, open);
    case Index::dash_eh:
    case Index::dash_lh: return DashStore::create(path, create, open);
    case Index::btree: return BtreeStore::create(path, create, open);
  }
  return Status{Code::invalid_argument, "index " + std::to_string(static_cast<int>(create.index)) +
                                            ": choose gphash, dash_eh, dash_lh or btree"};
}

Result<std::unique_ptr<Store::Impl>> Store::Impl::open(std::string const& path,
                                                       OpenOptions const& options) {
  if (options.repair && options.read_only)
    return Status{Code::invalid_argument,
                  "pool " + path + ": a repair writes; open it without read_only"};
  if (Status s = check_live(path, options); !s.ok()) return s;
  if (!options.log_dir.empty()) return GphashStore::open_logged(path, options);
  auto const begin = std::chrono::steady_clock::now();
  if (Status s = check_device(options.device); !s.ok()) return s;
  auto pool = pm::Pool::open(path, map_options(options));
  if (!pool) return pool.status();
  double const map_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  auto impl = open_by_index(path, options, std::move(*pool));
  PERDURE_ASSERT(!impl || (*impl)->path == path);
  if (impl) (*impl)->recovery.map_seconds = map_seconds;
  return impl;
}

Result<std::unique_ptr<Store::Impl>> Store::Impl::restore(std::string const& snapshot,
                                                          std::string const& path,
                                                          RestoreOptions const& restore,
                                                          OpenOptions const& open) {
  auto const bad = [](std::string what) { return Status{Code::invalid_argument, std::move(what)}; };
  if (open.read_only) return bad("a restored pool cannot be opened read-only");
  if (!open.log_dir.empty())
    return bad("log_dir " + open.log_dir + ": to restore, name it in RestoreOptions");
  if (Status s = check_device(open.device); !s.ok()) return s;
  auto pool = load(snapshot, path, make_options(restore.file), map_options(open));
  if (!pool) return nothing_made(pool.status());
  auto impl = restore_by_index(path, restore, open, std::move(*pool));
  if (!impl) return nothing_made(impl.status());
  return impl;
}

}  // namespace perdure
