#include "capi/options.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include "capi/growing.hpp"

namespace perdure::capi {
namespace {

std::string text_or_none(char const* text) { return text != nullptr ? text : std::string(); }

perdure_create_options default_create_options() {
  CreateOptions const usual;
  perdure_create_options o = {};
  o.struct_bytes = sizeof(o);
  o.expected_records = usual.expected_records;
  o.max_bytes = usual.max_bytes;
  o.key_bytes = usual.key_bytes;
  o.value_bytes = usual.value_bytes;
  o.index = static_cast<std::uint32_t>(usual.index);
  o.key_order = static_cast<std::uint32_t>(usual.key_order);
  o.values_in = static_cast<std::uint32_t>(usual.values);
  o.persist = static_cast<std::uint32_t>(usual.persist);
  o.layout = static_cast<std::uint32_t>(usual.layout);
  o.durability = static_cast<std::uint32_t>(usual.durability);
  o.log_bytes = usual.log.bytes;
  return o;
}

perdure_open_options default_open_options() {
  OpenOptions const usual;
  perdure_open_options o = {};
  o.struct_bytes = sizeof(o);
  o.device = static_cast<std::uint32_t>(usual.device);
  o.threads = usual.threads;
  o.verify_reads = usual.verify_reads;
  o.grow = usual.grow;
  o.residency = static_cast<std::uint32_t>(usual.memory.residency);
  o.gets_by = static_cast<std::uint32_t>(usual.gets_by);
  o.collectors = usual.value_log.collectors;
  o.most_queued = usual.value_log.most_queued;
  o.memory_budget_bytes = usual.memory.budget_bytes;
  return o;
}

perdure_restore_options default_restore_options() {
  perdure_restore_options o = {};
  o.struct_bytes = sizeof(o);
  o.durability = static_cast<std::uint32_t>(Durability::process);
  o.log_bytes = LogOptions{}.bytes;
  return o;
}

perdure_file_options default_file_options() {
  perdure_file_options o = {};
  o.struct_bytes = sizeof(o);
  return o;
}

perdure_transaction_options default_transaction_options() {
  perdure_transaction_options o = {};
  o.struct_bytes = sizeof(o);
  o.max_operations = TransactionOptions{}.max_operations;
  return o;
}

perdure_call_options default_call_options() {
  perdure_call_options o = {};
  o.struct_bytes = sizeof(o);
  return o;
}

perdure_range_query whole_range() {
  perdure_range_query q = {};
  q.struct_bytes = sizeof(q);
  return q;
}

/// Of whatever structure has the three fields.
template <class T>
FileOptions file_fields(T const& o, Fields& fields) {
  FileOptions made;
  made.overwrite = fields.flag(o.overwrite, "overwrite");
  made.force = fields.flag(o.force, "force");
  made.mode = o.mode;
  fields.reserved(o.reserved);
  return made;
}

/// Checked fields, or what is wrong with the first that is none.
template <class T>
Result<T> checked(T made, Fields const& fields) {
  if (!fields.status().ok()) return fields.status();
  return made;
}

Result<std::optional<std::vector<std::byte>>> bound(void const* data, std::size_t bytes,
                                                    char const* name) {
  if (data == nullptr && bytes != 0)
    return Status{Code::invalid_argument,
                  std::string(name) + " is NULL and has " + std::to_string(bytes) + " bytes"};
  if (data == nullptr) return std::optional<std::vector<std::byte>>{};
  auto const* const from = static_cast<std::byte const*>(data);
  return std::optional(std::vector<std::byte>(from, from + bytes));
}

/// Fills a caller's structure of that size.
template <Growing T>
perdure_code filled(T const& defaults, T* options, std::size_t struct_bytes) {
  if (options == nullptr || !is_struct_size(struct_bytes)) return PERDURE_INVALID_ARGUMENT;
  Status const s = write_growing(defaults, options, struct_bytes, "options");
  return s.ok() ? PERDURE_OK : PERDURE_INVALID_ARGUMENT;
}

}  // namespace

Result<CreateOptions> create_options(perdure_create_options const* given) {
  auto const o = read_growing(given, default_create_options(), "create options");
  if (!o.ok()) return o.status();
  perdure_create_options const& c = o.value();
  Fields fields;
  CreateOptions made;
  made.key_bytes = c.key_bytes;
  made.value_bytes = c.value_bytes;
  made.expected_records = c.expected_records;
  made.max_bytes = c.max_bytes;
  made.index = fields.one_of(c.index, Index::btree, "index");
  made.key_order = fields.one_of(c.key_order, KeyOrder::signed_integer, "key_order");
  made.values = fields.one_of(c.values_in, Values::log, "values_in");
  made.persist = fields.one_of(c.persist, Persist::full, "persist");
  made.layout = fields.one_of(c.layout, Layout::log, "layout");
  made.durability = fields.one_of(c.durability, Durability::power, "durability");
  made.file = file_fields(c, fields);
  made.log = {text_or_none(c.log_dir), c.log_bytes};
  return checked(std::move(made), fields);
}

Result<OpenOptions> open_options(perdure_open_options const* given) {
  auto const o = read_growing(given, default_open_options(), "open options");
  if (!o.ok()) return o.status();
  perdure_open_options const& c = o.value();
  Fields fields;
  OpenOptions made;
  made.read_only = fields.flag(c.read_only, "read_only");
  made.live = fields.flag(c.live, "live");
  made.repair = fields.flag(c.repair, "repair");
  made.device = fields.one_of(c.device, Device::cuda, "device");
  made.threads = c.threads;
  made.verify_reads = fields.flag(c.verify_reads, "verify_reads");
  made.count_accesses = fields.flag(c.count_accesses, "count_accesses");
  made.lock_memory = fields.flag(c.lock_memory, "lock_memory");
  made.grow = fields.flag(c.grow, "grow");
  made.log_dir = text_or_none(c.log_dir);
  made.gets_by = fields.one_of(c.gets_by, GetsBy::measured, "gets_by");
  made.expect = {c.expect_key_bytes, c.expect_value_bytes};
  made.memory.residency = fields.one_of(c.residency, Residency::mirrored, "residency");
  made.memory.budget_bytes = c.memory_budget_bytes;
  made.value_log = {c.collectors, c.most_queued};
  return checked(std::move(made), fields);
}

Result<RestoreOptions> restore_options(perdure_restore_options const* given) {
  auto const o = read_growing(given, default_restore_options(), "restore options");
  if (!o.ok()) return o.status();
  perdure_restore_options const& c = o.value();
  Fields fields;
  RestoreOptions made;
  Durability const durability = fields.one_of(c.durability, Durability::power, "durability");
  if (fields.flag(c.set_durability, "set_durability")) made.durability = durability;
  made.file = file_fields(c, fields);
  made.log = {text_or_none(c.log_dir), c.log_bytes};
  return checked(std::move(made), fields);
}

Result<FileOptions> file_options(perdure_file_options const* given) {
  auto const o = read_growing(given, default_file_options(), "file options");
  if (!o.ok()) return o.status();
  Fields fields;
  FileOptions const made = file_fields(o.value(), fields);
  return checked(made, fields);
}

Result<TransactionOptions> transaction_options(perdure_transaction_options const* given) {
  auto const o = read_growing(given, default_transaction_options(), "transaction options");
  if (!o.ok()) return o.status();
  Fields fields;
  TransactionOptions made;
  made.max_operations = o.value().max_operations;
  made.revertible = fields.flag(o.value().revertible, "revertible");
  fields.reserved(o.value().reserved);
  return checked(made, fields);
}

Result<CallOptions> call_options(perdure_call_options const* given) {
  auto const o = read_growing(given, default_call_options(), "call options");
  if (!o.ok()) return o.status();
  perdure_call_options const& c = o.value();
  Fields fields;
  CallOptions made;
  made.stream = static_cast<CUstream_st*>(c.stream);
  made.atomic = fields.flag(c.atomic, "atomic");
  made.transaction = c.transaction != nullptr ? &*c.transaction->transaction : nullptr;
  made.device_statuses = reinterpret_cast<KeyStatus*>(c.device_statuses);
  made.stop = c.stop != nullptr ? &c.stop->stopped : nullptr;
  fields.reserved(c.reserved);
  return checked(made, fields);
}

Result<RangeQuery> range_query(perdure_range_query const* given) {
  auto const q = read_growing(given, whole_range(), "range query");
  if (!q.ok()) return q.status();
  perdure_range_query const& c = q.value();
  auto start = bound(c.start, c.start_bytes, "start");
  if (!start.ok()) return start.status();
  auto end = bound(c.end, c.end_bytes, "end");
  if (!end.ok()) return end.status();
  Fields fields;
  RangeQuery made;
  made.start = std::move(*start);
  made.end = std::move(*end);
  made.after_start = fields.flag(c.after_start, "after_start");
  made.reverse = fields.flag(c.reverse, "reverse");
  return checked(std::move(made), fields);
}

}  // namespace perdure::capi

