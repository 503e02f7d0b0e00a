#include "lsm/rocks/device_columns.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

constexpr std::size_t kElementsAChunk = std::size_t{1} << 14;

/// Whether an operation has a value for its element of the output.
struct Answered {
  std::span<KeyStatus const> statuses;
  std::span<OpKind const> kinds;
  [[nodiscard]] bool at(std::size_t i) const {
    return statuses[i] == KeyStatus::ok && (kinds.empty() || kinds[i] == OpKind::get);
  }
};

bool is_all(exec::Workers& workers, Answered const& answered) {
  std::atomic<bool> all = true;
  workers.for_chunks(answered.statuses.size(), kElementsAChunk,
                     [&](std::size_t begin, std::size_t end) {
                       while (begin < end && answered.at(begin)) ++begin;
                       if (begin < end) all.store(false, std::memory_order_relaxed);
                     });
  return all;
}

/// Elements without an answer, as the caller's array had them.
void keep_others(exec::Workers& workers, Answered const& answered, std::size_t width,
                 std::byte const* before, std::byte* to) {
  workers.for_chunks(answered.statuses.size(), kElementsAChunk,
                     [&](std::size_t begin, std::size_t end) {
                       for (std::size_t i = begin; i < end; ++i)
                         if (!answered.at(i))
                           std::memcpy(to + i * width, before + i * width, width);
                     });
}

}  // namespace

DeviceColumns::~DeviceColumns() {
  if (begun_) static_cast<void>(wait());  // nothing may come into memory that others use
}

void DeviceColumns::note(Status const& status, char const* what) {
  if (status.ok() || !failure_.ok()) return;
  if (status.code() != Code::unsupported)
    failure_ = to_rocks({status.code(), std::string(what) + ": " + status.message()});
  else
    failure_ = rocksdb::Status::NotSupported(
        std::string(what) +
        " are in device memory; copy them to the host first: " + status.message());
}

bool DeviceColumns::has_way(char const* what) {
  if (!failure_.ok()) return false;
  if (begun_) return true;
  auto& way = way_.emplace(ways_.idle.take());
  if (way->arrays == nullptr) {
    auto made = ways_.make();
    if (!made) {
      note(made.status(), what);
      return false;
    }
    way->arrays = std::move(*made);
  }
  note(way->arrays->begin(options_.stream), what);
  begun_ = failure_.ok();
  return begun_;
}

std::byte* DeviceColumns::room(std::size_t which, std::size_t bytes, char const* what) {
  auto room = (*way_)->arrays->room(which, bytes);
  if (room) return *room;
  note(room.status(), what);
  return nullptr;
}

Column DeviceColumns::bring(Column const& column, char const* what) {
  if (column.space == MemorySpace::host) return column;
  Column here = column;
  here.space = MemorySpace::host;
  std::size_t begin = 0, end = column.width * column.count;
  if (column.offsets != nullptr) {
    begin = static_cast<std::size_t>(column.offsets[0]);
    end = static_cast<std::size_t>(column.offsets[column.count]);
  }
  if (!has_way(what)) return here;
  std::byte* const to = room(columns_++, std::max<std::size_t>(1, end), what);
  here.data = to;
  if (to != nullptr && begin < end)
    note((*way_)->arrays->bring(to + begin, column.data + begin, end - begin), what);
  return here;
}

std::byte const* DeviceColumns::there(Column const& column) const {
  if (column.space == MemorySpace::host || column.count == 0 || !arrived_) return nullptr;
  if (!(*way_)->arrays->is_near(column.data)) return nullptr;
  return column.offsets == nullptr ? column.data : column.data + column.offsets[0];
}

MutableColumn DeviceColumns::place(MutableColumn const& values) {
  if (values.space == MemorySpace::host) return values;
  MutableColumn here = values;
  here.space = MemorySpace::host;
  if (!has_way("values")) return here;
  std::size_t const bytes = values.width * values.count;
  here.data = room(kOut, std::max<std::size_t>(1, bytes), "values");
  values_ = values;
  values_here_ = here.data;
  return here;
}

Status DeviceColumns::wait() {
  Status const s = (*way_)->arrays->wait();
  if (!s.ok()) (*way_)->arrays = nullptr;  // what it has under way nobody knows
  begun_ = s.ok();
  return s;
}

rocksdb::Status DeviceColumns::arrived() {
  if (failure_.ok() && options_.device_statuses != nullptr) has_way("statuses");
  if (failure_.ok() && columns_ > 0) note(wait(), "columns");
  arrived_ = failure_.ok();
  return failure_;
}

Status DeviceColumns::send_values(std::span<KeyStatus const> statuses,
                                  std::span<OpKind const> kinds) {
  exec::DeviceArrays& arrays = *(*way_)->arrays;
  Answered const answered{statuses, kinds};
  std::size_t const bytes = values_.width * statuses.size();
  if (bytes == 0) return {};
  if (!is_all(workers_, answered)) {
    auto before = arrays.room(kOutBefore, bytes);
    if (!before) return before.status();
    if (Status s = arrays.bring(*before, values_.data, bytes); !s.ok()) return s;
    if (Status s = arrays.wait(); !s.ok()) return s;
    keep_others(workers_, answered, values_.width, *before, values_here_);
  }
  return arrays.send(values_.data, values_here_, bytes);
}

rocksdb::Status DeviceColumns::send(std::span<KeyStatus const> statuses,
                                    std::span<OpKind const> kinds) {
  if (!begun_) return rocksdb::Status::OK();
  if (values_.count > 0) note(send_values(statuses, kinds), "values");
  if (failure_.ok() && options_.device_statuses != nullptr && !statuses.empty())
    note(
        (*way_)->arrays->send(reinterpret_cast<std::byte*>(options_.device_statuses),
                              reinterpret_cast<std::byte const*>(statuses.data()), statuses.size()),
        "statuses");
  note(wait(), "answers");
  begun_ = false;
  return failure_;
}

}  // namespace perdure::lsm
