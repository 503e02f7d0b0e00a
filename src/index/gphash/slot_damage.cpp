#include "index/gphash/slot_damage.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "index/gphash/slot_sums.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {
namespace {

bool two_bits_apart(std::uint64_t a, std::uint64_t b) { return std::popcount(a ^ b) <= 2; }

}  // namespace

using slot_sums::mixed;
using slot_sums::unmixed;

/// Whether a slot may say that: a whole record, of a key that belongs there, which no slot leads to
/// now.
bool SlotDamage::explains(std::uint64_t number, std::uint64_t word) const {
  PERDURE_ASSERT(!slots_.is_in_place() && number < slots_.slots());
  Offset const record = word::record(word);
  if (!slots_.heap().is_record(record) || !slots_.view().may_hold(record) ||
      slots_.heap().in_use(record))
    return false;
  std::uint64_t const room =
      std::min<std::uint64_t>(slots_.view().room(record), slots_.heap().room(record));
  pm::RecordView const r = pm::view_record(slots_.base(), slots_.view().records, record, room);
  auto const sum = [](std::uint32_t crc, std::byte const* data, std::size_t bytes) {
    return crc32c(crc, data, bytes);
  };
  if (pm::record_sum(r, r.value, sum) != r.header.crc) return false;
  if (word != word::make(hash_bytes(r.key, r.header.key_bytes), record)) return false;
  auto const slots = slots_.candidate_slots({r.key, r.header.key_bytes});
  return std::find(slots.begin(), slots.end(), number) != slots.end();
}

/// The one word within two bits of what stands there that explains it; none where there are
/// several.
std::optional<std::uint64_t> SlotDamage::word_nearby(std::uint64_t number) const {
  std::uint64_t const word = slots_.word_at(slots_.locate(number));
  std::optional<std::uint64_t> found;
  for (std::uint32_t a = 0; a < 64; ++a) {
    for (std::uint32_t b = a; b < 64; ++b) {
      std::uint64_t const other =
          word ^ (std::uint64_t{1} << a) ^ (b == a ? 0 : std::uint64_t{1} << b);
      if (!explains(number, other)) continue;
      if (found) return std::nullopt;
      found = other;
    }
  }
  return found;
}

SlotDamage::Change SlotDamage::put_right(std::uint64_t number, Offset at, std::uint64_t word,
                                         std::string const& what) const {
  return {at, word, false, slots_.name(number) + ": " + what + ", put right"};
}
SlotDamage::Change SlotDamage::drop(std::uint64_t number, std::string const& why) const {
  return {slots_.word_of(slots_.locate(number)), 0, true,
          slots_.name(number) + ": " + why + ", dropped"};
}

/// The one word that is what it was when the sum lacks nothing. In all likelihood: of 2^64 sums,
/// one is that without the word, and 2,081 are of words two bits apart.
std::optional<SlotDamage::Change> SlotDamage::change_by_sum(std::uint64_t missing) const {
  PERDURE_ASSERT(missing != 0);
  for (std::uint64_t number = 0; number < slots_.slots(); ++number) {
    SlotAt const at = slots_.locate(number);
    if (at.slot >= in_place::level_slots(*at.level, slots_.view().slots)) continue;
    std::uint64_t const word = slots_.word_at(at);
    if (word != 0 && slots_.sum_of(at, word) + missing == 0)
      return put_right(number, slots_.word_of(at), 0, "was empty");
    if (std::uint64_t const was = unmixed(
            (word != 0 ? mixed(word, slots_.word_of(at)) : 0) + missing, slots_.word_of(at));
        was != 0 && two_bits_apart(was, word))
      return put_right(number, slots_.word_of(at), was, "its word had changed");
    if (!slots_.is_in_place() || word == 0) continue;
    Offset const address = in_place::address(slots_.view(), *at.level, at.slot);
    std::uint64_t const leads = slots_.record_at(at).bytes,
                        led = unmixed(mixed(leads, address) + missing, address);
    if (two_bits_apart(leads, led)) return put_right(number, address, led, "its place had changed");
  }
  return std::nullopt;
}

