#include "store/power.hpp"

#include <optional>

#include "pm/mapping.hpp"

namespace perdure {
namespace {

bool changes(OpKind kind, std::uint8_t status) {
  return kind != OpKind::get && status == static_cast<std::uint8_t>(KeyStatus::ok);
}

}  // namespace

Column Effective::Gathered::take(Column const& from, std::span<std::size_t const> which) {
  bool const variable = from.offsets != nullptr;
  if (variable) offsets.push_back(0);
  for (std::size_t const i : which) {
    std::size_t const begin = variable ? static_cast<std::size_t>(from.offsets[i]) : i * from.width;
    std::size_t const end = variable ? static_cast<std::size_t>(from.offsets[i + 1]) : begin + from.width;
    data.insert(data.end(), from.data + begin, from.data + end);
    if (variable) offsets.push_back(static_cast<std::int64_t>(data.size()));
  }
  return {data.data(), variable ? offsets.data() : nullptr, from.width, which.size(), Place::host};
}

Effective::Effective(Call const& call, std::span<std::uint8_t const> status)
    : ops_{call.kind, call.kinds, call.rmw, call.element, call.keys, call.values} {
  auto const kind = [&](std::size_t i) { return call.kinds.empty() ? call.kind : call.kinds[i]; };
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < status.size(); ++i) {
    if (changes(kind(i), status[i])) which.push_back(i);
  }
  if (which.size() == status.size()) return;
  ops_.keys = keys_.take(call.keys, which);
  if (call.values.data != nullptr) ops_.values = values_.take(call.values, which);
  if (call.kinds.empty()) return;
  for (std::size_t const i : which) kinds_.push_back(call.kinds[i]);
  ops_.kinds = kinds_;
}

Call call_of(log::BatchOps const& ops) {
  Call call;
  call.keys = ops.keys;
  call.values = ops.values;
  call.kind = ops.kind;
  call.kinds = ops.kinds;
  call.rmw = ops.rmw;
  call.element = ops.element;
  return call;
}

Result<log::Loaded> restore_pool(log::LogDir& power, std::string const& path) {
  std::optional<pm::Mapping> pool;
  auto loaded = power.load([&](log::ImageInfo const& image) -> Result<std::span<std::byte>> {
    pool.reset();  // of an image that turned out damaged
    auto made = pm::Mapping::create(path, image.bytes, 0, true, {});
    if (!made) return made.status();
    pool.emplace(std::move(*made));
    return std::span<std::byte>(pool->data(), image.bytes);
  });
  if (!loaded) return loaded;
  if (Status s = pool->keep(); !s.ok()) return s;
  return loaded;
}

}  // namespace perdure
