#include "serve/value.hpp"

#include <cstring>

namespace perdure::serve {
namespace {

constexpr std::uint8_t kExpires = 0x80;

void append_length(std::string& to, std::size_t length) {
  for (; length >= 0x80; length >>= 7) to += static_cast<char>(0x80 | (length & 0x7f));
  to += static_cast<char>(length);
}

}  // namespace

std::string_view name_of(Type type) {
  switch (type) {
    case Type::none:
    case Type::damaged: return "none";
    case Type::string: return "string";
    case Type::hash: return "hash";
  }
  return "none";
}

std::optional<Value> read_value(std::string_view record) {
  if (record.empty()) return std::nullopt;
  auto const head = static_cast<std::uint8_t>(record[0]);
  Value value;
  std::size_t at = 1;
  if ((head & kExpires) != 0) {
    if (record.size() < kMostHeadBytes) return std::nullopt;
    std::memcpy(&value.expires_ms, record.data() + 1, 8);
    at = kMostHeadBytes;
  }
  auto const type = static_cast<std::uint8_t>(head & ~kExpires);
  if (type != static_cast<std::uint8_t>(Type::string) &&
      type != static_cast<std::uint8_t>(Type::hash))
    return std::nullopt;
  value.type = static_cast<Type>(type);
  value.bytes = record.substr(at);
  return value;
}

void write_value(Value const& value, std::string& to) {
  auto head = static_cast<std::uint8_t>(value.type);
  if (value.expires_ms != 0) head |= kExpires;
  to += static_cast<char>(head);
  if (value.expires_ms != 0) {
    char moment[8];
    std::memcpy(moment, &value.expires_ms, 8);
    to.append(moment, 8);
  }
  to += value.bytes;
}

bool Fields::read_length(std::size_t& length) {
  length = 0;
  for (unsigned shift = 0; shift < 35 && !left_.empty(); shift += 7) {
    auto const byte = static_cast<std::uint8_t>(left_[0]);
    left_.remove_prefix(1);
    length |= std::size_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

std::optional<Field> Fields::next() {
  std::size_t name = 0, value = 0;
  if (left_.empty() || !read_length(name) || !read_length(value)) return std::nullopt;
  if (name > left_.size() || value > left_.size() - name) return std::nullopt;
  Field const field{left_.substr(0, name), left_.substr(name, value)};
  left_.remove_prefix(name + value);
  return field;
}

void append_field(std::string& to, Field const& field) {
  append_length(to, field.name.size());
  append_length(to, field.value.size());
  to += field.name;
  to += field.value;
}

std::optional<std::string_view> find_field(std::string_view hash, std::string_view name) {
  Fields fields(hash);
  while (auto const field = fields.next())
    if (field->name == name) return field->value;
  return std::nullopt;
}

std::size_t count_fields(std::string_view hash) {
  std::size_t count = 0;
  Fields fields(hash);
  while (fields.next()) ++count;
  return count;
}

}  // namespace perdure::serve
