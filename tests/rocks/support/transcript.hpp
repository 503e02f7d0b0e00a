// What a database answered, as text that is compared with what the other answered: statuses by
// code and subcode (messages name files and internals), values and keys as bytes.
#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#include <string>
#include <string_view>

namespace perdure::test {

class Transcript {
 public:
  Transcript& word(std::string_view text) {
    text_.append(text).push_back(' ');
    return *this;
  }
  Transcript& number(std::uint64_t n) { return word(std::to_string(n)); }
  Transcript& bytes(rocksdb::Slice slice) {
    number(slice.size());
    text_.append(slice.data(), slice.size()).push_back(' ');
    return *this;
  }
  Transcript& status(rocksdb::Status const& s) { return number(s.code()).number(s.subcode()); }
  Transcript& entry(rocksdb::Slice key, rocksdb::Slice value) {
    return bytes(key).bytes(value).line();
  }
  Transcript& answer(rocksdb::Status const& s, rocksdb::Slice value) {
    status(s);
    return s.ok() ? bytes(value) : *this;
  }
  Transcript& line() {
    text_.push_back('\n');
    return *this;
  }

  [[nodiscard]] std::string const& text() const { return text_; }
  void clear() { text_.clear(); }

 private:
  std::string text_;
};

/// Bytes that can be printed, others as \xNN.
std::string printable(std::string_view bytes);

/// Where two transcripts part, with what stands around it; empty where they are equal.
std::string difference(std::string const& left, std::string const& right);

}  // namespace perdure::test
