#include "arena.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/crc32c.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::baselines {
namespace {

constexpr std::array<char, 8> kMagic{'P', 'R', 'D', 'P', 'E', 'E', 'R', '\n'};
constexpr std::uint32_t kVersion = 1;

std::uint32_t checksum(ArenaHeader const& header) {
  return crc32c(0, &header, offsetof(ArenaHeader, crc));
}

std::uint64_t use_word(Use use, std::uint32_t number) {
  return static_cast<std::uint64_t>(use) | std::uint64_t{number} << 32;
}

}  // namespace

Result<Arena> Arena::create(std::string const& path, ArenaHeader const& shape,
                            pm::MapOptions const& options) {
  auto mapping = pm::Mapping::create(path, kFirstRun, 0, {}, options);
  if (!mapping) return mapping.status();
  Arena arena(std::move(*mapping));
  arena.header_ = shape;
  arena.header_.magic = kMagic;
  arena.header_.version = kVersion;
  arena.header_.crc = checksum(arena.header_);
  pm::write_bytes(arena.base(), &arena.header_, sizeof arena.header_);
  pm::order();
  if (Status s = arena.mapping_.keep(); !s.ok()) return s;
  return arena;
}

Result<Arena> Arena::attach(std::string const& path, pm::MapOptions const& options) {
  auto mapping = pm::Mapping::open(path, options);
  if (!mapping) return mapping.status();
  Arena arena(std::move(*mapping));
  if (arena.bytes() < kFirstRun)
    return Status{Code::corrupt, path + ": too short for a baseline's file"};
  pm::read_bytes(&arena.header_, arena.base(), sizeof arena.header_);
  if (arena.header_.magic != kMagic || arena.header_.version != kVersion ||
      arena.header_.crc != checksum(arena.header_)) {
    return Status{Code::corrupt, path + ": not the file of a baseline of this version"};
  }
  std::uint64_t const runs = arena.word(kRuns);
  for (std::uint64_t i = 0; i < runs; ++i) {
    Entry entry;
    pm::read_bytes(&entry, arena.base() + kDirectory + i * sizeof entry, sizeof entry);
    Run const run{Offset{entry.first * kGranule}, entry.granules * kGranule,
                  static_cast<Use>(entry.use), entry.number};
    if (i >= kMaxRuns || run.at.bytes + run.bytes > arena.bytes())
      return Status{Code::corrupt,
                    path + ": its directory names bytes that the file does not have"};
    arena.runs_.push_back(run);
  }
  return arena;
}

Result<Run> Arena::add(Use use, std::uint32_t number, std::uint64_t bytes) {
  std::uint64_t const needed =
      std::max(std::uint64_t{1}, (bytes + kGranule - 1) / kGranule) * kGranule;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    if (runs_[i].use != Use::nothing || runs_[i].bytes < needed) continue;
    pm::zero_bytes(base() + runs_[i].at.bytes, runs_[i].bytes);
    assign(i, use, number);
    return runs_[i];
  }
  if (runs_.size() == kMaxRuns)
    return Status{Code::no_space, "the baseline's directory of runs is full"};
  std::uint64_t const first =
      runs_.empty() ? kFirstRun : runs_.back().at.bytes + runs_.back().bytes;
  if (Status s = mapping_.grow(first + needed); !s.ok()) return s;
  Entry const entry{static_cast<std::uint32_t>(first / kGranule),
                    static_cast<std::uint32_t>(needed / kGranule), static_cast<std::uint32_t>(use),
                    number};
  pm::write_bytes(base() + kDirectory + runs_.size() * sizeof entry, &entry, sizeof entry);
  runs_.push_back({Offset{first}, needed, use, number});
  set_word(kRuns, runs_.size());
  return runs_.back();
}

void Arena::drop(Offset run) {
  auto const at =
      std::find_if(runs_.begin(), runs_.end(), [&](Run const& r) { return r.at == run; });
  assign(static_cast<std::size_t>(at - runs_.begin()), Use::nothing, 0);
}

void Arena::assign(std::size_t index, Use use, std::uint32_t number) {
  std::byte* const entry = base() + kDirectory + index * sizeof(Entry);
  pm::order();
  pm::store_word(reinterpret_cast<std::uint64_t*>(entry + offsetof(Entry, use)),
                 use_word(use, number));
  pm::order();
  runs_[index].use = use;
  runs_[index].number = number;
}

std::vector<Run> Arena::runs_of(Use use) const {
  std::vector<Run> found;
  std::copy_if(runs_.begin(), runs_.end(), std::back_inserter(found),
               [&](Run const& r) { return r.use == use; });
  return found;
}

std::uint64_t Arena::word(Word word) const { return pm::load_word(base() + word_at(word).bytes); }

void Arena::set_word(Word word, std::uint64_t value) {
  pm::order();
  pm::store_word(reinterpret_cast<std::uint64_t*>(base() + word_at(word).bytes), value);
  pm::order();
}

}  // namespace perdure::baselines
