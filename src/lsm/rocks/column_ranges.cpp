// range(): many ranges of one state of the database (perdure/rocks.h).
#include "exec/range.hpp"
#include "lsm/rocks/array_call.hpp"
#include "lsm/rocks/range_read.hpp"

namespace perdure::rocks {

using namespace lsm;  // NOLINT: whose interface this is

rocksdb::Status range(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, Column const& begins,
                      Column const& ends, std::uint64_t limit, Ranges& ranges,
                      ArrayOptions const& options) {
  exec::Range const marked("rocks range");
  Database* database = nullptr;
  if (auto s = check_call(db, family, database); !s.ok()) return s;
  if (ends.count != 0 && ends.count != begins.count)
    return rocksdb::Status::InvalidArgument("as many ends as begins, or none");
  DatabaseParts& parts = database->parts();
  DeviceColumns device(*parts.device, *parts.workers, options);
  Column const from = device.bring(begins, "begins");
  Column const to = device.bring(ends, "ends");
  if (auto s = device.arrived(); !s.ok()) return s;
  OneState const state(*database, options);
  return RangeRead(*database, family, state.options(), {from, to, limit}).run(ranges);
}

}  // namespace perdure::rocks
