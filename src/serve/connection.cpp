#include "serve/connection.hpp"

#include <algorithm>
#include <asio/buffer.hpp>
#include <utility>

namespace perdure::serve {
namespace {

constexpr std::size_t kFirstBuffer = 4096, kLargestBuffer = 256u << 10;
constexpr std::size_t kEnoughUnsent = 1u
                                      << 20;  // nothing more is read from who has so much to read
constexpr std::size_t kEnoughUnread = 1u << 20;  // of a client that waits
constexpr std::size_t kKeptOutput = 64u << 10;

RequestLimits limits_of(ServeOptions const& o) {
  return {.argument_bytes = std::max(o.most_value_bytes, o.most_key_bytes) + 1,
          .request_bytes = o.most_request_bytes};
}

std::string text_of(asio::ip::tcp::endpoint const& end) {
  std::string const address = end.address().to_string();
  return (end.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(end.port());
}

}  // namespace

Connection::Connection(ConnectionOwner& owner, asio::ip::tcp::socket socket, std::uint64_t id,
                       asio::ssl::context* tls)
    : owner_(owner),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      reader_(limits_of(owner.state().options), owner.turn_memory()),
      buffer_(kFirstBuffer),
      progress_at_(Clock::now()) {
  if (tls != nullptr)
    tls_ = std::make_unique<asio::ssl::stream<asio::ip::tcp::socket&>>(socket_, *tls);
  asio::error_code error;
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  session_.id = id;
  session_.address = text_of(socket_.remote_endpoint(error));
  session_.local_address = text_of(socket_.local_endpoint(error));
  session_.connected_ms = session_.last_ms = owner.state().now_ms;
  session_.state.authenticated = owner.state().options.password.empty();
  reader_.trust(session_.state.authenticated);
}

void Connection::start() {
  if (tls_ == nullptr) return read();
  auto const self = shared_from_this();
  tls_->async_handshake(asio::ssl::stream_base::server, [self](asio::error_code error) {
    if (error)
      self->close();
    else
      self->read();
  });
}

void Connection::reject(std::string_view error) {
  Reply(session_.out, 2).error(error);
  session_.state.closing = true;
  flush();
}

template <class Buffer, class Handler>
void Connection::read_some(Buffer buffer, Handler handler) {
  if (tls_)
    tls_->async_read_some(buffer, std::move(handler));
  else
    socket_.async_read_some(buffer, std::move(handler));
}

void Connection::read() {
  if (closed_ || reading_ || session_.state.closing) return;
  if (unsent() > kEnoughUnsent) return;  // write() reads on
  if (blocked_ && reader_.held_bytes() > kEnoughUnread) return;
  reading_ = true;
  read_some(asio::buffer(buffer_),
            [self = shared_from_this()](asio::error_code error, std::size_t bytes) {
              self->reading_ = false;
              if (error)
                self->close();
              else if (!self->closed_)
                self->on_read(bytes);
            });
}

void Connection::on_read(std::size_t bytes) try {
  owner_.state().bytes_in.fetch_add(bytes, std::memory_order_relaxed);
  read_at_ = progress_at_ = Clock::now();
  reader_.trust(session_.state.authenticated);
  bool const fed = reader_.feed({buffer_.data(), bytes});
  if (bytes == buffer_.size() && bytes < kLargestBuffer) buffer_.resize(2 * bytes);
  if (!fed) return close();  // memory lacks
  if (blocked_)
    read();
  else
    go_on();
} catch (std::bad_alloc const&) {
  close();
}

bool Connection::collect() try {
  while (!closed_ && !session_.state.closing) {
    RequestReader::Next const next = reader_.next(arguments_);
    if (next == RequestReader::Next::need_more) break;
    if (next == RequestReader::Next::failed) {
      protocol_error();
      return true;
    }
    bool const more = owner_.take(shared_from_this(), arguments_);
    if (!more || equal_letters(arguments_.front(), "wait")) return true;
    // What a client may send depends on what this one says.
    if (!session_.state.authenticated) return true;
  }
  return turn_requests != 0;
} catch (std::bad_alloc const&) {
  close();
  return true;
}

void Connection::go_on() {
  if (!collect()) read();
}

/// Behind what was asked before, which the next turn answers first.
void Connection::protocol_error() { owner_.take(shared_from_this(), {}); }

void Connection::after_turn() {
  turn_requests = 0;
  session_.last_ms = owner_.state().now_ms;
  if (reader_.error().empty() == false) {
    Reply(session_.out, session_.state.protocol).error("ERR " + reader_.error());
    session_.state.closing = true;
  }
  flush();
  if (closed_ || session_.state.closing) return;
  if (session_.state.wait_ms >= 0) return wait_for_replicas();
  reader_.trust(session_.state.authenticated);
  go_on();
}

void Connection::wait_for_replicas() {
  auto const ms = std::exchange(session_.state.wait_ms, -1);
  blocked_ = true;
  read();  // to see it leave
  if (ms == 0) return;
  timer_.expires_after(std::chrono::milliseconds(ms));
  timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (error || self->closed_) return;
    self->blocked_ = false;
    Reply(self->session_.out, self->session_.state.protocol).integer(0);
    self->flush();
    self->go_on();
  });
}

void Connection::flush() {
  if (closed_) return;
  if (unsent() > owner_.state().options.most_unread_bytes) {
    owner_.state().dropped_slow.fetch_add(1, std::memory_order_relaxed);
    return close();
  }
  if (!writing_) write();
}

void Connection::write() {
  if (closed_) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    if (sending_.capacity() > kKeptOutput) sending_ = {};
    sent_ = 0;
    std::swap(sending_, session_.out);
  }
  writing_ = !sending_.empty();
  if (!writing_) {
    if (session_.state.closing) close();
    return;
  }
  auto const sent = [self = shared_from_this()](asio::error_code error, std::size_t bytes) {
    if (error) return self->close();
    self->owner_.state().bytes_out.fetch_add(bytes, std::memory_order_relaxed);
    self->progress_at_ = Clock::now();
    self->sent_ += bytes;
    self->write();
    if (self->turn_requests == 0 && !self->blocked_) self->read();
  };
  auto const left = asio::buffer(sending_) + sent_;
  if (tls_)
    tls_->async_write_some(left, sent);
  else
    socket_.async_write_some(left, sent);
}

void Connection::look_after(Clock::time_point now) {
  ServeOptions const& o = owner_.state().options;
  auto const still = now - progress_at_;
  if (unsent() != 0 && still > std::chrono::seconds(o.slow_client_seconds)) {
    owner_.state().dropped_slow.fetch_add(1, std::memory_order_relaxed);
    return close();
  }
  bool const idle = unsent() == 0 && turn_requests == 0 && !blocked_;
  if (o.idle_seconds != 0 && idle && still > std::chrono::seconds(o.idle_seconds)) close();
}

void Connection::close_in_order() {
  session_.state.closing = true;
  if (!writing_) write();
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  asio::error_code error;
  timer_.cancel();
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, error);
  socket_.close(error);
  owner_.closed(*this);
}

}  // namespace perdure::serve
