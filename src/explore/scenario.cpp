#include "explore/scenario.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/hash.hpp"

namespace perdure::explore {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567) {}
  std::uint64_t draw() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(draw() % n); }

 private:
  std::uint64_t state_;
};

/// Pairs of keys whose hashes agree in the 24 bits that layout `word` keeps: their slots look
/// alike.
std::vector<std::array<std::uint64_t, 2>> const& look_alikes() {
  static auto const pairs = [] {
    std::vector<std::array<std::uint64_t, 2>> found;
    std::unordered_map<std::uint64_t, std::uint64_t> first;
    for (std::uint64_t key = 1; found.size() < 16; ++key) {
      std::uint64_t const low =
          hash_bytes(reinterpret_cast<std::byte const*>(&key), sizeof key) & 0xffffff;
      if (auto const [at, fresh] = first.emplace(low, key); !fresh)
        found.push_back({at->second, key});
    }
    return found;
  }();
  return pairs;
}

constexpr std::size_t kSessionKeys = 5;  // of device sessions, so that warps meet over one key

constexpr Shape kShapes[] = {{2, 2, 2}, {2, 2, 1}, {2, 1, 2}, {1, 2, 4}, {2, 2, 4},
                             {3, 1, 2}, {2, 2, 8}, {1, 2, 1}, {1, 3, 1}, {3, 2, 1}};

/// Over the first `keys` keys.
Batch draw_batch(Random& random, std::size_t operations, std::uint32_t put_share, std::size_t keys,
                 std::uint64_t& next_value) {
  Batch batch;
  batch.rmw = random.below(4) == 0 ? Rmw::add : Rmw::replace;
  for (std::size_t i = 0; i < operations; ++i) {
    std::uint32_t const dice = random.below(100);
    OpKind const kind = dice < put_share                               ? OpKind::put
                        : dice < put_share + (100 - put_share) / 3     ? OpKind::erase
                        : dice < put_share + (100 - put_share) * 2 / 3 ? OpKind::update
                                                                       : OpKind::get;
    batch.operations.push_back({kind, random.below(keys), next_value++});
  }
  return batch;
}

/// Batches of values of any length have no gets, and sums are of values of one length.
void fit_to_any_values(Batch& batch) {
  batch.rmw = Rmw::replace;
  for (Operation& o : batch.operations)
    if (o.kind == OpKind::get) o.kind = OpKind::update;
}

/// Every other batch: who writes puts alone has no kinds of operations.
void fit_to_puts(std::vector<Batch>& batches) {
  for (std::size_t b = 0; b < batches.size(); b += 2) {
    batches[b].by_put = true;
    batches[b].rmw = Rmw::replace;
    for (Operation& o : batches[b].operations) o.kind = OpKind::put;
  }
}

/// Their first 8 bytes multiply by zero (base/hash.hpp), so the next 8 may be any.
void add_alike(std::uint64_t number, std::size_t bytes, std::vector<std::byte>& to) {
  std::uint64_t const words[kLongKey / 8] = {hash_detail::k1, number};
  auto const* const from = reinterpret_cast<std::byte const*>(words);
  to.insert(to.end(), from, from + bytes);
}

std::uint32_t key_bytes_of(Bounds const& bounds) {
  if (bounds.any_keys) return 0;
  return bounds.wide_keys ? kWideKey : bounds.long_keys ? kLongKey : sizeof(std::uint64_t);
}

Stepping draw_stepping(Random& random, bool revertible) {
  std::uint32_t const dice = random.below(8);
  if (revertible && random.below(3) == 0) return Stepping::taken_back;
  return dice < 4   ? Stepping::after_batch
         : dice < 6 ? Stepping::before_batch
                    : static_cast<Stepping>(dice - 4);
}

}  // namespace

