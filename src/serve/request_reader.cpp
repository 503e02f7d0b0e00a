#include "serve/request_reader.hpp"

#include <hiredis/read.h>

extern "C" {
#include <hiredis/sds.h>
}
#if __has_include(<hiredis/sdscompat.h>)
#include <hiredis/sdscompat.h>  // hiredis 1.1 gave these functions names of its own
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "base/hooks.hpp"

namespace perdure::serve {
namespace {

constexpr std::size_t kLongestLine = 64u << 10;
constexpr std::size_t kUntrustedArguments = 10, kUntrustedBytes = 16u << 10;
constexpr char kNoReply = 0;

/// What hiredis takes for an object that was made.
void* made() { return const_cast<char*>(&kNoReply); }

RequestReader& owner_of(redisReadTask const* task) {
  return *static_cast<RequestReader*>(task->privdata);
}

/// The byte that hiredis took for no type, from its message: got "?" as reply type byte.
std::string unknown_sign(std::string_view message) {
  constexpr std::string_view kBefore = "got ";
  auto const at = message.find(kBefore);
  if (at == std::string_view::npos) return {};
  std::string_view text = message.substr(at + kBefore.size());
  text = text.substr(0, text.find(" as reply"));
  if (text.size() >= 3 && text.front() == '"') text = text.substr(1, text.size() - 2);
  if (text.size() == 1) return std::string(text);
  if (text.size() < 2 || text[0] != '\\') return {};
  switch (text[1]) {
    case 'x':
      return {static_cast<char>(std::strtoul(std::string(text.substr(2)).c_str(), nullptr, 16))};
    case 'n':
    case 'r': return " ";  // as Redis's replies have them
    case 't': return "\t";
    case 'a': return "\a";
    case 'b': return "\b";
    default: return std::string(text.substr(1, 1));
  }
}

char sign_of(int type) {
  switch (type) {
    case REDIS_REPLY_STATUS: return '+';
    case REDIS_REPLY_ERROR: return '-';
    case REDIS_REPLY_INTEGER: return ':';
    case REDIS_REPLY_ARRAY: return '*';
#ifdef REDIS_REPLY_MAP  // hiredis 1.0 reads RESP3
    case REDIS_REPLY_MAP: return '%';
    case REDIS_REPLY_SET: return '~';
    case REDIS_REPLY_PUSH: return '>';
    case REDIS_REPLY_ATTR: return '|';
    case REDIS_REPLY_DOUBLE: return ',';
    case REDIS_REPLY_BOOL: return '#';
    case REDIS_REPLY_BIGNUM: return '(';
    case REDIS_REPLY_VERB: return '=';
#endif
    default: return '?';
  }
}

}  // namespace

/// What hiredis's reader calls for each element. Their types differ between its versions, so the
/// callbacks take whatever number it counts with. No exception crosses hiredis: null is its word
/// for memory that lacks.
struct RequestReader::Callbacks {
  template <class F>
  static void* caught(F make) noexcept {
    try {
      return make();
    } catch (std::bad_alloc const&) {
      return nullptr;
    }
  }
  static void* string(redisReadTask const* task, char* data, std::size_t bytes) {
    RequestReader& reader = owner_of(task);
    if (reader.has_failed()) return made();
    if (task->parent == nullptr || task->type != REDIS_REPLY_STRING) {
      reader.fail(std::string("Protocol error: expected '$', got '") + sign_of(task->type) + "'");
      return made();
    }
    reader.arguments_.push_back(reader.copy(data, bytes));
    return made();
  }
  static void* array(redisReadTask const* task, std::size_t elements) {
    RequestReader& reader = owner_of(task);
    if (task->parent != nullptr) {
      reader.fail(std::string("Protocol error: expected '$', got '") + sign_of(task->type) + "'");
      return made();
    }
    std::size_t const most = reader.trusted_ ? reader.limits_.arguments : kUntrustedArguments;
    if (elements > most)
      reader.fail(reader.trusted_ ? "Protocol error: invalid multibulk length"
                                  : "Protocol error: unauthenticated multibulk length");
    reader.announced_ = elements;
    return made();
  }
  static void* other(redisReadTask const* task, char sign) {
    if (task->parent != nullptr)
      owner_of(task).fail(sign == '$'
                              ? std::string("Protocol error: invalid bulk length")
                              : std::string("Protocol error: expected '$', got '") + sign + "'");
    return made();
  }

