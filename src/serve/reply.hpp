// Replies in RESP2 and RESP3, appended to what a client is to be sent. One reply is one of these
// calls, or an array, map or set followed by its elements. Invariant: what waits for a client is
// never much more than the most that one may leave unread: beyond it nothing is appended, and the
// connection is dropped.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace perdure::serve {

class Reply {
 public:
  Reply(std::string& out, int protocol, std::size_t most_bytes = static_cast<std::size_t>(-1))
      : out_(out), protocol_(protocol), most_bytes_(most_bytes) {}

  void ok() { out_ += "+OK\r\n"; }
  void status(std::string_view text) { line('+', text); }
  /// `text` begins with its code: "ERR ...", "WRONGTYPE ...".
  void error(std::string_view text) {
    while (text.ends_with('\r') || text.ends_with('\n')) text.remove_suffix(1);
    line('-', text);
  }
  void integer(std::int64_t value) { number(':', value); }
  void bulk(std::string_view bytes) {
    if (out_.size() > most_bytes_) return;
    number('$', static_cast<std::int64_t>(bytes.size()));
    out_ += bytes;
    out_ += "\r\n";
  }
  void bulk_number(std::int64_t value) {
    char text[24];
    auto const end = std::to_chars(text, text + sizeof text, value).ptr;
    bulk({text, static_cast<std::size_t>(end - text)});
  }
  void null() { out_ += protocol_ >= 3 ? "_\r\n" : "$-1\r\n"; }
  void null_array() { out_ += protocol_ >= 3 ? "_\r\n" : "*-1\r\n"; }
  void array(std::size_t elements) { number('*', static_cast<std::int64_t>(elements)); }
  void set(std::size_t elements) {
    number(protocol_ >= 3 ? '~' : '*', static_cast<std::int64_t>(elements));
  }
  /// Then as many pairs.
  void map(std::size_t pairs) {
    if (protocol_ >= 3)
      number('%', static_cast<std::int64_t>(pairs));
    else
      array(2 * pairs);
  }
  /// Text for people, of several lines.
  void verbatim(std::string_view text) {
    if (protocol_ < 3) return bulk(text);
    number('=', static_cast<std::int64_t>(text.size() + 4));
    out_ += "txt:";
    out_ += text;
    out_ += "\r\n";
  }
  [[nodiscard]] int protocol() const { return protocol_; }

 private:
  void line(char sign, std::string_view text) {
    out_ += sign;
    for (char const c : text) out_ += c == '\r' || c == '\n' ? ' ' : c;
    out_ += "\r\n";
  }
  void number(char sign, std::int64_t value) {
    char text[24];
    auto const end = std::to_chars(text, text + sizeof text, value).ptr;
    out_ += sign;
    out_.append(text, static_cast<std::size_t>(end - text));
    out_ += "\r\n";
  }

  std::string& out_;
  int protocol_;
  std::size_t most_bytes_;
};

}  // namespace perdure::serve