// No padding: a field that is added lies behind all that an older caller has set.
static_assert(std::has_unique_object_representations_v<perdure_create_options>);
static_assert(std::has_unique_object_representations_v<perdure_open_options>);
static_assert(std::has_unique_object_representations_v<perdure_restore_options>);
static_assert(std::has_unique_object_representations_v<perdure_file_options>);
static_assert(std::has_unique_object_representations_v<perdure_transaction_options>);
static_assert(std::has_unique_object_representations_v<perdure_call_options>);
static_assert(std::has_unique_object_representations_v<perdure_range_query>);

static_assert(PERDURE_DEVICE_CUDA == static_cast<int>(perdure::Device::cuda));
static_assert(PERDURE_INDEX_DASH_EH == static_cast<int>(perdure::Index::dash_eh));
static_assert(PERDURE_INDEX_DASH_LH == static_cast<int>(perdure::Index::dash_lh));
static_assert(PERDURE_INDEX_BTREE == static_cast<int>(perdure::Index::btree));
static_assert(PERDURE_KEY_ORDER_UNSIGNED_INTEGER ==
              static_cast<int>(perdure::KeyOrder::unsigned_integer));
static_assert(PERDURE_KEY_ORDER_SIGNED_INTEGER ==
              static_cast<int>(perdure::KeyOrder::signed_integer));