Scenario make_scenario(std::uint64_t seed, Layout layout, Bounds const& bounds) {
  Random random(seed);
  Scenario s{};
  s.seed = seed;
  s.layout = layout;
  s.key_bytes = key_bytes_of(bounds);
  s.value_bytes = bounds.any_values ? 0 : sizeof(std::uint64_t);
  s.shape = kShapes[random.below(std::size(kShapes))];
  bool const mirrored = bounds.mirrored || bounds.device_ops || layout == Layout::log;
  s.machine = {bounds.warps, random.below(2) == 0, mirrored, bounds.cached};
  s.grows = true;
  auto const& pairs = look_alikes();
  for (std::size_t k = 0; k < kKeys; ++k) s.keys[k] = 1000000 + random.below(1u << 30);
  for (std::size_t k = 0; k < 4; k += 2) {
    auto const& pair = pairs[random.below(pairs.size())];
    if (k == 2 && pair[0] == s.keys[0]) break;
    s.keys[k] = pair[0];
    s.keys[k + 1] = pair[1];
  }
  std::uint64_t next_value = 1;
  for (std::uint32_t b = random.below(3); b > 0; --b)
    s.filling.push_back(draw_batch(random, 1 + random.below(kKeys), 80, kKeys, next_value));
  std::size_t const keys = bounds.device_ops ? kSessionKeys : kKeys;
  std::uint32_t const put_share =
      bounds.device_ops ? 20 + 15 * random.below(3) : 34 + 22 * random.below(4);
  for (std::uint32_t b = 1 + random.below(bounds.batches); b > 0; --b)
    s.batches.push_back(
        draw_batch(random, 1 + random.below(bounds.operations), put_share, keys, next_value));
  if (bounds.atomic || (bounds.power && layout != Layout::in_place && random.below(2) == 0)) {
    std::uint32_t const aborts = s.batches.size() == 1 ? 4 : random.below(8);
    s.writing = s.batches.size() == 1  ? Writing::atomically
                : aborts == 0          ? Writing::in_one_aborted
                : aborts == 1          ? Writing::after_an_abort
                : random.below(2) == 0 ? Writing::in_one_transaction
                                       : Writing::atomically;
  }
  if (bounds.steps) {
    s.writing = Writing::in_steps;
    s.roomy = random.below(4) !=
              0;  // else crashes fall into growths, as they do in transactions without steps
    s.revertible = bounds.revertible;
    for (std::size_t b = 0; b < s.batches.size(); ++b)
      s.stepping.push_back(draw_stepping(random, s.revertible));
  }
  if (bounds.device_ops) {
    s.writing = Writing::in_device_sessions;
    s.grows = random.below(2) == 0;  // else tables are full, and slots in demand
  }
  if (layout == Layout::log) s.shape = {};  // it has no other
  if (layout == Layout::log && !bounds.device_ops && seed % 8 == 3) fit_to_puts(s.batches);
  if (bounds.any_values) {
    for (Batch& batch : s.filling) fit_to_any_values(batch);
    for (Batch& batch : s.batches) fit_to_any_values(batch);
  }
  if (random.below(2) == 0)
    s.machine.window_bits = 1;  // so that tables of a few buckets grow unit by unit
  if (bounds.full_medium)
    s.superblocks = 2 + s.shape.levels + random.below(4);  // pool's head, levels, heap, and some
  return s;
}

std::string Scenario::describe() const {
  static constexpr char const* kWriting[] = {"",
                                             ", atomic batches",
                                             ", one transaction",
                                             ", one aborted transaction",
                                             ", after an aborted transaction",
                                             ", device sessions",
                                             ", steps"};
  static constexpr char const* kStepping[] = {"a step after it", "a step before it", "no step",
                                              "aborted", "a step after it, taken back"};
  static constexpr char const* kKinds[] = {"get", "put", "erase", "update"};
  std::string text = "shape " + std::to_string(shape.levels) + "L-" + std::to_string(shape.hashes) +
                     "H-" + std::to_string(shape.slots) + "S, " + std::to_string(machine.warps) +
                     " warps, windows of 2^" + std::to_string(machine.window_bits) + " buckets, " +
                     (key_bytes == kWideKey ? "wide keys, " : "") +
                     (key_bytes == kLongKey ? "long keys, " : "") +
                     (key_bytes == 0 ? "keys of any length, " : "") +
                     (value_bytes == 0 ? "values of any length, " : "") +
                     (machine.stage_by_stage ? "stage by stage" : "item by item") +
                     (machine.cached ? ", cache" : "") + kWriting[static_cast<int>(writing)] +
                     (revertible ? " that can be taken back" : "");
  auto const add = [&](char const* name, std::vector<Batch> const& list,
                       std::vector<Stepping> const& how) {
    for (std::size_t b = 0; b < list.size(); ++b) {
      Batch const& batch = list[b];
      text += std::string("\n  ") + name + (batch.rmw == Rmw::add ? " (updates add)" : "");
      for (Operation const& o : batch.operations)
        text += std::string(" ") + kKinds[static_cast<int>(o.kind)] + " k" + std::to_string(o.key) +
                "=" + std::to_string(o.operand);
      if (b < how.size()) text += std::string("; ") + kStepping[static_cast<int>(how[b])];
    }
  };
  add("before:", filling, {});
  add("batch:", batches, stepping);
  return text;
}

