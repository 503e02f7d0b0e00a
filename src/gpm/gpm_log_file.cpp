#include "gpm/gpm_log_file.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "exec/workers.hpp"
#include "pm/flush.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::gpm {
namespace {

constexpr std::uint64_t kMostPartitions = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostPartitionBytes = std::uint64_t{1}
                                              << 33;  // their words are counted in 32 bits
constexpr std::uint64_t kLineWords = kGpmLine / sizeof(std::uint32_t);

std::uint64_t header_check(GpmLogHeader const& header) {
  return hash_bytes(reinterpret_cast<std::byte const*>(&header), offsetof(GpmLogHeader, check));
}

Status damaged_log(std::string const& path, std::string const& what) {
  return {Code::corrupt,
          "log " + path + " " + what + "; restore it from a copy, or make a new one"};
}

template <class F>
void over_partitions(std::size_t partitions, std::uint32_t host_threads, F const& some) {
  constexpr std::size_t kChunk = 4096;  // whole tiles
  if (host_threads <= 1) return some(0, partitions);
  exec::Workers(host_threads).for_chunks(partitions, kChunk, some);
}

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

std::uint64_t gpm_file_bytes(std::uint64_t bytes) {
  return std::max(round_up(bytes, kGpmPage), 3 * kGpmPage);
}

Result<GpmLogFile> GpmLogFile::create(std::string const& path, std::uint64_t bytes,
                                      GpmLogGeometry const& geometry, For whom, bool gpu) {
  bool const hcl = geometry.kind == GpmLogKind::hcl;
  std::uint64_t const partitions =
      hcl ? std::uint64_t{geometry.blocks} * geometry.threads : geometry.partitions;
  if (partitions == 0 || partitions > kMostPartitions) {
    return Status{Code::invalid_argument, "log " + path + ": " + std::to_string(partitions) +
                                              " partitions; ask for 1 to 2^32" +
                                              (hcl ? " threads" : "")};
  }
  std::uint64_t const each = bytes / partitions;
  if (each == 0) {
    return Status{Code::invalid_argument, "log " + path + ": " + std::to_string(bytes) +
                                              " bytes give each of " + std::to_string(partitions) +
                                              " partitions less than one; ask for " +
                                              std::to_string(partitions) + " at least"};
  }
  if (each >= kMostPartitionBytes) {
    return Status{Code::invalid_argument,
                  "log " + path + ": partitions of " + std::to_string(each) +
                      " bytes; a partition holds less than 8 GiB, ask for more of them"};
  }
  std::uint64_t const words = gpm_partition_words(each);
  std::uint64_t const places = hcl ? round_up(partitions, kHclLanes) : partitions;
  std::uint64_t const file_bytes = gpm_file_bytes(kGpmPage + places * words * 4);
  auto const make =
      pm::MakeOptions{.overwrite = true,
                      .may_replace = pm::only_replaces("file " + path, "libGPM log",
                                                       {kGpmLogMagic, sizeof kGpmLogMagic}, false)};
  auto mapping = pm::Mapping::create(path, file_bytes, file_bytes, make, {.gpu = gpu});
  if (!mapping.ok()) return mapping.status();

  GpmLogHeader header{};
  std::memcpy(header.magic, kGpmLogMagic, sizeof header.magic);
  header.version = kGpmLogVersion;
  header.kind = geometry.kind;
  header.file_bytes = file_bytes;
  header.partitions = partitions;
  header.blocks = hcl ? geometry.blocks : 0;
  header.threads = hcl ? geometry.threads : 0;
  header.words = words;
  header.data = kGpmPage;
  header.transaction = 1;
  header.check = header_check(header);
  GpmLogFile file(path, std::move(mapping.value()), whom);
  pm::write_bytes(file.data(), &header, sizeof header);
  if (Status s = file.make_durable(file.data(), sizeof header); !s.ok()) return s;
  if (Status s = file.mapping_.keep(); !s.ok()) return s;
  return Result<GpmLogFile>(std::move(file));
}

/// What the host stored there is durable.
Status GpmLogFile::make_durable(void const* at, std::size_t bytes) const {
  if (whom_ == For::kernels) pm::start_flush(at, bytes);
  return settle_written_back(at, bytes);
}

Status GpmLogFile::settle_written_back(void const* at, std::size_t bytes) const {
  if (whom_ == For::host && !mutated("gpm_clear_not_synced")) return mapping_.sync(at, bytes);
  pm::order();
  return {};
}

Result<GpmLogFile> GpmLogFile::open(std::string const& path, For whom, bool gpu) {
  auto mapping = pm::Mapping::open(path, {.gpu = gpu});
  if (!mapping.ok()) return mapping.status();
  GpmLogFile file(path, std::move(mapping.value()), whom);
  if (Status s = file.check(); !s.ok()) return s;
  return Result<GpmLogFile>(std::move(file));
}

Status GpmLogFile::check() const {
  pm::will_read(mapping_.data(), sizeof(GpmLogHeader));
  GpmLogHeader const& h = header();
  if (std::memcmp(h.magic, kGpmLogMagic, sizeof h.magic) != 0)
    return damaged_log(path_, "is no libGPM log");
  if (h.version != kGpmLogVersion) {
    return {Code::unsupported, "log " + path_ + " is of format version " +
                                   std::to_string(h.version) + "; this build reads " +
                                   std::to_string(kGpmLogVersion)};
  }
  if (h.check != header_check(h)) return damaged_log(path_, "has a damaged header");
  if (h.file_bytes > mapping_.size()) {
    return damaged_log(path_, "is truncated: " + std::to_string(mapping_.size()) + " of " +
                                  std::to_string(h.file_bytes) + " bytes are there");
  }
  return {};
}

std::uint32_t* GpmLogFile::word_at(std::uint64_t partition, std::uint64_t word) const {
  GpmLogHeader const& h = header();
  return reinterpret_cast<std::uint32_t*>(mapping_.data() +
                                          gpm_word_at(h.kind, h.data, h.words, partition, word));
}

/// Words of the entry that begins there; 0: none does.
std::uint32_t GpmLogFile::entry_at(std::uint64_t partition, std::uint64_t first) const {
  GpmLogHeader const& h = header();
  auto const word = [&](std::uint64_t number) {
    std::uint32_t const* const at = word_at(partition, number);
    pm::will_read(at, sizeof *at);
    return *at;
  };
  GpmCheck check(partition, first);
  for (std::uint32_t words = 1; words <= kMostEntryWords && first + words < h.words; ++words) {
    check.add(word(first + words - 1));
    if (!named(words)) continue;
    std::uint32_t const stands = word(first + words);
    for (std::uint32_t size = words * 4 - 3; stands != 0 && size <= words * 4; ++size)
      if (h.sizes[size - 1] != 0 &&
          check.taken(stands, h.transaction, size, h.parts[size - 1] != 0) != size)
        return words;
  }
  return 0;
}

/// Whether entries of so many words may be there.
bool GpmLogFile::named(std::uint32_t words) const {
  std::uint32_t const* const sizes = header().sizes + (words - 1) * 4;
  return (sizes[0] | sizes[1] | sizes[2] | sizes[3]) != 0;
}

std::vector<std::uint32_t> GpmLogFile::scan(std::uint32_t host_threads) const {
  std::vector<std::uint32_t> tails(header().partitions, 0);
  bool const any = std::any_of(std::begin(header().sizes), std::end(header().sizes),
                               [](auto said) { return said != 0; });
  if (!any) return tails;
  auto const some = [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p)
      while (std::uint32_t const words = entry_at(p, tails[p])) tails[p] += words + 1;
  };
  over_partitions(tails.size(), host_threads, some);
  return tails;
}

