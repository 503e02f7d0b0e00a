// Two passes over chunks: how much each has, and then, each knowing what comes before it, the copy.
#include "lsm/rocks/mixed_columns.hpp"

#include <cstring>

namespace perdure::lsm {

namespace {

constexpr std::size_t kOperationsAChunk = std::size_t{1} << 14;

std::size_t size_of(Column const& column, std::size_t i) {
  if (column.offsets == nullptr) return column.width;
  return static_cast<std::size_t>(column.offsets[i + 1] - column.offsets[i]);
}

std::byte const* at(Column const& column, std::size_t i) {
  if (column.offsets == nullptr) return column.data + i * column.width;
  return column.data + column.offsets[i];
}

}  // namespace

void MixedColumns::Counts::add(MixedBatch const& batch, std::size_t i) {
  OpKind const kind = batch.kinds[i];
  if (kind == OpKind::get) {
    ++reads;
    read_key_bytes += size_of(batch.keys, i);
    return;
  }
  ++writes;
  write_key_bytes += size_of(batch.keys, i);
  erases += kind == OpKind::erase ? 1 : 0;
  merges += kind == OpKind::update ? 1 : 0;
  unknown += kind > OpKind::update ? 1 : 0;
  // An erase takes room where values have one width. Whether there are values is checked later.
  if (batch.values.count == batch.kinds.size() &&
      (kind != OpKind::erase || batch.values.offsets == nullptr))
    value_bytes += size_of(batch.values, i);
}

MixedColumns::Counts& MixedColumns::Counts::operator+=(Counts const& other) {
  reads += other.reads;
  writes += other.writes;
  erases += other.erases;
  merges += other.merges;
  unknown += other.unknown;
  read_key_bytes += other.read_key_bytes;
  write_key_bytes += other.write_key_bytes;
  value_bytes += other.value_bytes;
  return *this;
}

void MixedColumns::count(exec::Workers& workers, MixedBatch const& batch) {
  std::size_t const n = batch.kinds.size();
  before_.assign((n + kOperationsAChunk - 1) / kOperationsAChunk, {});
  workers.for_chunks(n, kOperationsAChunk, [&](std::size_t begin, std::size_t end) {
    Counts counts;
    for (std::size_t i = begin; i < end; ++i) counts.add(batch, i);
    before_[begin / kOperationsAChunk] = counts;
  });
  all_ = {};
  for (Counts& chunk : before_) {
    Counts const own = chunk;
    chunk = all_;
    all_ += own;
  }
}

void MixedColumns::take_apart(exec::Workers& workers, MixedBatch const& batch) {
  kinds_.take(all_.writes);
  write_places_.take(all_.writes);
  read_places_.take(all_.reads);
  read_keys_.begin(batch.keys, all_.reads, all_.read_key_bytes);
  write_keys_.begin(batch.keys, all_.writes, all_.write_key_bytes);
  values_.begin(batch.values, has_values() ? all_.writes : 0, all_.value_bytes);
  workers.for_chunks(batch.kinds.size(), kOperationsAChunk,
                     [&](std::size_t begin, std::size_t end) {
                       take_chunk(batch, begin, end, before_[begin / kOperationsAChunk]);
                     });
}

void MixedColumns::take_chunk(MixedBatch const& batch, std::size_t begin, std::size_t end,
                              Counts at) {
  bool const values = has_values();
  for (std::size_t i = begin; i < end; ++i) {
    OpKind const kind = batch.kinds[i];
    if (kind == OpKind::get) {
      read_places_.get()[at.reads] = i;
      read_keys_.put(batch.keys, i, at.reads++, at.read_key_bytes);
      continue;
    }
    kinds_.get()[at.writes] = kind;
    write_places_.get()[at.writes] = i;
    write_keys_.put(batch.keys, i, at.writes, at.write_key_bytes);
    if (values && kind == OpKind::erase) values_.put_none(at.writes, at.value_bytes);
    if (values && kind != OpKind::erase) values_.put(batch.values, i, at.writes, at.value_bytes);
    ++at.writes;
  }
}

wal::BatchOps MixedColumns::write_ops() const {
  wal::BatchOps ops;
  ops.kinds = kinds_.get();
  ops.keys = write_keys_.column();
  if (has_values()) ops.values = values_.column();
  return ops;
}

std::span<RequestId const> MixedColumns::limits(exec::Workers& workers, RequestId first) {
  std::span<RequestId> const limits = limits_.take(all_.reads);
  std::span<std::size_t const> const places = read_places_.get();
  workers.for_chunks(limits.size(), kOperationsAChunk, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) limits[i] = first + places[i] - 1;
  });
  return limits;
}

std::size_t MixedColumns::bytes() const {
  return kinds_.bytes() + write_places_.bytes() + limits_.bytes() + read_places_.bytes() +
         read_keys_.room() + write_keys_.room() + values_.room();
}

/// A width of 0 is how columns of varying width are told in the log.
void MixedColumns::Gathered::begin(Column const& from, std::size_t elements, std::size_t bytes) {
  elements_ = elements;
  width_ = from.offsets == nullptr ? from.width : 0;
  bytes_.take(bytes + 1);  // in the log, values that lie nowhere are none
  std::span<std::int64_t> const offsets = offsets_.take(width_ == 0 ? elements + 1 : 0);
  if (width_ == 0) offsets[0] = 0;
}

void MixedColumns::Gathered::put(Column const& from, std::size_t i, std::size_t element,
                                 std::size_t& to) {
  std::byte* const bytes = bytes_.get().data() + to;
  if (width_ == sizeof(std::uint64_t)) {
    std::memcpy(bytes, from.data + i * sizeof(std::uint64_t), sizeof(std::uint64_t));
    to += sizeof(std::uint64_t);
    return;
  }
  std::size_t const n = size_of(from, i);
  if (n > 0) std::memcpy(bytes, at(from, i), n);
  to += n;
  if (width_ == 0) offsets_.get()[element + 1] = static_cast<std::int64_t>(to);
}

void MixedColumns::Gathered::put_none(std::size_t element, std::size_t& to) {
  if (width_ == 0) {
    offsets_.get()[element + 1] = static_cast<std::int64_t>(to);
    return;
  }
  std::memset(bytes_.get().data() + to, 0, width_);
  to += width_;
}

Column MixedColumns::Gathered::column() const {
  return {bytes_.get().data(), width_ == 0 ? offsets_.get().data() : nullptr, width_, elements_,
          MemorySpace::host};
}

}  // namespace perdure::lsm