  /// What hiredis 1.0 and later have besides.
  template <class Functions>
  static void set_resp3(Functions& all) {
    if constexpr (requires { all.createDouble; }) {
      all.createDouble = [](redisReadTask const* task, double, char*, std::size_t) -> void* {
        return caught([&] { return other(task, ','); });
      };
      all.createBool = [](redisReadTask const* task, int) -> void* {
        return caught([&] { return other(task, '#'); });
      };
    }
  }

  static redisReplyObjectFunctions functions() {
    redisReplyObjectFunctions all{};
    all.createString = [](redisReadTask const* task, char* data, std::size_t bytes) -> void* {
      return caught([&] { return string(task, data, bytes); });
    };
    all.createArray = [](redisReadTask const* task, auto elements) -> void* {
      return caught([&] { return array(task, static_cast<std::size_t>(elements)); });
    };
    all.createInteger = [](redisReadTask const* task, long long) -> void* {
      return caught([&] { return other(task, ':'); });
    };
    all.createNil = [](redisReadTask const* task) -> void* {
      return caught([&] { return other(task, task->type == REDIS_REPLY_NIL ? '_' : '$'); });
    };
    set_resp3(all);
    all.freeObject = [](void*) {};
    return all;
  }
};

RequestReader::RequestReader(RequestLimits const& limits, std::pmr::memory_resource& turn_memory)
    : limits_(limits), turn_memory_(turn_memory), reader_(nullptr, [](redisReader* reader) {
        if (reader != nullptr) redisReaderFree(reader);
      }) {
  static redisReplyObjectFunctions functions = Callbacks::functions();
  reader_.reset(redisReaderCreateWithFunctions(&functions));
  if (reader_ == nullptr) {
    error_ = "out of memory";
    return;
  }
  reader_->privdata = this;
}

RequestReader::~RequestReader() = default;

bool RequestReader::feed(std::string_view bytes) {
  return error_.empty() && redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) == REDIS_OK;
}

std::size_t RequestReader::held_bytes() const {
  std::size_t const unread = reader_ == nullptr ? 0 : reader_->len - reader_->pos;
  return unread + request_bytes_;
}

std::size_t RequestReader::buffer_bytes() const { return reader_->len; }

std::string_view RequestReader::copy(char const* data, std::size_t bytes) {
  if (!check_length(bytes)) return {};
  request_bytes_ += bytes;
  auto* const to = static_cast<char*>(turn_memory_.allocate(bytes + 1, 1));
  if (bytes != 0) std::memcpy(to, data, bytes);
  return {to, bytes};
}

RequestReader::Next RequestReader::fail(std::string error) {
  if (error_.empty()) error_ = std::move(error);
  return Next::failed;
}

RequestReader::Next RequestReader::next(std::vector<std::string_view>& arguments) {
  for (;;) {
    if (has_failed()) return Next::failed;
    redisReader& r = *reader_;
    bool const between = r.ridx < 0;
    if (between && r.pos == r.len) {  // hiredis drops what it has read as it reads on
      if (r.len != 0) sdsclear(r.buf);
      r.pos = r.len = 0;
      return Next::need_more;
    }
    if (between) {
      arguments_.clear();
      std::ranges::move(kept_, std::back_inserter(done_));
      kept_.clear();
      kept_arguments_ = request_bytes_ = announced_ = 0;
    }
    Next const got = between && r.buf[r.pos] != '*' ? next_line(arguments) : next_array(arguments);
    if (got == Next::need_more) keep_unfinished();
    if (got != Next::request || !arguments.empty()) return got;  // empty requests count for nothing
  }
}

