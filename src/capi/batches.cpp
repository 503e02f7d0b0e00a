// Batches: columns and statuses are the caller's, and are handed on as they are.
#include <cstdint>
#include <span>
#include <string>

#include "capi/growing.hpp"
#include "capi/guard.hpp"
#include "capi/options.hpp"

namespace perdure::capi {
namespace {

Result<MemorySpace> space_of(std::uint32_t space, char const* column) {
  Fields fields;
  MemorySpace const made = fields.one_of(space, MemorySpace::device, "space");
  if (fields.status().ok()) return made;
  return Status{Code::invalid_argument, std::string(column) + ": " + fields.status().message()};
}

Result<Column> column(perdure_column const* given, char const* name) {
  if (given == nullptr) return no_argument(name);
  auto const space = space_of(given->space, name);
  if (!space.ok()) return space.status();
  return Column{static_cast<std::byte const*>(given->data), given->offsets, given->width,
                given->count, space.value()};
}

Result<MutableColumn> mutable_column(perdure_mutable_column const* given, char const* name) {
  if (given == nullptr) return no_argument(name);
  auto const space = space_of(given->space, name);
  if (!space.ok()) return space.status();
  return MutableColumn{static_cast<std::byte*>(given->data), given->width, given->count,
                       space.value()};
}

std::span<KeyStatus> statuses_of(std::uint8_t* statuses, std::size_t keys) {
  static_assert(sizeof(KeyStatus) == sizeof(std::uint8_t));
  return {reinterpret_cast<KeyStatus*>(statuses), statuses != nullptr ? keys : 0};
}

/// call(Store&, Column const& keys, span of statuses, CallOptions const&).
template <class Call>
perdure_code batch(perdure_store* store, perdure_column const* keys, std::uint8_t* statuses,
                   perdure_call_options const* options, perdure_error** error, Call&& call) {
  return in_store(store, error, [&](Store& open) -> Status {
    auto const sought = column(keys, "keys");
    if (!sought.ok()) return sought.status();
    auto const how = call_options(options);
    if (!how.ok()) return how.status();
    return call(open, sought.value(), statuses_of(statuses, sought.value().count), how.value());
  });
}

Result<MixedBatch> mixed_batch(perdure_mixed_batch const* given) {
  if (given == nullptr) return no_argument("batch");
  perdure_mixed_batch usual = {};
  usual.struct_bytes = sizeof(usual);
  auto const b = read_growing(given, usual, "batch");
  if (!b.ok()) return b.status();
  perdure_mixed_batch const& c = b.value();
  auto const keys = column(&c.keys, "keys");
  if (!keys.ok()) return keys.status();
  auto const values = column(&c.values, "values");
  if (!values.ok()) return values.status();
  auto const out = mutable_column(&c.out, "out");
  if (!out.ok()) return out.status();
  Fields fields;
  MixedBatch made;
  made.keys = keys.value();
  made.kinds = {reinterpret_cast<OpKind const*>(c.kinds), c.kinds != nullptr ? c.keys.count : 0};
  made.values = values.value();
  made.rmw = fields.one_of(c.rmw, Rmw::max, "rmw");
  made.element = fields.one_of(c.element, Element::f64, "element");
  made.out = out.value();
  if (!fields.status().ok()) return fields.status();
  return made;
}

}  // namespace
}  // namespace perdure::capi

using perdure::CallOptions;
using perdure::Column;
using perdure::KeyStatus;
using perdure::Status;
using perdure::Store;
namespace capi = perdure::capi;
using Statuses = std::span<KeyStatus>;

static_assert(PERDURE_MEMORY_DEVICE == static_cast<int>(perdure::MemorySpace::device));
static_assert(PERDURE_KEY_NOT_FOUND == static_cast<int>(KeyStatus::not_found));
static_assert(PERDURE_KEY_SIZE_MISMATCH == static_cast<int>(KeyStatus::size_mismatch));
static_assert(PERDURE_KEY_CORRUPT == static_cast<int>(KeyStatus::corrupt));
static_assert(PERDURE_KEY_NO_SPACE == static_cast<int>(KeyStatus::no_space));
static_assert(PERDURE_KEY_TOO_LARGE == static_cast<int>(KeyStatus::too_large));
static_assert(PERDURE_KEY_NOT_TRIED == static_cast<int>(KeyStatus::not_tried));
static_assert(PERDURE_OPERATION_PUT == static_cast<int>(perdure::OpKind::put));
static_assert(PERDURE_OPERATION_ERASE == static_cast<int>(perdure::OpKind::erase));
static_assert(PERDURE_OPERATION_UPDATE == static_cast<int>(perdure::OpKind::update));
static_assert(PERDURE_RMW_ADD == static_cast<int>(perdure::Rmw::add));
static_assert(PERDURE_RMW_MIN == static_cast<int>(perdure::Rmw::min));
static_assert(PERDURE_RMW_MAX == static_cast<int>(perdure::Rmw::max));
static_assert(PERDURE_ELEMENT_I32 == static_cast<int>(perdure::Element::i32));
static_assert(PERDURE_ELEMENT_U32 == static_cast<int>(perdure::Element::u32));
static_assert(PERDURE_ELEMENT_I64 == static_cast<int>(perdure::Element::i64));
static_assert(PERDURE_ELEMENT_U64 == static_cast<int>(perdure::Element::u64));
static_assert(PERDURE_ELEMENT_F32 == static_cast<int>(perdure::Element::f32));
static_assert(PERDURE_ELEMENT_F64 == static_cast<int>(perdure::Element::f64));
static_assert(sizeof(perdure_column) == 32 && sizeof(perdure_mutable_column) == 24,
              "columns never grow");

