#include "lsm/gwal/gwal_sum.hpp"

#include <algorithm>
#include <array>

#include "base/crc32c.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "exec/crc_tables.hpp"

namespace perdure::lsm {
namespace {

constexpr std::size_t kLanes = 4;  // whose products a core works on side by side
constexpr std::size_t kBlock = 16;  // bytes a lane takes at once

/// As hash_bytes(), with every fourth block in a lane of its own: one lane would wait for each of
/// its products.
std::uint64_t hash_of(std::span<std::byte const> bytes) {
  using namespace hash_detail;
  constexpr std::size_t kStep = kLanes * kBlock;
  std::size_t const whole = bytes.size() / kStep * kStep;
  std::array<std::uint64_t, kLanes + 1> lanes{k0, k1, k2, k3};
  for (std::size_t at = 0; at < whole; at += kStep) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::byte const* const block = bytes.data() + at + lane * kBlock;
      lanes[lane] = fold(load_tail(block, 8) ^ k1, load_tail(block + 8, 8) ^ lanes[lane]);
    }
  }
  std::uint64_t const rest = hash_bytes(bytes.data() + whole, bytes.size() - whole);
  if (whole == 0) return rest;
  lanes[kLanes] = rest ^ bytes.size();
  return hash_bytes(std::as_bytes(std::span(lanes)).data(), sizeof lanes);
}

/// Of A and of B, which has so many bytes, it makes the CRC of A with B behind it. It takes longer
/// to make one than to join by it.
class CrcJoin {
 public:
  /// x^(8 * bytes), by squares.
  explicit CrcJoin(std::uint64_t bytes) {
    for (std::uint32_t square = kOne >> 8; bytes != 0; bytes >>= 1) {
      if ((bytes & 1) != 0) shift_ = exec::crc_multiply(shift_, square);
      square = exec::crc_multiply(square, square);
    }
  }
  /// What CRCs are inverted by, before and after, cancels out.
  [[nodiscard]] std::uint32_t operator()(std::uint32_t before, std::uint32_t behind) const {
    return exec::crc_multiply(before, shift_) ^ behind;
  }

 private:
  static constexpr std::uint32_t kOne = 1u << 31;
  std::uint32_t shift_ = kOne;
};

}  // namespace

GwalPayloadSum::GwalPayloadSum(std::span<std::byte const> payload) : payload_(payload) {
  if (payload.size() > kGwalChunk) several_.resize((payload.size() + kGwalChunk - 1) / kGwalChunk);
}

std::span<std::byte const> GwalPayloadSum::bytes_of(std::size_t i) const {
  std::size_t const begin = i * kGwalChunk;
  return payload_.subspan(begin, std::min<std::size_t>(kGwalChunk, payload_.size() - begin));
}

void GwalPayloadSum::sum_chunk(std::size_t i) {
  std::span<std::byte const> const bytes = bytes_of(i);
  if (several_.empty())
    hash_ = hash_of(bytes);
  else
    several_[i] = {hash_of(bytes), crc32c(0, bytes.data(), bytes.size())};
}

void GwalPayloadSum::sum_all(exec::Workers* workers) {
  auto const some = [this](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) sum_chunk(i);
  };
  if (workers == nullptr || several_.empty()) return some(0, chunks());
  workers->for_chunks(chunks(), 1, some);
}

std::size_t GwalPayloadSum::summed() const {
  return mutated("gwal_last_chunk_not_summed") && chunks() > 1 ? chunks() - 1 : chunks();
}

std::uint32_t GwalPayloadSum::hash() const {
  if (several_.empty()) return static_cast<std::uint32_t>(hash_);
  std::vector<std::uint64_t> hashes;
  for (Chunk const& chunk : std::span(several_).first(summed())) hashes.push_back(chunk.hash);
  return static_cast<std::uint32_t>(
      hash_bytes(std::as_bytes(std::span(hashes)).data(), hashes.size() * sizeof hashes[0]));
}

std::uint32_t GwalPayloadSum::crc(std::uint32_t before) const {
  if (several_.empty()) return crc32c(before, payload_.data(), payload_.size());
  CrcJoin const whole(kGwalChunk);
  for (std::size_t i = 0; i + 1 < chunks(); ++i) before = whole(before, several_[i].crc);
  std::size_t const last = chunks() - 1;
  if (summed() == last) return before;
  return CrcJoin(bytes_of(last).size())(before, several_[last].crc);
}

std::uint32_t gwal_crc(GwalIdentity const& identity, GwalRecordHeader h,
                       GwalPayloadSum const& payload) {
  if (mutated("gwal_stale_record")) h.number = 0;
  std::uint32_t const of_identity = crc32c(0, identity.data(), identity.size());
  return payload.crc(crc32c(of_identity, &h, offsetof(GwalRecordHeader, crc)));
}

}  // namespace perdure::lsm
