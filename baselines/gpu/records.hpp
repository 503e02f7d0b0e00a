// The free records of a baseline, all of one size. Volatile: at attach every record is free until
// the table marks the ones it leads to. Invariant: a record is given back only after the batch that
// unlinked it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arena.hpp"

namespace perdure::baselines {

class Records {
 public:
  Records(Arena& arena, std::uint64_t record_bytes);

  Status take(std::span<std::uint64_t> out);
  void give(std::uint64_t record) { free_.push_back(record); }

  /// At attach: false if the place is none of ours or marked already.
  bool mark(Offset record);
  void finish_marking();

 private:
  struct Marked {
    Run run;
    std::vector<bool> in_use;
  };

  Arena* arena_;
  std::uint64_t stride_;
  std::uint64_t total_ = 0;
  std::uint64_t next_ = 0;  // never handed out: next_ .. end_
  std::uint64_t end_ = 0;
  std::vector<std::uint64_t> free_;
  std::vector<Marked> marks_;
};

}  // namespace perdure::baselines
