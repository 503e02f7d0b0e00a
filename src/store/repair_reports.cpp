#include "store/repair_reports.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace perdure {

Status changed_since_close(std::string const& path, std::vector<std::string> const& lines) {
  PERDURE_ASSERT(!lines.empty());
  constexpr std::size_t kTold = 3;
  std::string what;
  for (std::size_t i = 0; i < std::min(lines.size(), kTold); ++i)
    what += (i == 0 ? "" : "; ") + lines[i];
  if (lines.size() > kTold) what += "; and " + std::to_string(lines.size() - kTold) + " more";
  return {
      Code::corrupt,
      "pool " + path + " was closed in order, and is not as that close left it: " + what +
          "; nothing was changed: restore a snapshot, or open it with repair (repair=True, perdure "
          "verify --repair), which mends what it can and says what it drops"};
}

Status repair_cut_off(std::string const& path) {
  return {
      Code::corrupt,
      "pool " + path +
          ": a repair of it was cut off before it had dropped what nothing vouches for; nothing "
          "was changed: open it with repair once more (repair=True, perdure verify --repair)"};
}

Status repair_not_over(std::string const& path) {
  return {Code::corrupt,
          "pool " + path +
              ": a repair of it is under way, or was cut off, and has not dropped all that nothing "
              "vouches for: read it once that has ended, or open it with repair (repair=True, "
              "perdure verify --repair)"};
}

Status unrecovered_read_only(std::string const& path) {
  return {Code::unsupported,
          "pool " + path +
              " was not closed in order; open it once for writing to recover it, then read-only"};
}

void note_changes(RecoveryReport& report, std::vector<std::string> const& lines) {
  for (std::string const& line : lines)
    if (report.changes.size() < kMostFaults) report.changes.push_back(line);
  PERDURE_ASSERT(report.changes.size() <= kMostFaults);
}

void add_unacknowledged(std::vector<std::string> const& lines, VerifyReport& report) {
  report.fault_count += lines.size();
  std::vector<std::string> named;
  for (std::string const& line : lines) named.push_back("repaired, and not acknowledged: " + line);
  report.faults.insert(report.faults.begin(), named.begin(), named.end());
  if (report.faults.size() > kMostFaults) report.faults.resize(kMostFaults);
  PERDURE_ASSERT(report.fault_count >= report.faults.size());  // all are counted, some named
}

}  // namespace perdure
