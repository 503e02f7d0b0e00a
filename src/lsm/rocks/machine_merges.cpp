#include "lsm/rocks/machine_merges.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lsm/engine/read_bodies.hpp"
#include "lsm/rocks/merging.hpp"
#include "perdure/rocks.h"

namespace perdure::lsm {

using rocksdb::Slice;

namespace {

constexpr char kMinName[] = "perdure.MinOperator";

/// As RocksDB's max, of which this is the counterpart.
class MinOperator final : public rocksdb::MergeOperator {
 public:
  char const* Name() const override { return kMinName; }
  bool FullMergeV2(MergeOperationInput const& in, MergeOperationOutput* out) const override {
    Slice least = in.existing_value != nullptr ? *in.existing_value : in.operand_list.front();
    for (Slice const& operand : in.operand_list)
      if (operand.compare(least) < 0) least = operand;
    out->new_value.assign(least.data(), least.size());
    return true;
  }
  bool PartialMerge(Slice const&, Slice const& left, Slice const& right, std::string* value,
                    rocksdb::Logger*) const override {
    Slice const& least = right.compare(left) < 0 ? right : left;
    value->assign(least.data(), least.size());
    return true;
  }
};

Operation named(std::string_view name) {
  if (name == "UInt64AddOperator") return Operation::add;
  if (name == "MaxOperator") return Operation::max;
  if (name == kMinName) return Operation::min;
  return Operation::none;
}

Slice slice_of_word(std::uint64_t const& word) {
  return {reinterpret_cast<char const*>(&word), sizeof word};
}

/// Somebody else's operator may have that name too.
bool does(rocksdb::MergeOperator const& merge_operator, Operation operation) {
  constexpr std::array<std::uint64_t, 8> kWords{
      0, 1, 255, 256, 0x8000000000000000u, ~std::uint64_t{0}, 0x0123456789abcdefu, 0x7f00ff00u};
  Merged merged;
  for (std::uint64_t const base : kWords) {
    for (std::uint64_t const operand : kWords) {
      Slice const below = slice_of_word(base);
      for (Slice const* const on : {&below, static_cast<Slice const*>(nullptr)}) {
        std::vector<Slice> const operands{slice_of_word(operand), slice_of_word(kWords[6])};
        if (!merged.fold(&merge_operator, nullptr, "key", on, operands).ok()) return false;
        std::uint64_t word = Folded::of(operation, operand, kWords[6]);
        if (on != nullptr) word = Folded::of(operation, word, base);
        if (merged.value() != slice_of_word(word)) return false;
      }
    }
  }
  return true;
}

}  // namespace

Operation operation_of(rocksdb::MergeOperator const* merge_operator) {
  if (merge_operator == nullptr) return Operation::none;
  Operation const operation = named(merge_operator->Name());
  bool const is_it = operation != Operation::none && does(*merge_operator, operation);
  return is_it ? operation : Operation::none;
}

}  // namespace perdure::lsm

namespace perdure::rocks {

std::shared_ptr<rocksdb::MergeOperator> min_operator() {
  return std::make_shared<lsm::MinOperator>();
}

}  // namespace perdure::rocks