/// in_place, fixed sizes: the key in the slot that its state is the hash of, one or two bits of one
/// word apart.
std::optional<SlotDamage::Change> SlotDamage::key_nearby(std::uint64_t number) const {
  PERDURE_ASSERT(slots_.is_in_place() && slots_.view().key_bytes != 0);
  SlotAt const at = slots_.locate(number);
  Offset const address = in_place::key(slots_.view(), *at.level, at.slot);
  std::byte const* const stored = slots_.base() + address.bytes;
  std::vector<std::byte> key(stored, stored + slots_.view().key_bytes);
  auto const flip = [&](std::uint32_t bit) {
    key[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  };
  auto const right = [&] {
    return in_place::fingerprint(hash_bytes(key.data(), key.size())) == slots_.word_at(at);
  };
  for (std::uint32_t a = 0; a < slots_.view().key_bytes * 8; ++a) {
    for (std::uint32_t b = a; b < slots_.view().key_bytes * 8 && b / 64 == a / 64; ++b) {
      flip(a);
      if (b != a) flip(b);
      bool const found = right();
      if (b != a) flip(b);
      flip(a);
      if (!found) continue;
      Offset const word = address + a / 64 * 8;
      std::uint64_t const bits = std::uint64_t{1} << a % 64 | std::uint64_t{1} << b % 64;
      return put_right(number, word, pm::load_word(slots_.base() + word.bytes) ^ bits,
                       "its key had changed");
    }
  }
  return std::nullopt;
}

/// What to do about an entry; none where it is right, or only its record is damaged. `words_right`:
/// the sum of all slots says that they are what they were. Then a record that cannot be right is
/// damaged itself, and no other is in its place.
std::optional<SlotDamage::Change> SlotDamage::change_for(std::uint64_t number,
                                                         bool words_right) const {
  SlotAt const at = slots_.locate(number);
  std::uint64_t const word = slots_.word_at(at);
  if (word == 0) return std::nullopt;
  if (slots_.is_in_place() && word == in_place::kInsert) return drop(number, "half inserted");
  std::optional<Entry> const e = slots_.entry(number);
  std::string const what = slots_.fault(number, *e);
  if (what.empty() || (words_right && e->readable)) return std::nullopt;
  if (words_right) return drop(number, what);
  if (e->readable) {
    std::uint64_t const hash = hash_bytes(e->key.data(), e->key.size());
    auto const slots = slots_.candidate_slots(e->key);
    bool const belongs = std::find(slots.begin(), slots.end(), number) != slots.end();
    std::uint64_t const right =
        slots_.is_in_place() ? in_place::fingerprint(hash) : word::make(hash, e->record);
    bool const alone = std::none_of(slots.begin(), slots.end(), [&](std::uint64_t other) {
      return other != number && slots_.holds_entry(slots_.locate(other)) &&
             slots_.record_at(slots_.locate(other)) == e->record;
    });
    if (belongs && alone && word == right && !what.starts_with("key stands")) return std::nullopt;
    if (belongs && alone && word != right && slots_.intact(*e) && two_bits_apart(word, right))
      return put_right(number, slots_.word_of(at), right, what);
  }
  if (slots_.is_in_place() && slots_.view().key_bytes != 0) {
    if (auto right = key_nearby(number)) return right;
  }
  if (!slots_.is_in_place()) {
    if (auto const right = word_nearby(number))
      return put_right(number, slots_.word_of(at), *right, what);
  }
  return drop(number, what);
}

std::vector<SlotDamage::Change> SlotDamage::changes(Survey const& found,
                                                    std::optional<std::uint64_t> missing,
                                                    bool last) const {
  if (missing.value_or(0) != 0) {
    if (auto one = change_by_sum(*missing)) return {*one};
  }
  bool const words_right = missing == 0u && found.half.empty() && found.again.empty();
  // Records of `in_place` do not say whose they are: of two slots that lead to one, neither is to
  // be believed.
  std::set<std::uint64_t> shared;
  if (slots_.is_in_place() && slots_.view().key_bytes != 0)
    for (std::uint64_t const number : found.again)
      shared.insert(slots_.record_at(slots_.locate(number)).bytes);
  std::vector<Change> all;
  for (std::uint64_t number = 0; number < slots_.slots(); ++number) {
    SlotAt const at = slots_.locate(number);
    bool const twice = slots_.holds_entry(at) && shared.contains(slots_.record_at(at).bytes);
    auto change = change_for(number, words_right);
    if (twice && (last || !change || change->drops))
      change = drop(number, "another slot leads to its record");
    if (change) all.push_back(std::move(*change));
  }
  auto const drops = [](Change const& c) { return c.drops; };
  if (!last && !std::ranges::all_of(all, drops)) std::erase_if(all, drops);
  return all;
}

}  // namespace perdure::gphash
