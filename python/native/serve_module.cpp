// The extension module perdure._serve: perdure/serve.h over a pool that it opens or makes itself.
// perdure/serve.py is what users see. Invariant: the store is this module's alone, and is there
// until the server has stopped.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "errors.hpp"
#include "gil.hpp"
#include "log_sink.hpp"
#include "perdure/serve.h"

namespace nb = nanobind;

namespace perdure::python {
namespace {

/// How the pool is opened, or made where there is none.
struct PoolOptions {
  CreateOptions create = {};
  OpenOptions open = {};
};

class ServedPool {
 public:
  ServedPool(std::string const& path, PoolOptions const& pool, ServeOptions const& options) {
    // Of durability power the log may be all that is left.
    auto opened = Store::open(path, pool.open);
    made_ = opened.status().code() == Code::not_found;
    if (made_) opened = Store::create(path, pool.create, pool.open);
    store_.emplace(value_or_raise(std::move(opened)));
    server_.emplace(value_or_raise(Server::start(*store_, options)));
  }
  ServedPool(ServedPool const&) = delete;
  ServedPool& operator=(ServedPool const&) = delete;
  /// Without the GIL: the server's thread may need it for an event, and is waited for.
  ~ServedPool() {
    ReleasedGil const released;
    server_.reset();
    store_.reset();
  }
  bool wait(std::uint64_t most_ms) {
    return without_gil([&] { return server_->wait(most_ms); });
  }
  void close() {
    Status stopped, closed;
    without_gil([&] {
      stopped = server_->stop();  // whoever it still answers needs the store
      closed = store_->close();
    });
    raise_unless_ok(stopped);
    raise_unless_ok(closed);
  }
  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] bool running() const { return server_->running(); }
  [[nodiscard]] ServeStats stats() const { return server_->stats(); }
  [[nodiscard]] Store& store() { return *store_; }

 private:
  bool made_ = false;
  std::optional<Store> store_;
  std::optional<Server> server_;
};

void bind_options(nb::module_& module) {
  nb::class_<PoolOptions>(module, "PoolOptions")
      .def(
          "__init__",
          [](PoolOptions* at, std::uint64_t records, std::uint64_t max_bytes, bool power,
             std::string const& log_dir, std::uint64_t log_bytes, bool cuda,
             std::uint32_t threads) {
            PoolOptions o;
            o.create.key_bytes = o.create.value_bytes = 0;
            o.create.expected_records = records;
            o.create.max_bytes = max_bytes;
            o.create.durability = power ? Durability::power : Durability::process;
            o.create.log.dir = o.open.log_dir = log_dir;
            if (log_bytes != 0) o.create.log.bytes = log_bytes;
            o.open.device = cuda ? Device::cuda : Device::cpu;
            o.open.threads = threads;
            new (at) PoolOptions(std::move(o));
          },
          nb::kw_only(), nb::arg("records"), nb::arg("max_bytes"), nb::arg("power"),
          nb::arg("log_dir"), nb::arg("log_bytes"), nb::arg("cuda"), nb::arg("threads"));
  nb::class_<ServeOptions>(module, "ServeOptions")
      .def(nb::init<>())
      .def_rw("host", &ServeOptions::host)
      .def_rw("port", &ServeOptions::port)
      .def_rw("password", &ServeOptions::password)
      .def_rw("protected_mode", &ServeOptions::protected_mode)
      .def_rw("most_clients", &ServeOptions::most_clients)
      .def_rw("most_value_bytes", &ServeOptions::most_value_bytes)
      .def_rw("most_request_bytes", &ServeOptions::most_request_bytes)
      .def_rw("most_unread_bytes", &ServeOptions::most_unread_bytes)
      .def_rw("slow_client_seconds", &ServeOptions::slow_client_seconds)
      .def_rw("idle_seconds", &ServeOptions::idle_seconds)
      .def_rw("most_turn_requests", &ServeOptions::most_turn_requests)
      .def_rw("snapshot_path", &ServeOptions::snapshot_path)
      .def("set_tls",
           [](ServeOptions& o, std::string certificate, std::string key, std::string client_ca) {
             o.tls = {std::move(certificate), std::move(key), std::move(client_ca)};
           });
}

nb::dict to_dict(ServeStats const& s) {
  nb::dict all;
  all["commands"] = s.commands;
  all["turns"] = s.turns;
  all["largest_turn"] = s.largest_turn;
  all["clients"] = s.clients;
  all["connections"] = s.connections;
  all["rejected_connections"] = s.rejected_connections;
  all["dropped_slow"] = s.dropped_slow;
  all["hits"] = s.hits;
  all["misses"] = s.misses;
  all["expired_keys"] = s.expired_keys;
  all["refused_writes"] = s.refused_writes;
  all["bytes_in"] = s.bytes_in;
  all["bytes_out"] = s.bytes_out;
  all["seconds"] = s.seconds;
  all["latency_us"] = s.latency_us;
  return all;
}

nb::dict store_stats(Store& store) {
  Stats const s = without_gil([&] { return store.stats(); });
  nb::dict all;
  all["records"] = s.records;
  all["load_factor"] = s.load_factor;
  all["growths"] = s.growths;
  all["pool_bytes"] = s.space.pool_bytes;
  all["used_bytes"] = s.space.used_bytes;
  all["log_used_bytes"] = s.log.used_bytes;
  all["log_checkpoints"] = s.log.checkpoints;
  all["log_method"] = s.log.method;
  return all;
}

nb::dict recovery(Store& store) {
  RecoveryReport const& r = store.recovery();
  nb::dict all;
  all["clean"] = r.clean;
  all["records"] = r.records;
  all["dropped"] = r.dropped;
  all["undone"] = r.undone;
  all["replayed"] = r.replayed;
  all["why_dropped"] = r.why_dropped;
  all["log_report"] = r.log_report;
  all["map_seconds"] = r.map_seconds;
  all["recover_seconds"] = r.recover_seconds;
  return all;
}

}  // namespace
}  // namespace perdure::python

NB_MODULE(_serve, module) {
  using namespace perdure::python;
  using perdure::ServeOptions;
  register_errors();
  bind_options(module);
  bind_log_sink(module);
  nb::class_<ServedPool>(module, "ServedPool")
      .def(nb::init<std::string const&, PoolOptions const&, ServeOptions const&>(), nb::arg("path"),
           nb::arg("pool"), nb::arg("options"), nb::call_guard<ReleasedGil>())
      .def("wait", &ServedPool::wait, nb::arg("most_ms"))
      .def("close", &ServedPool::close)
      .def("made", &ServedPool::made)
      .def("port", &ServedPool::port)
      .def("running", &ServedPool::running)
      .def("stats", [](ServedPool const& pool) { return to_dict(pool.stats()); })
      .def("store_stats", [](ServedPool& pool) { return store_stats(pool.store()); })
      .def("recovery", [](ServedPool& pool) { return recovery(pool.store()); });
}
