// Requests of one client, from the bytes it sent: RESP arrays of bulk strings, read by hiredis's
// reader, and lines of words ("inline commands"). Invariant: arguments of whole requests lie in the
// turn's memory, which all clients share, and are gone with it; whatever next() leaves of a request
// that has not come whole is the reader's own, for a turn may end that has nothing of this client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace perdure::serve {

struct RequestLimits {
  std::size_t argument_bytes = 1u << 20;  // of one argument
  std::size_t request_bytes = 64u << 20;  // of all arguments of a request
  std::size_t arguments = 1u << 20;
};

class RequestReader {
 public:
  enum class Next : std::uint8_t { request, need_more, failed };

  RequestReader(RequestLimits const& limits, std::pmr::memory_resource& turn_memory);
  ~RequestReader();
  RequestReader(RequestReader const&) = delete;
  RequestReader& operator=(RequestReader const&) = delete;

  /// Takes bytes as they came. False: memory lacks, or the protocol was broken before.
  bool feed(std::string_view bytes);
  /// The next whole request; its arguments are there until the turn's memory is released. Throws
  /// std::bad_alloc where memory lacks: the reader is of no more use.
  Next next(std::vector<std::string_view>& arguments);
  /// What a client is told before it is dropped, without "ERR ".
  [[nodiscard]] std::string const& error() const { return error_; }
  /// A client that has not said who it is may send ten short arguments.
  void trust(bool trusted) { trusted_ = trusted; }
  /// Arguments of whole requests are gone.
  void end_turn() { done_.clear(); }
  /// Bytes that wait here.
  [[nodiscard]] std::size_t held_bytes() const;
  /// Those it had read already included.
  [[nodiscard]] std::size_t buffer_bytes() const;

 private:
  struct Callbacks;
  Next next_array(std::vector<std::string_view>& arguments);
  Next next_line(std::vector<std::string_view>& arguments);
  void keep_unfinished();
  Next fail(std::string error);
  bool has_failed() const { return !error_.empty(); }
  void check_unread_length();
  bool check_length(std::size_t bytes);
  void drop_read_bytes();
  std::string_view copy(char const* data, std::size_t bytes);

  RequestLimits limits_;
  std::pmr::memory_resource& turn_memory_;
  std::unique_ptr<redisReader, void (*)(redisReader*)> reader_;
  std::vector<std::string_view> arguments_;  // of the request that is being read
  std::vector<std::unique_ptr<char[]>> kept_;  // memory of the first kept_arguments_ of them
  std::vector<std::unique_ptr<char[]>> done_;  // that of requests which this turn has answered
  std::size_t kept_arguments_ = 0;
  std::size_t request_bytes_ = 0;
  std::size_t announced_ = 0;  // arguments that the request will have
  std::string error_;
  bool trusted_ = true;
};

}  // namespace perdure::serve
