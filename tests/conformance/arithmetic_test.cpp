// Read-modify-write: every operation on every element type, against plain arithmetic.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

template <class T>
std::vector<T> interesting() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    return {T{0},        -T{0},         T{1},           T{-2.5},        L::max(),
            L::lowest(), L::infinity(), -L::infinity(), L::quiet_NaN(), L::denorm_min()};
  } else {
    return {T{0},
            T{1},
            T{2},
            L::max(),
            L::min(),
            static_cast<T>(L::max() - 1),
            static_cast<T>(L::max() / 2 + 1)};
  }
}

template <class T>
Bytes repeat(T x, std::size_t bytes) {
  Bytes out(bytes, '\x77');  // what is no whole element must stay
  for (std::size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T))
    std::memcpy(out.data() + at, &x, sizeof(T));
  return out;
}

/// NaNs of any payload are one; everything else is its bytes.
template <class T>
Bytes with_one_nan(Bytes bytes) {
  if constexpr (std::is_floating_point_v<T>) {
    for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T x;
      std::memcpy(&x, bytes.data() + at, sizeof(T));
      if (std::isnan(x)) x = std::numeric_limits<T>::quiet_NaN();
      std::memcpy(bytes.data() + at, &x, sizeof(T));
    }
  }
  return bytes;
}

template <class T>
void check_element(Driver& driver, Element element, std::size_t value_bytes) {
  auto const numbers = interesting<T>();
  for (Rmw const rmw : {Rmw::add, Rmw::min, Rmw::max, Rmw::replace}) {
    std::vector<Bytes> keys, stored, operands;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      for (std::size_t j = 0; j < numbers.size(); ++j) {
        keys.push_back(driver.config().key(i * 100 + j));
        stored.push_back(repeat(numbers[i], value_bytes));
        operands.push_back(repeat(numbers[j], value_bytes));
      }
    }
    ASSERT_NO_FATAL_FAILURE(driver.run_put(keys, stored));
    std::vector<KeyStatus> statuses;
    Status const s = driver.update(keys, operands, rmw, element, statuses);
    ASSERT_TRUE(s.ok()) << s.message();
    std::vector<Answer> answers;
    ASSERT_TRUE(driver.get(keys, answers).ok());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(statuses[i], KeyStatus::ok);
      Bytes const expected = combine_plainly(rmw, element, stored[i], operands[i]);
      ASSERT_TRUE(with_one_nan<T>(answers[i].value) == with_one_nan<T>(expected))
          << "rmw " << static_cast<int>(rmw) << " element " << static_cast<int>(element) << " of "
          << to_hex(stored[i]) << " and " << to_hex(operands[i]);
      driver.model.held[keys[i]] = answers[i].value;
    }
  }
}

TEST_P(Conformance, UpdatesComputeAsPlainArithmeticDoes) {
  std::size_t const bytes = fixed_values() ? GetParam().value_bytes : 21;
  ASSERT_NO_FATAL_FAILURE(check_element<std::uint8_t>(*driver_, Element::u8, bytes));
  ASSERT_NO_FATAL_FAILURE(check_element<std::int32_t>(*driver_, Element::i32, bytes));
  ASSERT_NO_FATAL_FAILURE(check_element<std::uint32_t>(*driver_, Element::u32, bytes));
  ASSERT_NO_FATAL_FAILURE(check_element<std::int64_t>(*driver_, Element::i64, bytes));
  ASSERT_NO_FATAL_FAILURE(check_element<std::uint64_t>(*driver_, Element::u64, bytes));
  ASSERT_NO_FATAL_FAILURE(check_element<float>(*driver_, Element::f32, bytes));
  ASSERT_NO_FATAL_FAILURE(check_element<double>(*driver_, Element::f64, bytes));
  driver_->check_all();
}