extern "C" {

perdure_code perdure_get(perdure_store* store, perdure_column const* keys,
                         perdure_mutable_column const* values, std::uint8_t* statuses,
                         perdure_call_options const* options, perdure_error** error) {
  return capi::batch(store, keys, statuses, options, error,
                     [&](Store& open, Column const& sought, Statuses each, CallOptions const& how) {
                       auto const into = capi::mutable_column(values, "values");
                       return into.ok() ? open.get(sought, into.value(), each, how) : into.status();
                     });
}

perdure_code perdure_get_variable(perdure_store* store, perdure_column const* keys,
                                  std::uint8_t* statuses, perdure_call_options const* options,
                                  perdure_strings** values, perdure_error** error) {
  capi::clear(values);
  return capi::batch(store, keys, statuses, options, error,
                     [&](Store& open, Column const& sought, Statuses each, CallOptions const& how) {
                       return capi::make(values, "values", [&](perdure_strings& strings) -> Status {
                         auto found = open.get_variable(sought, each, how);
                         if (!found.ok()) return found.status();
                         strings.values = std::move(*found);
                         return {};
                       });
                     });
}

perdure_code perdure_put(perdure_store* store, perdure_column const* keys,
                         perdure_column const* values, std::uint8_t* statuses,
                         perdure_call_options const* options, perdure_error** error) {
  return capi::batch(
      store, keys, statuses, options, error,
      [&](Store& open, Column const& written, Statuses each, CallOptions const& how) {
        auto const from = capi::column(values, "values");
        return from.ok() ? open.put(written, from.value(), each, how) : from.status();
      });
}

perdure_code perdure_update(perdure_store* store, perdure_column const* keys,
                            perdure_column const* operands, std::uint32_t rmw,
                            std::uint32_t element, std::uint8_t* statuses,
                            perdure_call_options const* options, perdure_error** error) {
  return capi::batch(
      store, keys, statuses, options, error,
      [&](Store& open, Column const& written, Statuses each, CallOptions const& how) -> Status {
        auto const from = capi::column(operands, "operands");
        if (!from.ok()) return from.status();
        capi::Fields fields;
        auto const operation = fields.one_of(rmw, perdure::Rmw::max, "rmw");
        auto const kind = fields.one_of(element, perdure::Element::f64, "element");
        if (!fields.status().ok()) return fields.status();
        return open.update(written, from.value(), operation, kind, each, how);
      });
}

perdure_code perdure_erase(perdure_store* store, perdure_column const* keys, std::uint8_t* statuses,
                           perdure_call_options const* options, perdure_error** error) {
  return capi::batch(store, keys, statuses, options, error,
                     [](Store& open, Column const& erased, Statuses each, CallOptions const& how) {
                       return open.erase(erased, each, how);
                     });
}

perdure_code perdure_apply(perdure_store* store, perdure_mixed_batch const* given,
                           std::uint8_t* statuses, perdure_call_options const* options,
                           perdure_error** error) {
  return capi::in_store(store, error, [&](Store& open) -> Status {
    auto const mixed = capi::mixed_batch(given);
    if (!mixed.ok()) return mixed.status();
    auto const how = capi::call_options(options);
    if (!how.ok()) return how.status();
    return open.apply(mixed.value(), capi::statuses_of(statuses, mixed.value().keys.count),
                      how.value());
  });
}

perdure_code perdure_stop_create(perdure_stop** stop, perdure_error** error) {
  capi::clear(stop);
  return capi::guarded(
      error, [&] { return capi::make(stop, "stop", [](perdure_stop&) { return Status{}; }); });
}

void perdure_stop_set(perdure_stop* stop, std::uint32_t stopped) {
  if (stop != nullptr) stop->stopped.store(stopped != 0);
}

void perdure_stop_destroy(perdure_stop* stop) { delete stop; }

}  // extern "C"
