#include "lsm/rocks/value_sink.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lsm/rocks/value_prefetch.hpp"

namespace perdure::lsm {

namespace {

constexpr std::size_t kValuesAChunk = std::size_t{1} << 14;

}  // namespace

ValueRef ValueArena::copy(rocksdb::Slice const& value) {
  std::size_t const n = value.size();
  if (n == 0) return {};
  if (n > left_) {
    left_ = std::max(n, kBlock);
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(left_));
    at_ = blocks_.back().get();
  }
  std::byte* const to = at_;
  std::memcpy(to, value.data(), n);
  at_ += n;
  left_ -= n;
  return {to, n};
}

/// 0: any width.
template <std::size_t kWidth>
void FixedSink::copy_stored(std::size_t first, std::span<Answer const> answers,
                            AnswerRows const& rows) {
  std::size_t const width = kWidth != 0 ? kWidth : values_.width;
  std::size_t const n = answers.size();
  for (std::size_t i = 0; i < std::min(n, kValuesAhead); ++i) prefetch_value(answers[i]);
  for (std::size_t i = 0; i < n; ++i) {
    if (i + kValuesAhead < n) prefetch_value(answers[i + kValuesAhead]);
    Answer const& answer = answers[i];
    if (answer.found == Found::erased) {
      none(first + i, KeyStatus::not_found);
    } else if (answer.found == Found::put) {
      bool const fits = answer.size == width;
      status(first + i) = fits ? KeyStatus::ok : KeyStatus::size_mismatch;
      if (fits && width > 0)
        std::memcpy(values_.data + place(first + i) * width, rows.value(answer, i), width);
    }
  }
}

void FixedSink::stored(std::size_t first, std::span<Answer const> answers, AnswerRows const& rows) {
  switch (values_.width) {
    case 4: return copy_stored<4>(first, answers, rows);
    case 8: return copy_stored<8>(first, answers, rows);
    case 16: return copy_stored<16>(first, answers, rows);
    default: return copy_stored<0>(first, answers, rows);
  }
}

void FixedSink::made(std::size_t key, rocksdb::Slice const& value, ValueArena&) {
  bool const fits = value.size() == values_.width;
  status(key) = fits ? KeyStatus::ok : KeyStatus::size_mismatch;
  if (fits && values_.width > 0)
    std::memcpy(values_.data + place(key) * values_.width, value.data(), values_.width);
}

VariableSink::VariableSink(exec::Workers& workers, std::size_t elements, std::size_t keys,
                           ReadRooms::Values& rooms, Places places, std::span<KeyStatus> statuses,
                           VariableValues& values)
    : ValueSink(places, statuses),
      workers_(workers),
      refs_(rooms.refs.take(keys)),
      rows_(rooms.rows),
      values_(values) {
  values_.offsets.resize(elements + 1);
  workers_.for_chunks(elements + 1, kValuesAChunk, [&](std::size_t begin, std::size_t end) {
    std::fill(values_.offsets.begin() + static_cast<std::ptrdiff_t>(begin),
              values_.offsets.begin() + static_cast<std::ptrdiff_t>(end), 0);
  });
  workers_.for_chunks(keys, kValuesAChunk, [&](std::size_t begin, std::size_t end) {
    std::fill_n(refs_.data() + begin, end - begin, ValueRef{});
  });
}

void VariableSink::set(std::size_t key, ValueRef const& value) {
  status(key) = KeyStatus::ok;
  refs_[key] = value;
  values_.offsets[place(key) + 1] = static_cast<std::int64_t>(value.size);
}

bool VariableSink::takes_rows(std::size_t keys, std::size_t words) {
  if (keys > kRowWords / words) return false;
  rows_.take(keys * words);
  return true;
}

void VariableSink::stored(std::size_t first, std::span<Answer const> answers,
                          AnswerRows const& rows) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Answer const& answer = answers[i];
    if (answer.found == Found::erased) {
      none(first + i, KeyStatus::not_found);
    } else if (answer.found == Found::put && rows.words != nullptr && answer.inside) {
      auto* const kept =
          reinterpret_cast<std::byte*>(rows_.get().data() + (first + i) * rows.stride);
      std::memcpy(kept, rows.value(answer, i), answer.size);
      set(first + i, {kept, answer.size});
    } else if (answer.found == Found::put) {
      set(first + i, answer.value());
    }
  }
}

void VariableSink::made(std::size_t key, rocksdb::Slice const& value, ValueArena& arena) {
  set(key, arena.copy(value));
}

void VariableSink::finish() {
  std::size_t const n = values_.offsets.size() - 1;
  std::int64_t* const sizes = values_.offsets.data() + 1;  // ends, in the end
  std::vector<std::int64_t> before((n + kValuesAChunk - 1) / kValuesAChunk);
  workers_.for_chunks(n, kValuesAChunk, [&](std::size_t begin, std::size_t end) {
    std::int64_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += sizes[i];
    before[begin / kValuesAChunk] = sum;
  });
  std::int64_t all = 0;
  for (std::int64_t& sum : before) sum = std::exchange(all, all + sum);
  workers_.for_chunks(n, kValuesAChunk, [&](std::size_t begin, std::size_t end) {
    std::int64_t sum = before[begin / kValuesAChunk];
    for (std::size_t i = begin; i < end; ++i) sizes[i] = sum += sizes[i];
  });
  values_.data.resize(static_cast<std::size_t>(all));
  workers_.for_chunks(refs_.size(), kValuesAChunk,
                      [&](std::size_t begin, std::size_t end) { copy(begin, end); });
}

void VariableSink::copy(std::size_t begin, std::size_t end) const {
  for (std::size_t i = begin; i < std::min(end, begin + kValuesAhead); ++i)
    prefetch_value(refs_[i]);
  for (std::size_t i = begin; i < end; ++i) {
    if (i + kValuesAhead < end) prefetch_value(refs_[i + kValuesAhead]);
    ValueRef const& value = refs_[i];
    if (value.size == 0) continue;
    std::memcpy(values_.data.data() + values_.offsets[place(i)], value.data, value.size);
  }
}

}  // namespace perdure::lsm