RequestReader::Next RequestReader::next_array(std::vector<std::string_view>& arguments) {
  void* whole = nullptr;
  int const read = redisReaderGetReply(reader_.get(), &whole);
  if (has_failed()) return Next::failed;
  if (read != REDIS_OK) {
    if (reader_->err == REDIS_ERR_OOM) throw std::bad_alloc();
    std::string_view const why = reader_->errstr;
    if (std::string const sign = unknown_sign(why); !sign.empty())
      return fail("Protocol error: expected '$', got '" + sign + "'");
    return fail(why.find("ulti") != std::string_view::npos
                    ? "Protocol error: invalid multibulk length"
                    : "Protocol error: invalid bulk length");
  }
  if (whole == nullptr) {
    check_unread_length();
    return has_failed() ? Next::failed : Next::need_more;
  }
  if (arguments_.size() != announced_) return fail("Protocol error: expected '$'");
  arguments.assign(arguments_.begin(), arguments_.end());
  return Next::request;
}

/// The argument that comes next may be too long to be waited for. hiredis leaves an argument that
/// has not come whole where its length begins: at the '$' or behind it.
void RequestReader::check_unread_length() {
  redisReader const& r = *reader_;
  char const* begin = r.buf + r.pos;
  std::size_t unread = r.len - r.pos;
  if (unread != 0 && *begin == '$') ++begin, --unread;
  bool const whole_line = std::memchr(begin, '\r', unread) != nullptr;
  if (announced_ != 0 && whole_line) {
    check_length(std::strtoull(begin, nullptr, 10));
  } else if (unread > kLongestLine) {
    fail(announced_ == 0 ? "Protocol error: too big mbulk count string"
                         : "Protocol error: too big bulk count string");
  }
}

/// False: an argument of that length is too long.
bool RequestReader::check_length(std::size_t bytes) {
  if (bytes > limits_.argument_bytes || bytes > limits_.request_bytes - request_bytes_)
    fail("Protocol error: invalid bulk length");
  else if (!trusted_ && bytes > kUntrustedBytes)
    fail("Protocol error: unauthenticated bulk length");
  return !has_failed();
}

/// hiredis does so itself, but for lines, which it does not read.
void RequestReader::drop_read_bytes() {
  redisReader& r = *reader_;
  if (r.pos == 0) return;
  sdsrange(r.buf, static_cast<int>(r.pos), -1);
  r.pos = 0;
  r.len = sdslen(r.buf);
}

RequestReader::Next RequestReader::next_line(std::vector<std::string_view>& arguments) {
  redisReader& r = *reader_;
  char const* const begin = r.buf + r.pos;
  std::size_t const unread = r.len - r.pos;
  auto const* const end = static_cast<char const*>(std::memchr(begin, '\n', unread));
  if (end == nullptr) {
    drop_read_bytes();
    return unread > kLongestLine ? fail("Protocol error: too big inline request") : Next::need_more;
  }
  std::size_t bytes = static_cast<std::size_t>(end - begin);
  r.pos += bytes + 1;
  if (bytes != 0 && begin[bytes - 1] == '\r') --bytes;
  if (std::memchr(begin, '\0', bytes) != nullptr)
    return fail("Protocol error: zero byte in inline request");
  std::string const line(begin, bytes);
  int count = 0;
  auto* const words = sdssplitargs(line.c_str(), &count);
  if (words == nullptr) return fail("Protocol error: unbalanced quotes in request");
  arguments.clear();
  for (int i = 0; i < count; ++i) arguments.push_back(copy(words[i], sdslen(words[i])));
  sdsfreesplitres(words, count);
  return has_failed() ? Next::failed : Next::request;
}

void RequestReader::keep_unfinished() {
  if (reader_->ridx < 0 || mutated("serve_unfinished_not_kept")) return;
  for (; kept_arguments_ < arguments_.size(); ++kept_arguments_) {
    std::string_view& argument = arguments_[kept_arguments_];
    auto own = std::make_unique_for_overwrite<char[]>(argument.size() + 1);
    if (!argument.empty()) std::memcpy(own.get(), argument.data(), argument.size());
    argument = {own.get(), argument.size()};
    kept_.push_back(std::move(own));
  }
}

}  // namespace perdure::serve