/// Makes n words side by side 0, which is no entry's check, as far as `ends` says so of each:
/// whether it wrote any.
template <class F>
bool GpmLogFile::end_words(std::uint32_t* words, std::uint64_t n, F const& ends) {
  pm::will_read(words, n * sizeof *words);
  std::uint32_t set = 0;
  for (std::uint64_t i = 0; i < n; ++i) set |= words[i];
  if (set == 0) return false;  // as most of a log is
  bool any = false;
  for (std::uint64_t i = 0; i < n; ++i) {
    if (words[i] == 0 || !ends(i)) continue;
    pm::will_write(&words[i], sizeof *words);
    words[i] = 0;
    pm::wrote(&words[i], sizeof *words);
    any = true;
  }
  if (any) pm::start_flush(words, n * sizeof *words);
  return any;
}

/// Of partitions [begin, end): the check of an entry of so many words at the tail.
bool GpmLogFile::end_checks(std::vector<std::uint32_t> const& tails, std::size_t begin,
                            std::size_t end, std::uint64_t words) {
  bool any = false;
  for (std::size_t p = begin; p < end; ++p)
    if (tails[p] + words < header().words)
      any |= end_words(word_at(p, tails[p] + words), 1, [](auto) { return true; });
  return any;
}

/// Of partitions [begin, end) all above the tails, line by line.
bool GpmLogFile::end_rest(std::vector<std::uint32_t> const& tails, std::size_t begin,
                          std::size_t end) {
  std::uint64_t const words = header().words;
  bool any = false;
  if (header().kind == GpmLogKind::conventional) {
    for (std::size_t p = begin; p < end; ++p)
      for (std::uint64_t line = tails[p]; line < words; line += kLineWords)
        any |= end_words(word_at(p, line), std::min(kLineWords, words - line),
                         [](auto) { return true; });
    return any;
  }
  for (std::size_t row = begin; row < end; row += kHclLanes)
    for (std::uint64_t word = 0; word < words; ++word)
      any |= end_words(word_at(row, word), std::min<std::uint64_t>(kHclLanes, end - row),
                       [&](std::uint64_t lane) { return word >= tails[row + lane]; });
  return any;
}

