#include "store/gphash/logged_beside.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "store/gphash/logged_batch.hpp"

namespace perdure {
namespace {

bool on_host(Column const& column) {
  return column.data == nullptr || column.space == MemorySpace::host;
}

wal::BatchOps ops_of(Call const& call) {
  return {call.kind, call.kinds, call.rmw, call.element, call.keys, call.values};
}

}  // namespace

LoggedBeside::~LoggedBeside() {
  if (begun()) aside_.wait();
}

bool LoggedBeside::can_read(Call const& call) { return on_host(call.keys) && on_host(call.values); }

Status LoggedBeside::begin(wal::RedoLog& log, Call const& call) {
  PERDURE_ASSERT(!begun() && call.keys.count > 0 && can_read(call));
  if (wal::bytes_of(call.keys) + wal::bytes_of(call.values) <= log.group_payload()) return {};
  encoded_.emplace(ops_of(call), true);
  if (mutated("effects_before_they_are_known")) encoded_->set_effects([](auto) { return true; });
  auto open = log.begin(encoded_->pieces());
  if (open.status().code() == Code::no_space && log.failure().ok()) return {};
  if (!open) return open.status();
  log_ = &log;
  call_ = call;
  open_ = std::move(*open);
  aside_.hand([this] {
    written_ = caught([this] { return log_->write_known(*open_, encoded_->column_bytes()); });
  });
  return {};
}

Status LoggedBeside::end(std::span<std::uint8_t const> status) {
  PERDURE_ASSERT(begun() && (status.empty() || status.size() == call_.keys.count));
  aside_.wait();
  auto open = std::move(open_);
  if (!written_.ok()) return written_;
  if (!status.empty()) {
    encoded_->set_effects([&](std::size_t i) {
      return took_effect(call_.kinds.empty() ? call_.kind : call_.kinds[i], status[i]);
    });
  }
  auto const end = log_->end(std::move(open));
  return end.status();
}

}  // namespace perdure
