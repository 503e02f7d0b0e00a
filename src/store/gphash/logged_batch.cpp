#include "store/gphash/logged_batch.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/assert.hpp"
#include "pm/pool.hpp"
#include "pm/pool_format.hpp"

namespace perdure {
namespace {

/// A wrong log_dir must not cost the pool at `path`. A file without a header is what an OS crash
/// leaves of a pool on a disk: nothing is lost with it.
Status check_replaceable(int fd, std::string const& path, wal::PoolId const& pool_id,
                         std::string const& log_dir) {
  pm::PoolHeader header{};
  ssize_t const n = ::pread(fd, &header, sizeof header, 0);
  if (n < 0) return {Code::io_error, "pool " + path + ": " + std::strerror(errno)};
  bool const empty =
      n < static_cast<ssize_t>(sizeof header) || header.magic == decltype(header.magic){};
  if (empty || (header.magic == pm::kPoolMagic && header.pool_id == pool_id)) return {};
  return {Code::invalid_argument,
          "pool " + path + " is not the one whose log lies in " + log_dir +
              ": name its own log_dir (none, unless its durability is power), or remove the "
              "file to have the log's pool made there"};
}

}  // namespace

bool took_effect(OpKind kind, std::uint8_t status) {
  return kind != OpKind::get && status == static_cast<std::uint8_t>(KeyStatus::ok);
}

Effective::Effective(Call const& call, std::span<std::uint8_t const> status)
    : ops_{call.kind, call.kinds, call.rmw, call.element, call.keys, call.values} {
  PERDURE_ASSERT(status.size() == call.keys.count);
  auto const kind = [&](std::size_t i) { return call.kinds.empty() ? call.kind : call.kinds[i]; };
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < status.size(); ++i) {
    if (took_effect(kind(i), status[i])) which.push_back(i);
  }
  if (which.size() == status.size()) return;
  keys_.take(call.keys, which);
  keys_.stand_in_for(ops_.keys);
  if (call.values.data != nullptr) {
    values_.take(call.values, which);
    values_.stand_in_for(ops_.values);
  }
  if (call.kinds.empty()) return;
  for (std::size_t const i : which) kinds_.push_back(call.kinds[i]);
  ops_.kinds = kinds_;
}

Call call_of(wal::BatchOps const& ops) {
  Call call;
  call.keys = ops.keys;
  call.values = ops.values;
  call.kind = ops.kind;
  call.kinds = ops.kinds;
  call.rmw = ops.rmw;
  call.element = ops.element;
  return call;
}

/// Why a pool cannot be made anew beside the file that it will take the place of.
Status no_room_beside(Status const& s, std::string const& log_dir) {
  if (s.code() != Code::no_space) return s;
  return {s.code(), s.message() + "; the pool is made anew from " + log_dir +
                        ", beside the file that is there: that one may be moved to another file "
                        "system until the pool is open"};
}

Result<RestoredPool> restore_pool(wal::LogDir& power, std::string const& path,
                                  pm::MapOptions const& options) {
  std::optional<pm::Mapping> pool;
  wal::Lsn noted = 0;
  auto loaded = power.load([&](wal::ImageInfo const& image) -> Result<std::span<std::byte>> {
    pool.reset();  // of an image that turned out damaged
    pm::MakeOptions make{.overwrite = true};
    bool const there = !(pm::id_of(path) == pm::FileId{});
    if (!there) make.mode = power.mode() | 0600;
    make.may_replace = [&](int fd) {
      noted = pm::Pool::noted_lsn(fd);
      return check_replaceable(fd, path, image.pool_id, power.directory());
    };
    auto made = pm::Mapping::create(path, image.bytes, 0, make, options);
    if (!made) return there ? no_room_beside(made.status(), power.directory()) : made.status();
    pool.emplace(std::move(*made));
    return std::span<std::byte>(pool->data(), image.bytes);
  });
  if (!loaded) return loaded.status();
  PERDURE_ASSERT(pool.has_value());  // an image was loaded into it
  return RestoredPool{std::move(*loaded), std::move(*pool), noted};
}

}  // namespace perdure