/// At no time is a part of what goes an entry. Of what may be one at a tail, the checks of larger
/// entries go first: the check of a smaller one is a word of theirs, and 0 may be what that word
/// lacks. Then all the rest goes, for it would be found once that which lay below it is written
/// again; a removal, too, writes a 0 that may be what it lacks.
Status GpmLogFile::end_above(std::vector<std::uint32_t> const& tails, std::uint32_t host_threads) {
  if (mutated("gpm_torn_entry_kept")) return {};
  auto const ended = [&](auto const& some) {
    std::atomic<bool> any = false;
    over_partitions(tails.size(), host_threads, [&](std::size_t begin, std::size_t end) {
      if (!some(begin, end)) return;
      std::atomic_thread_fence(std::memory_order_seq_cst);  // what this thread wrote back is there
      any = true;
    });
    return any.load();
  };
  auto const ordered = [&] {
    return settle_written_back(data() + header().data, header().file_bytes - header().data);
  };
  for (std::uint32_t words = kMostEntryWords; words >= 1; --words) {
    if (!named(words)) continue;
    bool const any =
        ended([&](auto begin, auto end) { return end_checks(tails, begin, end, words); });
    if (!any || mutated("gpm_torn_entries_at_once")) continue;
    if (Status s = ordered(); !s.ok()) return s;
  }
  if (!mutated("gpm_residue_kept"))
    ended([&](auto begin, auto end) { return end_rest(tails, begin, end); });
  return ordered();
}

Status GpmLogFile::clear() {
  std::uint64_t* const word = &reinterpret_cast<GpmLogHeader*>(mapping_.data())->transaction;
  pm::store_word(word, header().transaction + 1);
  return mutated("gpm_clear_not_ordered") ? Status{} : make_durable(word, sizeof *word);
}

}  // namespace perdure::gpm
