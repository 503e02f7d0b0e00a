// What was measured, for people and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common.hpp"

namespace perdure::bench::rocks {

enum class Better : std::uint8_t { more, less };

struct Row {
  std::string item;
  std::string what;
  std::string unit;
  Better better = Better::more;
  // One a repetition; the table has their medians.
  std::vector<double> rocksdb = {};
  std::vector<double> perdure = {};
  std::string at = {};  // what the rows of an item differ in, where they make a curve
  std::uint64_t batch = 0;  // Perdure's operations a call; 0: the row says it
  bool arrays = false;  // Perdure's calls on arrays

  /// How many times as good Perdure is as RocksDB; 0 where one of them was not measured.
  [[nodiscard]] double ratio() const;
};

class Report {
 public:
  Report();
  /// What runs now, on a terminal alone.
  void progress(std::string const& what);
  void add(Row row);
  /// A line below the table.
  void note(std::string const& text);
  void fail(std::string const& item, std::string const& why);

  [[nodiscard]] bool failed() const { return !failures_.empty(); }
  void print() const;
  [[nodiscard]] Json rows() const;
  [[nodiscard]] Json failures() const { return failures_; }
  [[nodiscard]] Json notes() const { return notes_; }

 private:
  void clear_progress();

  bool terminal_;
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
  std::vector<std::string> failures_;
};

/// With commas between thousands.
[[nodiscard]] std::string grouped(std::uint64_t number);

}  // namespace perdure::bench::rocks
