// What a record's value holds of a Redis value: one byte that names its type and says whether it
// expires, eight of the moment when it does (milliseconds since 1970, little-endian), and its
// bytes. Those of a hash: for each field the lengths of name and value (LEB128) and their bytes, in
// the order in which the fields came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace perdure::serve {

/// `damaged`: the record fails its checksum, or is none of ours. Never written.
enum class Type : std::uint8_t { none = 0, string = 1, hash = 2, damaged = 3 };
std::string_view name_of(Type type);

struct Value {
  Type type = Type::none;
  std::int64_t expires_ms = 0;  // 0: never
  std::string_view bytes = {};
};

inline constexpr std::size_t kMostHeadBytes = 9;

/// None where a record is not one of ours.
std::optional<Value> read_value(std::string_view record);
void write_value(Value const& value, std::string& to);

struct Field {
  std::string_view name, value;
};

/// The fields of a hash, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}
  /// None at the end, and where the bytes are no hash's.
  std::optional<Field> next();

 private:
  bool read_length(std::size_t& length);
  std::string_view left_;
};

void append_field(std::string& to, Field const& field);
std::optional<std::string_view> find_field(std::string_view hash, std::string_view name);
std::size_t count_fields(std::string_view hash);

}  // namespace perdure::serve
