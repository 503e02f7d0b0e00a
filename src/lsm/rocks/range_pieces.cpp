#include "lsm/rocks/range_pieces.hpp"

#include <algorithm>
#include <cstring>

#include "lsm/rocks/value_prefetch.hpp"

namespace perdure::lsm {
namespace {

constexpr std::size_t kRangesAChunk = 16;

/// Where a range goes.
struct Place {
  std::uint64_t pair = 0, key_byte = 0, value_byte = 0;
};

void prefetch_pair(RangePair const& pair) {
  if (!pair.inside) prefetch_value(ValueRef{pair.value(), pair.size});
}

void copy_keys(RangePiece const& piece, Place const& to, VariableValues& keys) {
  RangePairs const& from = *piece.machine;
  std::uint64_t const begin = from.key_begin(piece.first);
  if (piece.key_bytes > 0)
    std::memcpy(keys.data.data() + to.key_byte, from.keys + begin, piece.key_bytes);
  std::int64_t* const ends = keys.offsets.data() + to.pair + 1;
  for (std::uint64_t i = 0; i < piece.pairs; ++i)
    ends[i] = static_cast<std::int64_t>(from.key_begin(piece.first + i + 1) - begin + to.key_byte);
}

void copy_values(RangePiece const& piece, Place const& to, VariableValues& values) {
  RangePair const* const from = piece.machine->pairs.data() + piece.first;
  std::int64_t* const ends = values.offsets.data() + to.pair + 1;
  std::byte* at = values.data.data() + to.value_byte;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(piece.pairs, kValuesAhead); ++i)
    prefetch_pair(from[i]);
  for (std::uint64_t i = 0; i < piece.pairs; ++i) {
    if (i + kValuesAhead < piece.pairs) prefetch_pair(from[i + kValuesAhead]);
    RangePair const& pair = from[i];
    if (pair.size == sizeof(std::uint64_t))
      std::memcpy(at, pair.value(), sizeof(std::uint64_t));
    else if (pair.size > 0)
      std::memcpy(at, pair.value(), pair.size);
    at += pair.size;
    ends[i] = at - values.data.data();
  }
}

void copy(RangePiece const& piece, Place const& to, rocks::Ranges& ranges) {
  if (piece.machine != nullptr) {
    copy_keys(piece, to, ranges.keys);
    copy_values(piece, to, ranges.values);
  } else if (piece.found != nullptr) {
    piece.found->keys.copy(piece.first, piece.pairs, ranges.keys, to.pair, to.key_byte);
    piece.found->values.copy(piece.first, piece.pairs, ranges.values, to.pair, to.value_byte);
  }
}

void make_room(VariableValues& values, std::uint64_t pairs, std::uint64_t bytes) {
  values.offsets.resize(pairs + 1);
  values.offsets[0] = 0;
  values.data.resize(bytes);
}

}  // namespace

RangePiece RangePiece::of(RangePairs const& machine, std::size_t range) {
  RangeCount const& count = machine.ranges[range];
  return {&machine, nullptr, machine.firsts[range], count.keys, count.key_bytes, count.value_bytes};
}

RangePiece RangePiece::of(FoundPairs const& found, std::uint64_t first) {
  std::size_t const end = found.keys.count();
  return {nullptr,
          &found,
          first,
          end - first,
          found.keys.begin(end) - found.keys.begin(first),
          found.values.begin(end) - found.values.begin(first)};
}

void reserve(rocks::Ranges& ranges, std::size_t times) {
  auto const more = [&](std::size_t n) { return n * times + n * times / 16; };
  for (VariableValues* const values : {&ranges.keys, &ranges.values}) {
    values->offsets.reserve(more(values->offsets.size()));
    values->data.reserve(more(values->data.size()));
  }
}

void append(exec::Workers& workers, std::span<RangePiece const> pieces, rocks::Ranges& ranges) {
  auto const end = [](VariableValues const& values, std::int64_t pair) {
    return pair == 0 ? 0
                     : static_cast<std::uint64_t>(values.offsets[static_cast<std::size_t>(pair)]);
  };
  std::int64_t const pairs = ranges.offsets.back();
  Place next{static_cast<std::uint64_t>(pairs), end(ranges.keys, pairs), end(ranges.values, pairs)};
  std::vector<Place> places;
  places.reserve(pieces.size());
  for (RangePiece const& piece : pieces) {
    places.push_back(next);
    next.pair += piece.pairs;
    next.key_byte += piece.key_bytes;
    next.value_byte += piece.value_bytes;
    ranges.offsets.push_back(static_cast<std::int64_t>(next.pair));
  }
  make_room(ranges.keys, next.pair, next.key_byte);
  make_room(ranges.values, next.pair, next.value_byte);
  workers.for_chunks(pieces.size(), kRangesAChunk, [&](std::size_t begin, std::size_t last) {
    for (std::size_t i = begin; i < last; ++i) copy(pieces[i], places[i], ranges);
  });
}

}  // namespace perdure::lsm
