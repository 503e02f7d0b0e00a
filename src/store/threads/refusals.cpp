// What stores of host threads do not do, each by name and with the way out.
#include "store/threads/refusals.hpp"

#include "exec/recorded_litmus.hpp"
#include "store/checks.hpp"
#include "store/index_name.hpp"

namespace perdure::threads {
namespace {

Status unsupported(std::string what) { return {Code::unsupported, std::move(what)}; }
}  // namespace

Status check_create(std::string const& path, CreateOptions const& create) {
  std::string const with = std::string("index ") + name(create.index);
  Shape const usual;
  if (create.layout != Layout::word)
    return bad_argument(
        with +
        " has no layout in_place, which is GPHash's; leave layout out, or choose index gphash");
  if (create.shape.levels != usual.levels || create.shape.hashes != usual.hashes ||
      create.shape.slots != usual.slots)
    return bad_argument(
        with +
        " has no shape of levels, hashes and slots; leave shape out, or choose index gphash");
  if (create.durability == Durability::power)
    return unsupported(
        with + " has no redo log for durability power; choose durability process, or index gphash");
  return check_log_dir(path, create.durability, create.log.dir);
}

Status check_open(std::string const& path, Index index, OpenOptions const& options) {
  std::string const with = "pool " + path + ": index " + name(index);
  if (options.device == Device::cuda)
    return unsupported(with +
                       " is for threads of the host; use device cpu, or a pool of index gphash");
  if (options.memory.residency == Residency::mirrored)
    return bad_argument(with + " is never mirrored; use residency pm, or a pool of index gphash");
  if (options.gets_by != GetsBy::automatic && options.gets_by != GetsBy::device)
    return unsupported(with +
                       " has no device to share gets with; leave gets_by out, or use a pool of "
                       "index gphash");
  if (options.memory.cache_bytes != 0)
    return unsupported(
        with + " has no record cache; leave cache_bytes out, or use a pool of index gphash");
  if (!options.log_dir.empty()) return bad_argument(with + " has no log: leave log_dir out");
  if (index != Index::btree)
    if (Status no_log = check_no_value_log(path, options.value_log); !no_log.ok()) return no_log;
  if (!options.grow)
    return unsupported(
        with + (index == Index::btree ? " grows leaf by leaf" : " grows segment by segment") +
        ", and cannot be kept from it; bound the pool by max_bytes");
  if (!options.displacement)
    return unsupported(with +
                       (index == Index::btree ? " has nothing to displace" : " always displaces") +
                       "; leave displacement on, or use a pool of index gphash");
  Status const sound = exec::check_recorded(exec::Reliance::host_threads, "");
  return sound.ok() ? sound : unsupported(with + ": " + sound.message());
}

}  // namespace perdure::threads
