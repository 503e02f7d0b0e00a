#include "explore/repair/damaged_session.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <span>

#include "explore/judging.hpp"
#include "explore/pool_identity.hpp"
#include "explore/states.hpp"
#include "pm/pool_format.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint64_t kHeaderWords = 8;  // of a superblock of any kind

/// Draws one after the other.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t n) { return (state_ = mix(state_, ++drawn_)) % n; }

 private:
  std::uint64_t state_, drawn_ = 0;
};

Status write_plainly(Store& store, Scenario const& scenario, Batch const& batch, bool atomic,
                     WrittenSession& session) {
  Columns columns(scenario, batch);
  CallOptions how;
  how.atomic = atomic;
  if (Status s = columns.apply(store, how); !s.ok()) return s;
  session.states.push_back(session.note(batch, session.states.back()));
  return {};
}

enum class TransactionEnd : std::uint8_t { commits, aborts, stays_open };

Status write_together(Store& store, Scenario const& scenario, std::span<Batch const> batches,
                      TransactionEnd end, Arena const& a, WrittenSession& session, Image& left) {
  TransactionOptions options;
  options.max_operations = 0;
  for (Batch const& batch : batches) options.max_operations += batch.operations.size();
  auto transaction = store.begin(options);
  if (!transaction) return transaction.status();
  CallOptions how;
  how.transaction = &*transaction;
  Contents after = session.states.back();
  for (Batch const& batch : batches) {
    Columns columns(scenario, batch);
    Status const s = columns.apply(store, how);  // without room for it none of it counts
    if (!s.ok() && s.code() != Code::no_space) return s;
    if (s.ok()) after = session.note(batch, after);
  }
  if (end == TransactionEnd::stays_open) left = a.snapshot_since(0);
  if (end != TransactionEnd::commits) return transaction->abort();
  session.states.push_back(after);
  return transaction->commit();
}

/// The scenario's batches, in its way; `left` is the pool as a kill leaves it, if one comes before
/// the end.
Status write_batches(Store& store, Scenario const& scenario, Arena const& a,
                     WrittenSession& session, Image& left) {
  std::span<Batch const> batches = scenario.batches;
  auto const together = [&](std::span<Batch const> some, TransactionEnd end) {
    return write_together(store, scenario, some, end, a, session, left);
  };
  switch (scenario.writing) {
    case Writing::in_one_transaction: return together(batches, TransactionEnd::commits);
    case Writing::in_one_aborted: return together(batches, TransactionEnd::aborts);
    case Writing::after_an_abort:
      if (Status s = together(batches.first(batches.size() - 1), TransactionEnd::aborts); !s.ok())
        return s;
      return write_plainly(store, scenario, batches.back(), false, session);
    default: break;
  }
  bool const open_at_last = session.ending == Ending::killed_in_a_transaction;
  for (Batch const& batch : batches.first(batches.size() - (open_at_last ? 1 : 0)))
    if (Status s =
            write_plainly(store, scenario, batch, scenario.writing == Writing::atomically, session);
        !s.ok())
      return s;
  return open_at_last ? together(batches.last(1), TransactionEnd::stays_open) : Status{};
}

Status made_pool(Arena& a, Scenario const& scenario) {
  CreateOptions create;
  create.key_bytes = scenario.key_bytes;
  create.value_bytes = scenario.value_bytes;
  create.expected_records = 1;
  create.layout = scenario.layout;
  create.shape = scenario.shape;
  auto store = Store::create(kArenaPath, create, repair_options(false));
  if (!store) return store.status();
  if (Status s = store->close(); !s.ok()) return s;
  without_chance(a);
  return {};
}

Ending draw_ending(Scenario const& scenario) {
  if (scenario.layout != Layout::log) return Ending::closed;  // a repair goes by what a close left
  std::uint64_t const dice = mix(scenario.seed, 1) % 8;
  return dice < 4 ? Ending::closed : dice < 7 ? Ending::killed : Ending::killed_in_a_transaction;
}

}  // namespace

