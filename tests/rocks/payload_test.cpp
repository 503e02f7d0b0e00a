// Columns in a record of the G-WAL: what is written there is what was given, for who wrote it and
// for who reads it back.
#include "lsm/rocks/payload.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace perdure::lsm {
namespace {

/// A column of strings that may begin behind others.
struct Strings {
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> offsets;
  std::uint32_t width = 0;  // 0: by offsets

  Strings(std::size_t n, std::uint32_t fixed, std::size_t before) : width(fixed) {
    bytes.resize(fixed == 0 ? before : 0, std::byte{'?'});
    for (std::size_t i = 0; i <= n; ++i) {
      offsets.push_back(static_cast<std::int64_t>(bytes.size()));
      if (i == n) return;
      std::size_t const size =
          fixed != 0 ? fixed : *rc::gen::element<std::size_t>(0, 1, 7, 100, 5000);
      bytes.resize(bytes.size() + size, static_cast<std::byte>(i + 1));
    }
  }
  [[nodiscard]] Column column() const {
    return {bytes.data(), width == 0 ? offsets.data() : nullptr, width, offsets.size() - 1,
            MemorySpace::host};
  }
};

std::vector<std::string> texts(Column const& column) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < column.count; ++i) {
    bool const fixed = column.offsets == nullptr;
    auto const from = fixed ? i * column.width : static_cast<std::size_t>(column.offsets[i]);
    auto const to = fixed ? from + column.width : static_cast<std::size_t>(column.offsets[i + 1]);
    auto const* const data = reinterpret_cast<char const*>(column.data);
    all.emplace_back(data + from, data + to);
  }
  return all;
}

void expect_same(wal::BatchOps const& found, wal::BatchOps const& given,
                 std::span<std::byte const> room) {
  RC_ASSERT(texts(found.keys) == texts(given.keys));
  // A column of empty values that lies nowhere is none, for a value that is not there is empty.
  std::vector<std::string> const empty(found.values.count);
  RC_ASSERT(texts(found.values) == (given.values.data == nullptr ? empty : texts(given.values)));
  RC_ASSERT(!given.kinds.empty() || found.kind == given.kind);
  RC_ASSERT(std::vector(found.kinds.begin(), found.kinds.end()) ==
            std::vector(given.kinds.begin(), given.kinds.end()));
  for (Column const& column : {found.keys, found.values}) {
    if (texts(column) == std::vector<std::string>(column.count)) continue;  // there are no bytes
    RC_ASSERT(column.data >= room.data() && column.data < room.data() + room.size());
  }
}

/// A batch as somebody gives it.
struct GivenColumns {
  std::optional<Strings> keys, values;
  std::vector<OpKind> kinds;
  wal::BatchOps ops;
  std::optional<wal::EncodedBatch> encoded;

  void draw() {
    auto const n = *rc::gen::inRange<std::size_t>(0, 40);
    auto const width = rc::gen::element<std::uint32_t>(0, 0, 1, 8, 30'000);
    auto const before = rc::gen::element<std::size_t>(0, 0, 3);
    keys.emplace(n, *width, *before);
    values.emplace(n, *width, *before);
    ops.keys = keys->column();
    ops.values = *rc::gen::arbitrary<bool>() ? values->column() : keys->column();
    kinds.assign(n, OpKind::update);
    if (*rc::gen::arbitrary<bool>()) ops.kinds = kinds;
    if (*rc::gen::inRange(0, 4) == 0) {
      ops.kind = OpKind::erase;
      ops.values = {};
    }
    encoded.emplace(ops);
  }
};

RC_GTEST_PROP(Payload, ColumnsLieInTheRecordAsTheyWereGiven, ()) {
  static exec::Workers workers(2);
  std::deque<GivenColumns> given(*rc::gen::element<std::size_t>(1, 1, 2, 3));
  std::vector<ColumnsToWrite> columns;
  for (GivenColumns& one : given) {
    one.draw();
    columns.push_back({static_cast<std::uint32_t>(7 + columns.size()), &one.ops, &*one.encoded});
  }
  std::vector<std::byte> room(payload_bytes(columns), std::byte{0xff});
  PayloadLayout const layout = lay_out_payload(columns, room);
  GwalPayloadSum sum(room), later(room);
  copy_payload(workers, layout.pieces, room, &sum);
  later.sum_all(&workers);
  RC_ASSERT(sum.hash() == later.hash() && sum.crc(0) == later.crc(0));
  for (std::size_t i = 0; i < given.size(); ++i) {
    auto const written = written_columns(columns[i], layout.places[i]);
    expect_same(written.ops(), given[i].ops, room);
  }
  PayloadReader reader;
  std::size_t read = 0;
  reader.columns = [&](std::uint32_t family, wal::DecodedBatch const& batch) {
    RC_ASSERT(family == 7u + read);
    expect_same(batch.ops(), given[read].ops, room);
    ++read;
    return Status{};
  };
  RC_ASSERT(read_payload(room, reader).ok());
  RC_ASSERT(read == given.size());
}

}  // namespace
}  // namespace perdure::lsm
