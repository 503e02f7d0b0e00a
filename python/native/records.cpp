// Records as text and as plain data; every enum, option struct and report of the public API, under
// the names C++ has for them.
#include "records.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "perdure/batch.h"
#include "perdure/status.h"
#include "perdure/store.h"
#include "perdure/survival.h"

namespace perdure::python {
namespace {

nb::handle fields_of(nb::handle record) { return record.type().attr("_fields"); }

bool is_record(nb::handle value) { return nb::hasattr(value.type(), "_fields"); }
bool is_enum(nb::handle value) { return nb::hasattr(value.type(), "__members__"); }

nb::object plain(nb::handle value) {
  if (is_record(value)) return as_dict(value);
  if (is_enum(value)) return value.attr("name");
  if (nb::isinstance<nb::tuple>(value)) return nb::list(value);
  if (nb::isinstance<nb::list>(value)) {
    nb::list all;
    for (nb::handle one : value) all.append(plain(one));
    return all;
  }
  if (nb::isinstance<Shape>(value)) return nb::str(nb::repr(value));
  return nb::borrow(value);
}

/// One field as a person reads it: names of enums bare, text quoted, the lines of a record, or of a
/// list of them, indented.
std::string shown_value(nb::handle value) {
  nb::object const what =
      is_enum(value) ? nb::object(value.attr("name")) : nb::object(nb::repr(value));
  auto text = nb::cast<std::string>(what);
  if (!is_record(value) && !nb::isinstance<nb::list>(value)) return text;
  for (auto at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
    text.insert(at + 1, "    ");
  return text;
}

void bind_batch_enums(nb::module_& module) {
  nb::enum_<KeyStatus>(module, "KeyStatus", nb::is_arithmetic(), doc_of("KeyStatus"))
      .value("ok", KeyStatus::ok)
      .value("not_found", KeyStatus::not_found)
      .value("size_mismatch", KeyStatus::size_mismatch)
      .value("corrupt", KeyStatus::corrupt)
      .value("no_space", KeyStatus::no_space)
      .value("too_large", KeyStatus::too_large)
      .value("not_tried", KeyStatus::not_tried);
  nb::enum_<OpKind>(module, "OpKind", nb::is_arithmetic(),
                    "What a mixed batch does with a key: see `Store.apply`.")
      .value("get", OpKind::get)
      .value("put", OpKind::put)
      .value("erase", OpKind::erase)
      .value("update", OpKind::update);
  nb::enum_<Rmw>(module, "Rmw")
      .value("replace", Rmw::replace)
      .value("add", Rmw::add)
      .value("min", Rmw::min)
      .value("max", Rmw::max);
  nb::enum_<Element>(module, "Element")
      .value("uint8", Element::u8)
      .value("int32", Element::i32)
      .value("uint32", Element::u32)
      .value("int64", Element::i64)
      .value("uint64", Element::u64)
      .value("float32", Element::f32)
      .value("float64", Element::f64);
}

void bind_store_enums(nb::module_& module) {
  nb::enum_<Device>(module, "Device").value("cpu", Device::cpu).value("cuda", Device::cuda);
  nb::enum_<Index>(module, "Index")
      .value("gphash", Index::gphash)
      .value("dash_eh", Index::dash_eh)
      .value("dash_lh", Index::dash_lh)
      .value("btree", Index::btree);
  nb::enum_<KeyOrder>(module, "KeyOrder")
      .value("bytes", KeyOrder::bytes)
      .value("unsigned", KeyOrder::unsigned_integer)
      .value("signed", KeyOrder::signed_integer);
  nb::enum_<Values>(module, "Values").value("heap", Values::heap).value("log", Values::log);
  nb::enum_<Persist>(module, "Persist")
      .value("minimal", Persist::minimal)
      .value("index", Persist::index)
      .value("full", Persist::full);
  nb::enum_<Layout>(module, "Layout")
      .value("word", Layout::word)
      .value("in_place", Layout::in_place)
      .value("log", Layout::log);
  nb::enum_<Residency>(module, "Residency")
      .value("automatic", Residency::automatic)
      .value("pm", Residency::pm)
      .value("mirrored", Residency::mirrored);
  nb::enum_<Gather>(module, "Gather")
      .value("automatic", Gather::automatic)
      .value("at_once", Gather::at_once)
      .value("in_order", Gather::in_order)
      .value("by_host", Gather::by_host)
      .value("shared", Gather::shared);
  nb::enum_<GetsBy>(module, "GetsBy")
      .value("automatic", GetsBy::automatic)
      .value("device", GetsBy::device)
      .value("host", GetsBy::host)
      .value("both", GetsBy::both)
      .value("measured", GetsBy::measured);
  nb::enum_<CachePolicy>(module, "CachePolicy")
      .value("lfu", CachePolicy::lfu)
      .value("lru", CachePolicy::lru)
      .value("random", CachePolicy::random);
  nb::enum_<Durability>(module, "Durability")
      .value("none", Durability::none)
      .value("process", Durability::process)
      .value("power", Durability::power);
  nb::enum_<Basis>(module, "Basis")
      .value("none", Basis::none)
      .value("declared", Basis::declared)
      .value("asserted", Basis::asserted)
      .value("emulated", Basis::emulated);
  nb::enum_<Medium>(module, "Medium")
      .value("tmpfs", Medium::tmpfs)
      .value("hugetlbfs", Medium::hugetlbfs)
      .value("memfd", Medium::memfd)
      .value("file", Medium::file);
}

struct Dtype {
  char const* name;  // NumPy's
  ValueKind kind;
  std::uint8_t bytes;
};
constexpr Dtype kDtypes[] = {
    {"bool", ValueKind::boolean, 1},
    {"int8", ValueKind::signed_integer, 1},
    {"int16", ValueKind::signed_integer, 2},
    {"int32", ValueKind::signed_integer, 4},
    {"int64", ValueKind::signed_integer, 8},
    {"uint8", ValueKind::unsigned_integer, 1},
    {"uint16", ValueKind::unsigned_integer, 2},
    {"uint32", ValueKind::unsigned_integer, 4},
    {"uint64", ValueKind::unsigned_integer, 8},
    {"float16", ValueKind::floating, 2},
    {"float32", ValueKind::floating, 4},
    {"float64", ValueKind::floating, 8},
    {"bfloat16", ValueKind::bfloat, 2},
    {"complex64", ValueKind::complex, 8},
    {"complex128", ValueKind::complex, 16},
};

/// Empty where nothing is known of the values.
std::string dtype_of(ValueType const& type) {
  for (Dtype const& one : kDtypes)
    if (one.kind == type.kind && one.bytes == type.element_bytes) return one.name;
  return "";
}

nb::tuple extents_of(ValueType const& type) {
  return nb::tuple(nb::cast(std::vector<std::uint32_t>(type.extents, type.extents + type.rank)));
}

ValueType value_type(std::string const& dtype, std::vector<std::uint32_t> const& extents) {
  if (extents.size() > ValueType::kMostExtents) throw nb::value_error("shape: too many extents");
  for (Dtype const& one : kDtypes) {
    if (dtype != one.name) continue;
    ValueType type{one.kind, one.bytes, static_cast<std::uint8_t>(extents.size()), {}};
    std::copy(extents.begin(), extents.end(), type.extents);
    return type;
  }
  throw nb::value_error("dtype: pools have no such type");
}

void bind_value_type(nb::module_& module) {
  nb::class_<ValueType> type(module, "ValueType");
  type.def(
          "__init__",
          [](ValueType* self, std::string const& dtype, std::vector<std::uint32_t> const& extents) {
            new (self) ValueType(value_type(dtype, extents));
          },
          nb::arg("dtype"), nb::arg("extents"))
      .def_prop_ro("dtype", &dtype_of)
      .def_prop_ro("extents", &extents_of)
      .def("__eq__", [](ValueType const& self, ValueType const& other) {
        return self.kind == other.kind && self.element_bytes == other.element_bytes &&
               self.rank == other.rank &&
               std::equal(self.extents, self.extents + self.rank, other.extents);
      });
  nb::list names;
  for (Dtype const& one : kDtypes) names.append(one.name);
  type.attr("dtypes") = nb::tuple(names);
}

/// Options that C++ has in groups are one flat list in Python.
template <class T, class Group, class Field>
auto from(Group T::* group, Field Group::* member) {
  return [group, member](T const& self) { return self.*group.*member; };
}
template <class T, class Group, class Field>
auto into(Group T::* group, Field Group::* member) {
  return [group, member](T& self, Field value) { self.*group.*member = std::move(value); };
}

void bind_file_options(nb::module_& module) {
  nb::class_<CreateOptions>(module, "CreateOptions")
      .def(nb::init<>())
      .def_rw("key_bytes", &CreateOptions::key_bytes)
      .def_rw("value_bytes", &CreateOptions::value_bytes)
      .def_rw("expected_records", &CreateOptions::expected_records)
      .def_rw("max_bytes", &CreateOptions::max_bytes)
      .def_rw("index", &CreateOptions::index)
      .def_rw("key_order", &CreateOptions::key_order)
      .def_rw("values", &CreateOptions::values)
      .def_rw("persist", &CreateOptions::persist)
      .def_rw("layout", &CreateOptions::layout)
      .def_rw("shape", &CreateOptions::shape)
      .def_rw("durability", &CreateOptions::durability)
      .def_prop_rw("overwrite", from(&CreateOptions::file, &FileOptions::overwrite),
                   into(&CreateOptions::file, &FileOptions::overwrite))
      .def_prop_rw("force", from(&CreateOptions::file, &FileOptions::force),
                   into(&CreateOptions::file, &FileOptions::force))
      .def_prop_rw("mode", from(&CreateOptions::file, &FileOptions::mode),
                   into(&CreateOptions::file, &FileOptions::mode))
      .def_prop_rw("log_dir", from(&CreateOptions::log, &LogOptions::dir),
                   into(&CreateOptions::log, &LogOptions::dir))
      .def_prop_rw("log_bytes", from(&CreateOptions::log, &LogOptions::bytes),
                   into(&CreateOptions::log, &LogOptions::bytes))
      .def_rw("value_type", &CreateOptions::value_type);
  nb::class_<RestoreOptions>(module, "RestoreOptions")
      .def(nb::init<>())
      .def_rw("durability", &RestoreOptions::durability, nb::arg().none())
      .def_prop_rw("overwrite", from(&RestoreOptions::file, &FileOptions::overwrite),
                   into(&RestoreOptions::file, &FileOptions::overwrite))
      .def_prop_rw("force", from(&RestoreOptions::file, &FileOptions::force),
                   into(&RestoreOptions::file, &FileOptions::force))
      .def_prop_rw("mode", from(&RestoreOptions::file, &FileOptions::mode),
                   into(&RestoreOptions::file, &FileOptions::mode))
      .def_prop_rw("log_dir", from(&RestoreOptions::log, &LogOptions::dir),
                   into(&RestoreOptions::log, &LogOptions::dir))
      .def_prop_rw("log_bytes", from(&RestoreOptions::log, &LogOptions::bytes),
                   into(&RestoreOptions::log, &LogOptions::bytes));
  nb::class_<SnapshotOptions>(module, "SnapshotOptions")
      .def(nb::init<>())
      .def_rw("overwrite", &SnapshotOptions::overwrite)
      .def_rw("force", &SnapshotOptions::force)
      .def_rw("mode", &SnapshotOptions::mode);
}

void bind_open_options(nb::module_& module) {
  nb::class_<OpenOptions>(module, "OpenOptions")
      .def(nb::init<>())
      .def_rw("read_only", &OpenOptions::read_only)
      .def_rw("live", &OpenOptions::live)
      .def_rw("repair", &OpenOptions::repair)
      .def_rw("device", &OpenOptions::device)
      .def_rw("threads", &OpenOptions::threads)
      .def_rw("verify_reads", &OpenOptions::verify_reads)
      .def_rw("count_accesses", &OpenOptions::count_accesses)
      .def_rw("lock_memory", &OpenOptions::lock_memory)
      .def_rw("displacement", &OpenOptions::displacement)
      .def_rw("grow", &OpenOptions::grow)
      .def_rw("gets_by", &OpenOptions::gets_by)
      .def_prop_rw("expect_key_bytes", from(&OpenOptions::expect, &ExpectedSizes::key_bytes),
                   into(&OpenOptions::expect, &ExpectedSizes::key_bytes))
      .def_prop_rw("expect_value_bytes", from(&OpenOptions::expect, &ExpectedSizes::value_bytes),
                   into(&OpenOptions::expect, &ExpectedSizes::value_bytes))
      .def_rw("log_dir", &OpenOptions::log_dir)
      .def_prop_rw("residency", from(&OpenOptions::memory, &MemoryOptions::residency),
                   into(&OpenOptions::memory, &MemoryOptions::residency))
      .def_prop_rw("gather", from(&OpenOptions::memory, &MemoryOptions::gather),
                   into(&OpenOptions::memory, &MemoryOptions::gather))
      .def_prop_rw("memory_budget", from(&OpenOptions::memory, &MemoryOptions::budget_bytes),
                   into(&OpenOptions::memory, &MemoryOptions::budget_bytes))
      .def_prop_rw("cache_bytes", from(&OpenOptions::memory, &MemoryOptions::cache_bytes),
                   into(&OpenOptions::memory, &MemoryOptions::cache_bytes))
      .def_prop_rw("cache_policy", from(&OpenOptions::memory, &MemoryOptions::cache_policy),
                   into(&OpenOptions::memory, &MemoryOptions::cache_policy))
      .def_prop_rw("collectors", from(&OpenOptions::value_log, &ValueLogOptions::collectors),
                   into(&OpenOptions::value_log, &ValueLogOptions::collectors))
      .def_prop_rw("most_queued", from(&OpenOptions::value_log, &ValueLogOptions::most_queued),
                   into(&OpenOptions::value_log, &ValueLogOptions::most_queued));
}

void bind_shape(nb::module_& module) {
  nb::class_<Shape> shape(module, "Shape");
  shape
      .def(
          "__init__",
          [](Shape* self, std::uint32_t levels, std::uint32_t hashes, std::uint32_t slots) {
            new (self) Shape{levels, hashes, slots};
          },
          nb::arg("levels") = Shape{}.levels, nb::arg("hashes") = Shape{}.hashes,
          nb::arg("slots") = Shape{}.slots)
      .def_ro("levels", &Shape::levels)
      .def_ro("hashes", &Shape::hashes)
      .def_ro("slots", &Shape::slots)
      .def("__repr__", [](Shape const& self) {
        return std::to_string(self.levels) + "L-" + std::to_string(self.hashes) + "H-" +
               std::to_string(self.slots) + "S";
      });
}

void bind_reports(nb::module_& module) {
  Record<Survival>(module, "Survival")
      .field("kernel_abort", &Survival::kernel_abort)
      .field("process_kill", &Survival::process_kill)
      .field("gpu_reset", &Survival::gpu_reset)
      .field("os_crash", &Survival::os_crash)
      .field("power_loss", &Survival::power_loss)
      .field("basis", &Survival::basis)
      .computed("description", &Survival::describe)
      .done();
  Record<RecoveryReport>(module, "RecoveryReport")
      .field("clean", &RecoveryReport::clean)
      .field("resize_resumed", &RecoveryReport::resize_resumed)
      .field("records", &RecoveryReport::records)
      .field("counted", &RecoveryReport::counted)
      .field("dropped", &RecoveryReport::dropped)
      .field("duplicates", &RecoveryReport::duplicates)
      .field("why_dropped", &RecoveryReport::why_dropped)
      .field("repaired", &RecoveryReport::repaired)
      .field("changes", &RecoveryReport::changes)
      .field("undone", &RecoveryReport::undone)
      .field("replayed", &RecoveryReport::replayed)
      .field("lost_acknowledged", &RecoveryReport::lost_acknowledged)
      .field("log_report", &RecoveryReport::log_report)
      .field("replay_seconds", &RecoveryReport::replay_seconds)
      .field("map_seconds", &RecoveryReport::map_seconds)
      .field("recover_seconds", &RecoveryReport::recover_seconds)
      .done();
  Record<VerifyReport>(module, "VerifyReport")
      .field("records", &VerifyReport::records)
      .field("dropped", &VerifyReport::dropped)
      .field("faults", &VerifyReport::faults)
      .field("fault_count", &VerifyReport::fault_count)
      .done();
  Record<DeviceInfo>(module, "DeviceInfo")
      .field("device", &DeviceInfo::device)
      .field("available", &DeviceInfo::available)
      .field("description", &DeviceInfo::description)
      .field("why_not", &DeviceInfo::why_not)
      .done();
}

void bind_parts_of_stats(nb::module_& module) {
  Record<AccessCounts>(module, "AccessCounts")
      .field("pm_reads", &AccessCounts::pm_reads)
      .field("pm_writes", &AccessCounts::pm_writes)
      .field("orders", &AccessCounts::orders)
      .field("cache_hits", &AccessCounts::cache_hits)
      .done();
  Record<CacheReport>(module, "CacheReport")
      .field("records", &CacheReport::records)
      .field("corrupt", &CacheReport::corrupt)
      .field("bytes", &CacheReport::bytes)
      .field("seconds", &CacheReport::seconds)
      .done();
  Record<GatherSize>(module, "GatherSize")
      .field("batch", &GatherSize::batch)
      .field("by", &GatherSize::by)
      .field("to_host", &GatherSize::to_host)
      .field("at_once_us", &GatherSize::at_once_us)
      .field("in_order_us", &GatherSize::in_order_us)
      .field("by_host_us", &GatherSize::by_host_us)
      .field("shared_us", &GatherSize::shared_us)
      .field("contests", &GatherSize::contests)
      .field("learning", &GatherSize::learning)
      .done();
  Record<SharedSize>(module, "SharedSize")
      .field("batch", &SharedSize::batch)
      .field("by", &SharedSize::by)
      .field("device_share", &SharedSize::device_share)
      .field("host_us", &SharedSize::host_us)
      .field("device_us", &SharedSize::device_us)
      .field("both_us", &SharedSize::both_us)
      .field("contests", &SharedSize::contests)
      .field("spent_seconds", &SharedSize::spent_seconds)
      .field("contest_seconds", &SharedSize::contest_seconds)
      .done();
  Record<SharingStats>(module, "SharingStats")
      .field("shared", &SharingStats::shared)
      .field("note", &SharingStats::note)
      .field("host_keys", &SharingStats::host_keys)
      .field("device_keys", &SharingStats::device_keys)
      .field("sizes", &SharingStats::sizes)
      .done();
  Record<ValueLogStats>(module, "ValueLogStats")
      .field("segments", &ValueLogStats::segments)
      .field("free_segments", &ValueLogStats::free_segments)
      .field("queued_segments", &ValueLogStats::queued_segments)
      .field("used_bytes", &ValueLogStats::used_bytes)
      .field("outdated_bytes", &ValueLogStats::outdated_bytes)
      .field("tombstone_bytes", &ValueLogStats::tombstone_bytes)
      .field("appended_bytes", &ValueLogStats::appended_bytes)
      .field("moved_bytes", &ValueLogStats::moved_bytes)
      .field("collections", &ValueLogStats::collections)
      .field("failed_collections", &ValueLogStats::failed_collections)
      .field("waits", &ValueLogStats::waits)
      .field("longest_wait_ns", &ValueLogStats::longest_wait_ns)
      .done();
}

void bind_stats(nb::module_& module) {
  Record<Stats>(module, "Stats")
      .field("records", &Stats::records)
      .field("slots", &Stats::slots)
      .field("load_factor", &Stats::load_factor)
      .field("growths", &Stats::growths)
      .field("units_left", &Stats::units_left)
      .field("displacements", &Stats::displacements)
      .field("batches", &Stats::batches)
      .field("pool_bytes", &Stats::space, &SpaceStats::pool_bytes)
      .field("used_bytes", &Stats::space, &SpaceStats::used_bytes)
      .field("dense_bytes", &Stats::space, &SpaceStats::dense_bytes)
      .field("accesses", &Stats::accesses)
      .field("key_bytes", &Stats::key_bytes)
      .field("value_bytes", &Stats::value_bytes)
      .computed("dtype", [](Stats const& self) { return dtype_of(self.value_type); })
      .computed("row_shape", [](Stats const& self) { return extents_of(self.value_type); })
      .field("max_key_bytes", &Stats::max_key_bytes)
      .field("max_value_bytes", &Stats::max_value_bytes)
      .field("top_level", &Stats::top_level)
      .field("shape", &Stats::shape)
      .field("index", &Stats::index)
      .field("key_order", &Stats::key_order)
      .field("values", &Stats::values)
      .field("persist", &Stats::persist)
      .field("value_log", &Stats::value_log)
      .field("segments", &Stats::segments)
      .field("index_bytes", &Stats::index_bytes)
      .field("layout", &Stats::layout)
      .field("device", &Stats::device)
      .field("medium", &Stats::medium)
      .field("residency", &Stats::memory, &MemoryStats::residency)
      .field("mirror_bytes", &Stats::memory, &MemoryStats::mirror_bytes)
      .field("residency_note", &Stats::memory, &MemoryStats::note)
      .field("sharing", &Stats::sharing)
      .field("gathers", &Stats::gathers)
      .field("damage", &Stats::damage)
      .field("cache_records", &Stats::memory, &MemoryStats::cache_records)
      .field("cache_bytes", &Stats::memory, &MemoryStats::cache_bytes)
      .field("log_used_bytes", &Stats::log, &LogStats::used_bytes)
      .field("checkpoints", &Stats::log, &LogStats::checkpoints)
      .field("log_method", &Stats::log, &LogStats::method)
      .field("machine", &Stats::machine)
      .done();
}

}  // namespace

nb::dict as_dict(nb::handle record) {
  nb::dict fields;
  for (nb::handle name : fields_of(record)) fields[name] = plain(nb::getattr(record, name));
  return fields;
}

std::string shown(std::string const& title, nb::handle record) {
  constexpr std::size_t kLine = 100;
  std::string on_one_line, on_several;
  for (nb::handle name : fields_of(record)) {
    std::string const field =
        nb::cast<std::string>(name) + "=" + shown_value(nb::getattr(record, name));
    on_one_line += (on_one_line.empty() ? "" : ", ") + field;
    on_several += "\n    " + field + ",";
  }
  bool const fits = title.size() + on_one_line.size() <= kLine;
  return title + "(" + (fits ? on_one_line : on_several + "\n") + ")";
}

void bind_records(nb::module_& module) {
  bind_batch_enums(module);
  bind_store_enums(module);
  bind_shape(module);
  bind_value_type(module);
  bind_file_options(module);
  bind_open_options(module);
  bind_reports(module);
  bind_parts_of_stats(module);
  bind_stats(module);
}

}  // namespace perdure::python