TEST_P(Conformance, ANaNInMinAndMaxStaysWhicheverSideItIsOn) {
  std::size_t const bytes = fixed_values() ? GetParam().value_bytes : 8;
  Bytes const three = repeat(3.0f, bytes),
              nan = repeat(std::numeric_limits<float>::quiet_NaN(), bytes);
  for (Rmw const rmw : {Rmw::min, Rmw::max}) {
    ASSERT_NO_FATAL_FAILURE(driver_->run_put({key(1), key(2)}, {three, nan}));
    std::vector<KeyStatus> statuses;
    ASSERT_TRUE(driver_->update({key(1), key(2)}, {nan, three}, rmw, Element::f32, statuses).ok());
    driver_->model.held[key(1)] = driver_->model.held[key(2)] = nan;
    driver_->check_held();
    // Among operations on one key, which are folded.
    std::vector<Bytes> operands(100, three);
    operands[37] = nan;
    ASSERT_NO_FATAL_FAILURE(driver_->run_put({key(1)}, {three}));
    ASSERT_TRUE(
        driver_->update(std::vector<Bytes>(100, key(1)), operands, rmw, Element::f32, statuses)
            .ok());
    driver_->model.held[key(1)] = nan;
    driver_->check_held();
  }
}

TEST_P(Conformance, ManyUpdatesOfOneKeyInABatchAllCount) {
  std::size_t const bytes = fixed_values() ? GetParam().value_bytes : 12;
  Bytes const one = repeat<std::uint8_t>(1, bytes);
  ASSERT_NO_FATAL_FAILURE(
      driver_->run_put({key(1), key(2)}, {repeat<std::uint8_t>(200, bytes), one}));
  std::vector<Bytes> k(1000, key(1)), operands(1000, one);
  for (std::size_t i = 0; i < k.size(); i += 10) k[i] = key(2);
  std::vector<KeyStatus> statuses;
  ASSERT_TRUE(driver_->update(k, operands, Rmw::add, Element::u8, statuses).ok());
  driver_->model.held[key(1)] = repeat<std::uint8_t>(static_cast<std::uint8_t>(200 + 900), bytes);
  driver_->model.held[key(2)] = repeat<std::uint8_t>(101, bytes);
  driver_->check_all();
}

TEST_P(Conformance, ArithmeticOnAValueOfAnotherLengthIsASizeMismatch) {
  if (fixed_values()) GTEST_SKIP() << "all values have one length here";
  ASSERT_NO_FATAL_FAILURE(
      driver_->run_put({key(1), key(2), key(3)}, {Bytes(8, '\1'), Bytes(9, '\2'), Bytes()}));
  std::vector<KeyStatus> statuses;
  ASSERT_TRUE(driver_
                  ->update({key(1), key(2), key(3), key(4)}, std::vector<Bytes>(4, Bytes(8, '\1')),
                           Rmw::add, Element::u8, statuses)
                  .ok());
  EXPECT_EQ(statuses, (std::vector<KeyStatus>{KeyStatus::ok, KeyStatus::size_mismatch,
                                              KeyStatus::size_mismatch, KeyStatus::not_found}));
  driver_->model.held[key(1)] = Bytes(8, '\2');
  driver_->check_all();
}

TEST_P(Conformance, GetsBetweenUpdatesSeeTheValueOfTheirMoment) {
  if (!fixed_values()) GTEST_SKIP() << "gets of a mixed batch need fixed-width values";
  std::size_t const bytes = GetParam().value_bytes;
  Bytes const one = repeat<std::uint64_t>(1, bytes);
  std::vector<Op> ops{{OpKind::get, key(1), {}},
                      {OpKind::put, key(1), repeat<std::uint64_t>(5, bytes)}};
  for (int i = 0; i < 20; ++i) {
    ops.push_back({OpKind::update, key(1), one});
    ops.push_back({OpKind::get, key(1), {}});
  }
  ops.push_back({OpKind::erase, key(1), {}});
  ops.push_back({OpKind::get, key(1), {}});
  ASSERT_NO_FATAL_FAILURE(driver_->run_mixed(ops, Rmw::add, Element::u64));
  ops.resize(ops.size() - 2);
  ASSERT_NO_FATAL_FAILURE(driver_->run_mixed(ops, Rmw::add, Element::u64));
  ASSERT_NO_FATAL_FAILURE(driver_->run_mixed(ops, Rmw::add, Element::u64));
  driver_->check_all();
}

}  // namespace
}  // namespace perdure::test