void Scenario::add_key(std::size_t k, std::vector<std::byte>& to) const {
  constexpr std::size_t kAlikeBytes = 24;
  // No more than find room in a table of any size.
  std::size_t const long_alike = layout == Layout::log ? 3 : 2;
  std::uint64_t const number = keys[k], words[] = {number % 2, number, number, 0, number};
  if (key_bytes == 0 && k < kAlike) return add_alike(number, kAlikeBytes, to);
  if (key_bytes == kLongKey && k < long_alike) return add_alike(number, kLongKey, to);
  if (key_bytes == 0) {
    constexpr std::size_t kLengths[] = {9, 24, 17};
    auto const* const bytes = reinterpret_cast<std::byte const*>(words + 1);
    to.insert(to.end(), bytes, bytes + sizeof number);
    return to.resize(to.size() + kLengths[k % 3] - sizeof number);
  }
  bool const wide = key_bytes > sizeof number;
  auto const* const bytes = reinterpret_cast<std::byte const*>(wide ? words : &number);
  to.insert(to.end(), bytes, bytes + key_bytes);
}

std::size_t Scenario::find_key(void const* bytes, std::size_t n) const {
  std::vector<std::byte> key;
  for (std::size_t k = 0; k < kKeys; ++k, key.clear()) {
    add_key(k, key);
    if (n == key.size() && std::memcmp(key.data(), bytes, n) == 0) return k;
  }
  return kKeys;
}

void Scenario::add_value(std::uint64_t number, std::vector<std::byte>& to) const {
  constexpr std::uint64_t kLengths = 3;
  std::uint64_t const words = value_bytes == 0 ? 1 + number % kLengths : 1;
  for (std::uint64_t w = 0; w < words; ++w) {
    std::uint64_t const word = number + (w << 32);
    auto const* const bytes = reinterpret_cast<std::byte const*>(&word);
    to.insert(to.end(), bytes, bytes + sizeof word);
  }
}

std::optional<std::uint64_t> Scenario::find_value(void const* bytes, std::size_t n) const {
  std::uint64_t number = 0;
  if (n < sizeof number) return std::nullopt;
  std::memcpy(&number, bytes, sizeof number);
  std::vector<std::byte> value;
  add_value(number, value);
  bool const its = n == value.size() && std::memcmp(value.data(), bytes, n) == 0;
  return its ? std::optional(number) : std::nullopt;
}

std::vector<Answer> apply_but(std::vector<bool> const& refused, Batch const& batch,
                              Contents& contents) {
  Contents all = contents;
  auto answers = apply(batch, all);
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (refused[batch.operations[i].key]) answers[i] = {KeyStatus::no_space, 0};
  for (std::size_t k = 0; k < contents.size(); ++k)
    if (!refused[k]) contents[k] = all[k];
  return answers;
}

std::vector<Answer> apply(Batch const& batch, Contents& contents) {
  std::vector<Answer> answers;
  for (Operation const& o : batch.operations) {
    auto& held = contents[o.key];
    Answer answer{KeyStatus::ok, 0};
    if (o.kind != OpKind::put && !held) {
      answer.status = KeyStatus::not_found;
    } else if (o.kind == OpKind::get) {
      answer.value = *held;
    } else if (o.kind == OpKind::erase) {
      held.reset();
    } else if (o.kind == OpKind::update && batch.rmw == Rmw::add) {
      *held += o.operand;
    } else {
      held = o.operand;
    }
    answers.push_back(answer);
  }
  return answers;
}

}  // namespace perdure::explore
