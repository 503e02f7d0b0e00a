#include "report.hpp"

#include <unistd.h>

#include <cstdio>

namespace perdure::bench::rocks {
namespace {

/// Four digits that count.
std::string shown(std::vector<double> const& values) {
  if (values.empty()) return "-";
  double const value = median(values);
  char text[32];
  int const decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

void print_row(std::FILE* to, Row const& row) {
  std::string ratio = "-";
  if (row.ratio() > 0) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", row.ratio());
    ratio = text;
  }
  std::fprintf(to, "%-13s %-52s %-7s %10s %10s %8s\n", row.item.c_str(), row.what.c_str(),
               row.unit.c_str(), shown(row.rocksdb).c_str(), shown(row.perdure).c_str(),
               ratio.c_str());
}

}  // namespace

double Row::ratio() const {
  if (rocksdb.empty() || perdure.empty()) return 0;
  double const theirs = median(rocksdb);
  double const ours = median(perdure);
  if (!(theirs > 0) || !(ours > 0)) return 0;
  return better == Better::more ? ours / theirs : theirs / ours;
}

Report::Report() : terminal_(isatty(STDERR_FILENO) != 0) {}

void Report::progress(std::string const& what) {
  if (terminal_) std::fprintf(stderr, "\r\033[K%s", what.c_str());
}

void Report::clear_progress() { progress(""); }

void Report::add(Row row) {
  clear_progress();
  print_row(stderr, row);
  rows_.push_back(std::move(row));
}

void Report::note(std::string const& text) { notes_.push_back(text); }

void Report::fail(std::string const& item, std::string const& why) {
  clear_progress();
  failures_.push_back(item + ": " + why);
  std::fprintf(stderr, "FAILED %s\n", failures_.back().c_str());
}

void Report::print() const {
  std::printf("\n%-13s %-52s %-7s %10s %10s %8s\n", "", "", "unit", "RocksDB", "Perdure", "ratio");
  for (Row const& row : rows_) print_row(stdout, row);
  std::printf("\nratio: how many times as good Perdure is. Medians of the repetitions.\n");
  for (std::string const& each : notes_) std::printf("%s\n", each.c_str());
  for (std::string const& each : failures_) std::printf("FAILED %s\n", each.c_str());
}

Json Report::rows() const {
  Json all = Json::array();
  for (Row const& row : rows_) {
    all.push_back({{"item", row.item},
                   {"what", row.what},
                   {"at", row.at},
                   {"batch", row.batch},
                   {"arrays", row.arrays},
                   {"unit", row.unit},
                   {"more_is_better", row.better == Better::more},
                   {"rocksdb", median(row.rocksdb)},
                   {"perdure", median(row.perdure)},
                   {"ratio", row.ratio()},
                   {"rocksdb_each", row.rocksdb},
                   {"perdure_each", row.perdure}});
  }
  return all;
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

}  // namespace perdure::bench::rocks
