#include "batch/pieces.hpp"

namespace perdure {
namespace {

std::uint64_t size_of(Column const& column, std::size_t i) {
  if (column.data == nullptr) return 0;
  return column.offsets == nullptr
             ? column.width
             : static_cast<std::uint64_t>(column.offsets[i + 1] - column.offsets[i]);
}

Column part_of(Column column, std::size_t begin, std::size_t count) {
  if (column.data == nullptr || column.count == 0) return column;
  if (column.offsets == nullptr)
    column.data += begin * column.width;
  else
    column.offsets += begin;
  column.count = count;
  return column;
}

}  // namespace

std::size_t piece_from(Call const& call, std::size_t begin) {
  std::size_t const most = std::min(kPieceOperations, call.keys.count - begin);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < most; ++i) {
    bytes += size_of(call.keys, begin + i) + size_of(call.values, begin + i) + call.out.width;
    if (bytes > kPieceBytes) return std::max<std::size_t>(1, i);
  }
  return most;
}

Call part_of(Call const& call, std::size_t begin, std::size_t count) {
  Call part = call;
  part.keys = part_of(call.keys, begin, count);
  part.values = part_of(call.values, begin, count);
  if (call.out.data != nullptr) {
    part.out.data += begin * call.out.width;
    part.out.count = count;
  }
  if (!call.kinds.empty()) part.kinds = call.kinds.subspan(begin, count);
  part.counted.reset();
  if (call.device_statuses != nullptr) part.device_statuses += begin;
  return part;
}

Status stopped_after(std::size_t done, std::size_t operations) {
  return {Code::stopped, "the call was stopped: the first " + std::to_string(done) + " of " +
                             std::to_string(operations) +
                             " operations have been done, the others have not"};
}

Status look_stopped(std::string const& path, char const* call) {
  return {Code::stopped, "pool " + path + ": this " + call + " was stopped before its end"};
}

void append(VariableValues& to, VariableValues from) {
  if (to.offsets.empty()) {
    to = std::move(from);
    return;
  }
  std::int64_t const before = to.offsets.back();
  for (std::size_t i = 1; i < from.offsets.size(); ++i)
    to.offsets.push_back(before + from.offsets[i]);
  to.data.insert(to.data.end(), from.data.begin(), from.data.end());
}

}  // namespace perdure
