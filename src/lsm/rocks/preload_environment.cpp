#include "lsm/rocks/preload_environment.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

namespace perdure::lsm {

namespace {

rocksdb::Status refused(char const* name, std::string const& value, std::string const& way_out) {
  return rocksdb::Status::InvalidArgument("perdure: " + std::string(name) + "='" + value +
                                          "': " + way_out);
}

/// Leaves `number` alone where the variable is not set.
template <class T>
rocksdb::Status read_number(char const* name, std::uint64_t least, T& number) {
  char const* const text = std::getenv(name);
  if (text == nullptr) return rocksdb::Status::OK();
  char const* const end = text + std::strlen(text);
  T read = 0;
  auto const [stopped, error] = std::from_chars(text, end, read);
  if (error != std::errc{} || stopped != end || read < least)
    return refused(name, text,
                   "give a whole number of at least " + std::to_string(least) + " and at most " +
                       std::to_string(std::numeric_limits<T>::max()));
  number = read;
  return rocksdb::Status::OK();
}

rocksdb::Status read_device(rocks::Device& device) {
  constexpr char const* kName = "PERDURE_ROCKS_DEVICE";
  char const* const text = std::getenv(kName);
  if (text == nullptr) return rocksdb::Status::OK();
  std::string const value = text;
  if (value == "automatic" || value == "auto") {
    device = rocks::Device::automatic;
  } else if (value == "cpu") {
    device = rocks::Device::cpu;
  } else if (value == "cuda") {
    device = rocks::Device::cuda;
  } else {
    return refused(kName, value, "choose auto, cpu or cuda");
  }
  return rocksdb::Status::OK();
}

rocksdb::Status read_durability(rocks::Durability& durability) {
  constexpr char const* kName = "PERDURE_ROCKS_DURABILITY";
  char const* const text = std::getenv(kName);
  std::string const value = text == nullptr ? "process" : text;
  if (value != "process" && value != "power")
    return refused(kName, value, "choose process or power");
  durability = value == "power" ? rocks::Durability::power : rocks::Durability::process;
  return rocksdb::Status::OK();
}

/// A name that no other database's path gives.
std::string name_of(std::string const& path) {
  std::string name = std::filesystem::absolute(path).lexically_normal().string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  std::replace(name.begin(), name.end(), '/', '%');
  return name;
}

rocksdb::Status read_log_directory(std::string const& path, std::string& directory) {
  constexpr char const* kName = "PERDURE_ROCKS_LOG_DIR";
  char const* const text = std::getenv(kName);
  if (text == nullptr) return rocksdb::Status::OK();
  std::error_code error;
  if (!std::filesystem::is_directory(text, error))
    return refused(kName, text, "is no directory; make it, or name another one");
  directory = std::string(text) + "/" + name_of(path);
  return rocksdb::Status::OK();
}

}  // namespace

rocksdb::Status options_from_environment(std::string const& path, rocks::GpuOptions& options) {
  constexpr std::uint64_t kLeastMemtable = std::uint64_t{1} << 16;
  if (auto s = read_device(options.device); !s.ok()) return s;
  if (auto s = read_durability(options.durability); !s.ok()) return s;
  if (auto s = read_number("PERDURE_ROCKS_THRESHOLD", 0, options.threshold); !s.ok()) return s;
  if (auto s = read_number("PERDURE_ROCKS_MEMTABLE_BYTES", kLeastMemtable, options.memtable_bytes);
      !s.ok())
    return s;
  if (auto s = read_number("PERDURE_ROCKS_MEMTABLE_VALUE_BYTES", 0, options.memtable_value_bytes);
      !s.ok())
    return s;
  if (auto s = read_number("PERDURE_ROCKS_BLOCK_CACHE_BYTES", 0, options.block_cache_bytes);
      !s.ok())
    return s;
  if (auto s =
          read_number("PERDURE_ROCKS_BLOCK_CACHE_ENTRY_BYTES", 1, options.block_cache_entry_bytes);
      !s.ok())
    return s;
  if (auto s =
          read_number("PERDURE_ROCKS_FLUSHED_MEMTABLE_BYTES", 0, options.flushed_memtable_bytes);
      !s.ok())
    return s;
  if (auto s = read_number("PERDURE_ROCKS_IDLE_MILLIS", 0, options.idle_millis); !s.ok()) return s;
  if (auto s = read_number("PERDURE_ROCKS_HAND_OVERS_A_SECOND", 1, options.hand_overs_a_second);
      !s.ok())
    return s;
  bool const power = options.durability == rocks::Durability::power;
  return read_log_directory(path, power ? options.power_log_dir : options.log_dir);
}

rocksdb::Status transactions_from_environment(bool& ours) {
  constexpr char const* kName = "PERDURE_ROCKS_TRANSACTIONS";
  char const* const text = std::getenv(kName);
  std::string const value = text == nullptr ? "rocksdb" : text;
  if (value != "rocksdb" && value != "perdure")
    return refused(kName, value, "choose rocksdb or perdure");
  ours = value == "perdure";
  return rocksdb::Status::OK();
}

std::string log_directory(rocks::GpuOptions const& options, std::string const& path) {
  if (options.durability == rocks::Durability::power)
    return options.power_log_dir.empty() ? path + ".power" : options.power_log_dir;
  return options.log_dir.empty() ? path + ".gwal" : options.log_dir;
}

}  // namespace perdure::lsm