Contents WrittenSession::note(Batch const& batch, Contents contents) {
  for (Operation const& o : batch.operations) {
    Batch const one{{o}, batch.rmw, batch.by_put};
    explore::apply(one, contents);
    if (contents[o.key]) written[o.key].insert(*contents[o.key]);
  }
  return contents;
}

bool WrittenSession::were(Contents const& contents) const {
  return std::ranges::count(states, contents) != 0;
}

OpenOptions repair_options(bool repair) {
  OpenOptions o;
  o.threads = 1;
  o.repair = repair;
  o.memory.residency = machine.mirrored ? Residency::mirrored : Residency::pm;
  return o;
}

std::optional<std::string> write_session(Arena& a, Scenario const& scenario,
                                         WrittenSession& session) {
  session = {};
  session.ending = draw_ending(scenario);
  if (Status s = made_pool(a, scenario); !s.ok()) return "create: " + s.message();
  Image left;
  std::uint64_t file_bytes = 0;
  {
    auto store = Store::open(kArenaPath, repair_options(false));
    if (!store) return "open: " + store.status().message();
    for (Batch const& batch : scenario.filling)
      if (Status s = write_plainly(*store, scenario, batch, false, session); !s.ok())
        return "a batch: " + s.message();
    if (Status s = write_batches(*store, scenario, a, session, left); !s.ok())
      return "a batch: " + s.message();
    if (session.ending == Ending::closed) {
      if (Status s = store->close(); !s.ok()) return "close: " + s.message();
    }
    if (left.empty()) left = a.snapshot_since(0);
    file_bytes = a.file_bytes;
  }
  a.undo_to(0);
  a.file_bytes = file_bytes;
  for (auto const& [word, value] : left) a.set(word, value);
  return std::nullopt;
}

std::vector<Flip> draw_damage(Arena const& a, std::uint64_t random) {
  constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
  std::uint64_t const each = pm::kMinSuperblock / kWordBytes;
  std::map<std::uint64_t, std::vector<std::uint32_t>> in_use;  // by superblock
  for (auto const& [word, value] : a.snapshot_since(0)) {
    std::uint64_t const at = word * kWordBytes;
    bool const noted = at >= pm::kEpochOffset && at < pm::kChangeWordOffset;
    if (value != 0 && (word >= each || noted)) in_use[word / each].push_back(word);
  }
  Draws draws(random);
  auto const some_word = [&] {
    auto const& words =
        std::next(in_use.begin(), static_cast<std::ptrdiff_t>(draws.below(in_use.size())))->second;
    std::uint32_t const word = words[draws.below(words.size())];
    std::uint64_t const dice = draws.below(8);
    if (dice == 0 && word >= each)  // a header's, though it may be zero
      return static_cast<std::uint32_t>(word / each * each + draws.below(kHeaderWords));
    return dice == 1 ? word + 1 : word;
  };
  auto const bit = [&] { return std::uint64_t{1} << draws.below(64); };
  std::vector<Flip> damage;
  switch (draws.below(8)) {
    case 0:
    case 1: damage = {{some_word(), bit()}}; break;
    case 2:
    case 3: damage = {{some_word(), bit()}, {some_word(), bit()}}; break;
    case 4: damage = {{some_word(), bit() | bit()}}; break;
    case 5: damage = {{some_word(), bit() | bit() | bit()}, {some_word(), bit()}}; break;
    default: damage = {{some_word(), draws.below(~std::uint64_t{0}) | 1}};
  }
  return damage;
}

std::string described(std::vector<Flip> const& damage, Ending ending) {
  std::string text = ending == Ending::closed   ? "\n  closed"
                     : ending == Ending::killed ? "\n  killed"
                                                : "\n  killed in a transaction";
  for (Flip const& flip : damage)
    text += "; of the word at byte " + std::to_string(std::uint64_t{flip.word} * 8) + " " +
            std::to_string(std::popcount(flip.bits)) + " bits flipped (mask " +
            std::to_string(flip.bits) + ")";
  return text;
}

}  // namespace perdure::explore
