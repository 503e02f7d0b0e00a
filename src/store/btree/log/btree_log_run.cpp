#include <string_view>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "store/btree/log/btree_log_engine_on.hpp"

namespace perdure {

BtreeLogRun::BtreeLogRun(threads::Batch const& batch, threads::Ops const& ops,
                         BtreeOptions const& options, threads::Tally& tally)
    : batch_(batch), options_(options), tally_(tally) {
  exec::ByteColumn const keys = batch.keys();
  operations_.reserve(ops.count);
  which_.reserve(ops.count);
  for (std::size_t k = 0; k < ops.count; ++k) {
    std::size_t const i = ops[k];
    if (!batch.pending(i)) continue;
    OpKind const kind = batch.kind(i);
    bool const has_operand = kind == OpKind::put || kind == OpKind::update;
    pm::LogKey const key{keys.at(i), keys.size(i)};
    operations_.push_back({kind, key, has_operand ? batch.operand(i) : std::span<std::byte const>(),
                           hash_bytes(key.data(), key.size()), batch.call->rmw != Rmw::replace});
    which_.push_back(i);
  }
}

void BtreeLogRun::run(pm::ValueLog& log, pm::LogIndex& index) {
  pm::LogWriter(log, index, *this).run(operations_);
}

void BtreeLogRun::done(std::size_t i, KeyStatus status, bool was_there) {
  OpKind const kind = operations_[i].kind;
  if (status == KeyStatus::ok) {
    tally_.inserted += kind == OpKind::put && !was_there;
    tally_.erased += kind == OpKind::erase;
  }
  batch_.complete(which_[i], status);
}

void BtreeLogRun::refused(std::size_t i, Status why) {
  ++tally_.refused;
  tally_.why_refused = std::move(why);
  batch_.complete(which_[i], KeyStatus::no_space);
}

KeyStatus BtreeLogRun::check(std::size_t i, pm::LogRecord const& item) const {
  bool const same = item.key.size() == operations_[i].key.size() &&
                    std::memcmp(item.key.data(), operations_[i].key.data(), item.key.size()) == 0;
  bool const fits = options_.value_bytes == 0 || item.value.size() == options_.value_bytes;
  bool const whole = !options_.verify_reads || pm::is_whole(item);
  return same && fits && whole ? KeyStatus::ok : KeyStatus::corrupt;
}

KeyStatus BtreeLogRun::found(std::size_t i, pm::LogRecord const& item) {
  KeyStatus const status = check(i, item);
  MutableColumn const& out = batch_.call->out;
  if (status == KeyStatus::ok)
    std::memcpy(out.data + which_[i] * out.width, item.value.data(), item.value.size());
  return status;
}

KeyStatus BtreeLogRun::update(std::size_t i, pm::LogRecord const& item,
                              std::span<std::byte const>& value) {
  Call const& call = *batch_.call;
  if (KeyStatus const status = check(i, item); status != KeyStatus::ok) return status;
  if (item.value.size() != value.size()) return KeyStatus::size_mismatch;
  scratch_.assign(item.value.begin(), item.value.end());
  combine_values(call.rmw, call.element, scratch_, value.data());
  value = scratch_;
  return KeyStatus::ok;
}

}  // namespace perdure
