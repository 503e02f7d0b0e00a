// Where the values of a read of many keys go: to an array of one width, or one behind the other.
//
// Invariant: each key of the read is told of once, by any thread, and different keys side by side.
#pragma once

#include <rocksdb/slice.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/rocks/read_rooms.hpp"
#include "lsm/rocks/room.hpp"
#include "perdure/batch.h"

namespace perdure::lsm {

/// Copies of values that lie nowhere for long. One thread's.
class ValueArena {
 public:
  ValueRef copy(rocksdb::Slice const& value);

 private:
  static constexpr std::size_t kBlock = std::size_t{64} << 10;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* at_ = nullptr;
  std::size_t left_ = 0;
};

/// Which elements of the caller's arrays the keys of a read stand for.
struct Places {
  std::span<std::size_t const> of_keys;  // empty: key i is element i
  [[nodiscard]] std::size_t of(std::size_t key) const {
    return of_keys.empty() ? key : of_keys[key];
  }
};

class ValueSink {
 public:
  ValueSink(Places places, std::span<KeyStatus> statuses) : places_(places), statuses_(statuses) {}
  ValueSink(ValueSink const&) = delete;
  ValueSink& operator=(ValueSink const&) = delete;
  virtual ~ValueSink() = default;

  /// Whether values that runs have in rows of so many words, of `keys` keys, should come as rows.
  virtual bool takes_rows(std::size_t keys, std::size_t words) = 0;
  /// What memtables have of the keys from `first` on, with the rows of these, if it takes any.
  /// Values behind addresses stay until the read is over, rows do not; what is neither put nor
  /// erased is told of by itself.
  virtual void stored(std::size_t first, std::span<Answer const> answers,
                      AnswerRows const& rows) = 0;
  /// A value that does not stay.
  virtual void made(std::size_t key, rocksdb::Slice const& value, ValueArena& arena) = 0;
  void none(std::size_t key, KeyStatus why) { status(key) = why; }
  /// After the last key, while what stored() was told of is there.
  virtual void finish() {}

 protected:
  [[nodiscard]] std::size_t place(std::size_t key) const { return places_.of(key); }
  [[nodiscard]] KeyStatus& status(std::size_t key) { return statuses_[places_.of(key)]; }
  [[nodiscard]] Places const& places() const { return places_; }

 private:
  Places places_;
  std::span<KeyStatus> statuses_;
};

/// Values of another width are told by their status.
class FixedSink final : public ValueSink {
 public:
  FixedSink(MutableColumn const& values, Places places, std::span<KeyStatus> statuses)
      : ValueSink(places, statuses), values_(values) {}
  bool takes_rows(std::size_t, std::size_t) override { return values_.width > 8; }
  void stored(std::size_t first, std::span<Answer const> answers, AnswerRows const& rows) override;
  void made(std::size_t key, rocksdb::Slice const& value, ValueArena& arena) override;

 private:
  template <std::size_t kWidth>
  void copy_stored(std::size_t first, std::span<Answer const> answers, AnswerRows const& rows);
  MutableColumn values_;
};

/// Values of any length, in two passes: sizes, then bytes. What is no key of the read is empty.
class VariableSink final : public ValueSink {
 public:
  VariableSink(exec::Workers& workers, std::size_t elements, std::size_t keys,
               ReadRooms::Values& rooms, Places places, std::span<KeyStatus> statuses,
               VariableValues& values);
  /// Rows wait in memory of the sink for the second pass, if they are not too many.
  bool takes_rows(std::size_t keys, std::size_t words) override;
  void stored(std::size_t first, std::span<Answer const> answers, AnswerRows const& rows) override;
  void made(std::size_t key, rocksdb::Slice const& value, ValueArena& arena) override;
  void finish() override;

 private:
  static constexpr std::size_t kRowWords = (std::size_t{128} << 20) / sizeof(std::uint64_t);
  void set(std::size_t key, ValueRef const& value);
  void copy(std::size_t begin, std::size_t end) const;

  exec::Workers& workers_;
  std::span<ValueRef> refs_;  // one a key
  Room<std::uint64_t>& rows_;
  VariableValues& values_;  // until finish(), offsets[i + 1] is the size of element i
};

}  // namespace perdure::lsm
