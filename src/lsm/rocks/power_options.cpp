#include "lsm/rocks/power_options.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lsm/rocks/opening.hpp"
#include "wal/disk/disk.hpp"

namespace perdure::lsm {
namespace {

constexpr std::uint64_t kLeastPowerLog = 4 << 20;
constexpr std::uint64_t kMemtablesOfALog = 4;

std::string absolute(std::string const& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// Whether a process that was killed left segments there.
bool has_segments(std::string const& directory) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (it->path().extension() == ".gwal") return true;
  return false;
}

std::uint64_t power_log_bytes(rocks::GpuOptions const& gpu, std::uint64_t memtable) {
  if (gpu.power_log_bytes != 0) return wal::round_up(gpu.power_log_bytes);
  return wal::round_up(std::max(kLeastPowerLog, kMemtablesOfALog * memtable));
}

Status check_power(GwalOptions const& options, std::string const& path) {
  if (has_segments(options.directory))
    return {Code::invalid_argument,
            "the G-WAL " + options.directory +
                " has writes of durability process that RocksDB lacks; open the database with "
                "that durability and close it, before it gets durability power"};
  auto const forgets = wal::disk().forgets(path);
  if (!forgets.ok() || !forgets.value()) return {};
  return {Code::invalid_argument, "the database " + path +
                                      " lies in memory, which a power loss clears; put it on a "
                                      "disk, or choose durability process"};
}

}  // namespace

Status choose_log(GwalOptions& options, rocks::GpuOptions const& gpu, std::string const& path) {
  if (gpu.durability == rocks::Durability::process) {
    auto const note = read_gwal_power_note(power_note_of(path));
    return note.ok() ? check_no_power_log(note.value(), options.identity, path) : note.status();
  }
  std::string const directory = gpu.power_log_dir.empty() ? path + ".power" : gpu.power_log_dir;
  if (Status s = check_outside(directory, "power_log_dir", path); !s.ok()) return s;
  if (Status s = check_power(options, path); !s.ok()) return s;
  options.power = {absolute(directory), power_log_bytes(gpu, options.segment_bytes),
                   absolute(power_note_of(path))};
  return {};
}

Status check_no_power_log(std::optional<GwalPowerNoteRead> const& note, std::string const& identity,
                          std::string const& path) {
  if (!note || note->identity != identity) return {};
  return {Code::invalid_argument,
          "the database " + path +
              " was not closed since it was opened with durability power, and its power log " +
              note->directory +
              " may have writes that RocksDB lacks; open it with durability power and that "
              "power_log_dir, and close it, before it is opened otherwise"};
}

}  // namespace perdure::lsm
