#include "lsm/gwal/gwal_copy.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "lsm/gwal/gwal_files.hpp"
#include "lsm/gwal/gwal_format.hpp"
#include "lsm/gwal/gwal_headers.hpp"

namespace perdure::lsm {
namespace {

using Segments = std::map<std::uint64_t, std::shared_ptr<pm::CopiedFile>>;

constexpr char kWhat[] = "G-WAL";

/// Names come and go in the copy alone.
class File final : public GwalFile {
 public:
  File(std::string name, std::shared_ptr<pm::CopiedFile> copy)
      : name_(std::move(name)), copy_(std::move(copy)) {}
  [[nodiscard]] std::span<std::byte> bytes() const override { return copy_->bytes(); }
  [[nodiscard]] std::string name() const override { return name_; }
  Status keep() override { return {}; }
  Status remove(bool) override { return {}; }
  Status sync(void const*, std::size_t) const override { return {}; }

 private:
  std::string name_;
  std::shared_ptr<pm::CopiedFile> copy_;
};

class Files final : public GwalFiles {
 public:
  Files(std::string directory, Segments segments)
      : directory_(std::move(directory)), segments_(std::move(segments)) {}

  [[nodiscard]] std::string name() const override { return directory_; }
  [[nodiscard]] std::uint64_t boot() const override { return gwal_boot(); }
  Result<std::vector<std::uint64_t>> numbers() override {
    std::vector<std::uint64_t> all;
    for (auto const& one : segments_) all.push_back(one.first);
    return all;
  }
  Result<std::shared_ptr<GwalFile>> open(std::uint64_t number) override {
    return std::shared_ptr<GwalFile>(
        std::make_shared<File>(gwal_segment_path(directory_, number), segments_.at(number)));
  }
  Result<std::shared_ptr<GwalFile>> make(std::uint64_t, std::uint64_t) override {
    return Status{Code::closed, "G-WAL " + directory_ + " was opened to be read"};
  }

 private:
  std::string directory_;
  Segments segments_;
};

}  // namespace

Result<GwalCopy> GwalCopy::take(std::string directory) {
  auto const numbers = gwal_segment_numbers(directory);
  if (numbers.status().code() == Code::not_found) return GwalCopy(std::move(directory), {});
  if (!numbers.ok()) return numbers.status();
  Segments segments;
  for (std::uint64_t const number : numbers.value()) {
    auto copy = pm::CopiedFile::copy(kWhat, gwal_segment_path(directory, number));
    if (copy.status().code() == Code::not_found)
      return Status{Code::busy, "G-WAL " + directory + ": segment " + std::to_string(number) +
                                    " went while it was being copied; try again"};
    if (!copy.ok()) return copy.status();
    if (copy->bytes().size() < kGwalRecords)
      return gwal_damaged(gwal_segment_path(directory, number), "is truncated");
    segments.emplace(number, std::make_shared<pm::CopiedFile>(std::move(copy).value()));
  }
  return GwalCopy(std::move(directory), std::move(segments));
}

/// What tells that a segment was handed over are its intents, which lie before its records.
Result<bool> GwalCopy::still_stands() const {
  for (auto const& [number, copy] : segments_) {
    auto const now = pm::first_bytes(kWhat, gwal_segment_path(directory_, number), kGwalRecords);
    if (now.status().code() == Code::not_found) return false;
    if (!now.ok()) return now.status();
    bool const same = now.value().size() == kGwalRecords &&
                      std::memcmp(now.value().data(), copy->bytes().data(), kGwalRecords) == 0;
    if (!same) return false;
  }
  return true;
}

Result<std::unique_ptr<Gwal>> GwalCopy::log(GwalOptions const& options) && {
  return open_gwal_over(std::make_unique<Files>(directory_, std::move(segments_)), options);
}

}  // namespace perdure::lsm
