// The file of a baseline: a header, a few durable words, and runs of bytes, each for one use.
// Invariants: the header never changes; a run is zeros when it is handed out, and stands in the
// directory before anything in it counts; which bytes of a run are in use is volatile knowledge,
// rebuilt at attach.
//
//   page 0    ArenaHeader
//   page 1    durable words, 8 bytes each
//   page 2    directory of runs
//   the rest  runs, in multiples of kGranule
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/offset.hpp"
#include "perdure/status.h"
#include "pm/mapping.hpp"

namespace perdure::baselines {

enum class Use : std::uint32_t { nothing, records, buckets, slabs, level, log };

struct ArenaHeader {            // bytes
  std::array<char, 8> magic;    //   0
  std::uint32_t version;        //   8
  std::uint32_t design;         //  12  baselines::Design
  std::uint32_t key_bytes;      //  16
  std::uint32_t value_bytes;    //  20
  std::uint8_t reserved[36];    //  24  zero
  std::uint32_t crc;            //  60  CRC-32C of bytes 0..59
};
static_assert(sizeof(ArenaHeader) == 64);
static_assert(std::has_unique_object_representations_v<ArenaHeader>);

struct Run {
  Offset at;
  std::uint64_t bytes = 0;
  Use use = Use::nothing;
  std::uint32_t number = 0;  // which level, which generation; the design's own
};

class Arena {
 public:
  /// Durable words; the directory's length is the arena's, the others are the design's.
  enum Word : std::uint32_t { kRuns, kEpoch, kRoot, kWords };

  static Result<Arena> create(std::string const& path, ArenaHeader const& shape,
                              pm::MapOptions const& options);
  static Result<Arena> attach(std::string const& path, pm::MapOptions const& options);

  [[nodiscard]] ArenaHeader const& header() const { return header_; }
  [[nodiscard]] std::byte* base() const { return mapping_.data(); }
  [[nodiscard]] std::uint64_t bytes() const { return mapping_.size(); }

  /// A run of at least `bytes` bytes, all zero.
  Result<Run> add(Use use, std::uint32_t number, std::uint64_t bytes);
  /// The run serves any use again.
  void drop(Offset run);
  [[nodiscard]] std::vector<Run> const& runs() const { return runs_; }
  [[nodiscard]] std::vector<Run> runs_of(Use use) const;

  [[nodiscard]] static Offset word_at(Word word) { return Offset{kWordsOffset + 8 * word}; }
  [[nodiscard]] std::uint64_t word(Word word) const;
  /// With an ordering point before and after.
  void set_word(Word word, std::uint64_t value);

 private:
  static constexpr std::uint64_t kWordsOffset = 4096;
  static constexpr std::uint64_t kDirectory = 8192;
  static constexpr std::uint64_t kFirstRun = 12288;
  static constexpr std::uint64_t kGranule = 4096;
  static constexpr std::uint32_t kMaxRuns = 256;

  struct Entry {              // bytes
    std::uint32_t first;      //   0  in granules from the file's start
    std::uint32_t granules;   //   4
    std::uint32_t use;        //   8  use and number change together, as one word
    std::uint32_t number;     //  12
  };
  static_assert(sizeof(Entry) == 16 && kMaxRuns * sizeof(Entry) <= kFirstRun - kDirectory);

  explicit Arena(pm::Mapping mapping) : mapping_(std::move(mapping)) {}
  void assign(std::size_t index, Use use, std::uint32_t number);

  pm::Mapping mapping_;
  ArenaHeader header_{};
  std::vector<Run> runs_;
};

}  // namespace perdure::baselines