static_assert(PERDURE_VALUES_LOG == static_cast<int>(perdure::Values::log));
static_assert(PERDURE_PERSIST_INDEX == static_cast<int>(perdure::Persist::index));
static_assert(PERDURE_PERSIST_FULL == static_cast<int>(perdure::Persist::full));
static_assert(PERDURE_LAYOUT_IN_PLACE == static_cast<int>(perdure::Layout::in_place));
static_assert(PERDURE_LAYOUT_LOG == static_cast<int>(perdure::Layout::log));
static_assert(PERDURE_DURABILITY_PROCESS == static_cast<int>(perdure::Durability::process));
static_assert(PERDURE_DURABILITY_POWER == static_cast<int>(perdure::Durability::power));
static_assert(PERDURE_RESIDENCY_PM == static_cast<int>(perdure::Residency::pm));
static_assert(PERDURE_RESIDENCY_MIRRORED == static_cast<int>(perdure::Residency::mirrored));
static_assert(PERDURE_GETS_BY_DEVICE == static_cast<int>(perdure::GetsBy::device));
static_assert(PERDURE_GETS_BY_HOST == static_cast<int>(perdure::GetsBy::host));
static_assert(PERDURE_GETS_BY_BOTH == static_cast<int>(perdure::GetsBy::both));
static_assert(PERDURE_GETS_BY_MEASURED == static_cast<int>(perdure::GetsBy::measured));

extern "C" {

perdure_code perdure_create_options_init(perdure_create_options* options,
                                         std::size_t struct_bytes) {
  return perdure::capi::filled(perdure::capi::default_create_options(), options, struct_bytes);
}

perdure_code perdure_open_options_init(perdure_open_options* options, std::size_t struct_bytes) {
  return perdure::capi::filled(perdure::capi::default_open_options(), options, struct_bytes);
}

perdure_code perdure_restore_options_init(perdure_restore_options* options,
                                          std::size_t struct_bytes) {
  return perdure::capi::filled(perdure::capi::default_restore_options(), options, struct_bytes);
}

perdure_code perdure_file_options_init(perdure_file_options* options, std::size_t struct_bytes) {
  return perdure::capi::filled(perdure::capi::default_file_options(), options, struct_bytes);
}

perdure_code perdure_transaction_options_init(perdure_transaction_options* options,
                                              std::size_t struct_bytes) {
  return perdure::capi::filled(perdure::capi::default_transaction_options(), options, struct_bytes);
}

perdure_code perdure_call_options_init(perdure_call_options* options, std::size_t struct_bytes) {
  return perdure::capi::filled(perdure::capi::default_call_options(), options, struct_bytes);
}

}  // extern "C"
