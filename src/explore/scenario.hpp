// What a run does, and what must come of it: batches over a handful of colliding keys on a table of
// a handful of slots, all of it made from one seed; and the plain model that says what each
// operation answers and which contents a crash may leave.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explore/history.hpp"
#include "explore/sim_engines.hpp"
#include "perdure/store.h"

namespace perdure::explore {

inline constexpr std::size_t kKeys = 14;
inline constexpr std::uint32_t kWideKey = 20;  // bytes: entries of two parts, zeros behind the key
inline constexpr std::uint32_t kLongKey = 40;  // bytes: an entry has its hash
inline constexpr std::size_t kAlike = 6;
using Contents = std::array<std::optional<std::uint64_t>, kKeys>;

struct Operation {
  OpKind kind;
  std::uint32_t key;  // index into Scenario::keys
  std::uint64_t operand;
};

struct Batch {
  std::vector<Operation> operations;
  Rmw rmw = Rmw::replace;
  bool by_put = false;  // they are puts, in one call that says so
};

/// How a run's batches are written.
enum class Writing : std::uint8_t {
  plainly,
  atomically,
  in_one_transaction,
  in_one_aborted,
  after_an_abort,  // all but the last batch in a transaction that aborts, the last one plainly
  in_device_sessions,
  in_steps
};

/// Of a batch that is written in_steps, as a transaction: where in it the step comes, and how it
/// ends. taken_back: after its commit.
enum class Stepping : std::uint8_t { after_batch, before_batch, not_at_all, aborted, taken_back };

struct Scenario {
  std::uint64_t seed;
  Layout layout;
  Shape shape;
  Machine machine;
  Writing writing;
  bool grows;  // in the run; before it, always
  bool roomy = false;  // room for the run's transactions is made before it
  std::uint64_t superblocks;  // that the medium has room for; 0 = for all that are asked for
  std::array<std::uint64_t, kKeys> keys;
  std::uint32_t key_bytes;  // 8, kWideKey, kLongKey, or 0: keys of several lengths
  std::uint32_t value_bytes;  // 8, or 0: values of several lengths
  std::vector<Batch> filling;  // before the run, and not explored
  std::vector<Batch> batches;
  std::vector<Stepping> stepping;  // of each of them
  bool revertible = false;  // they can be taken back
  [[nodiscard]] std::string describe() const;
  /// Adds the bytes of key number k. Wide ones have the number behind their first 8 bytes, which
  /// they share with others. Of long keys the first few have one hash, of keys of several lengths
  /// the first kAlike.
  void add_key(std::size_t k, std::vector<std::byte>& to) const;
  /// Which key these bytes are; kKeys: none.
  [[nodiscard]] std::size_t find_key(void const* bytes, std::size_t n) const;
  /// Adds the bytes of a value. Its number says how many there are, where that varies.
  void add_value(std::uint64_t number, std::vector<std::byte>& to) const;
  /// Which value these bytes are, to the last of them.
  [[nodiscard]] std::optional<std::uint64_t> find_value(void const* bytes, std::size_t n) const;
};

/// Bounds of what is drawn.
struct Bounds {
  std::uint32_t warps = 3;
  std::uint32_t operations = 9;  // of a batch: 3 a warp
  std::uint32_t batches = 3;
  bool atomic = false;  // batches are atomic, or make up one transaction
  bool mirrored = false;  // probes go to a mirror of the slots
  bool full_medium = false;  // tables soon find no room to grow
  bool cached = false;  // a bucket cache, or a record cache, loaded before each batch
  bool steps = false;  // each batch is a transaction that writes a step of dense buffers
  bool revertible = false;  // of steps: they can be taken back, and some are
  bool power = false;  // durability power: a log, checkpoints and snapshots on a disk
  // batches are device sessions: each warp its own operations, one after the other
  bool device_ops = false;
  bool wide_keys = false;  // of kWideKey bytes
  bool any_keys = false;  // of several lengths, some of equal hashes
  bool long_keys = false;  // of kLongKey bytes, some of equal hashes
  bool any_values = false;  // of several lengths
  bool repair = false;  // openings that repair what is damaged
};

[[nodiscard]] Scenario make_scenario(std::uint64_t seed, Layout layout, Bounds const& bounds);

struct Answer {
  KeyStatus status;
  std::uint64_t value;  // of a get that found something
};

/// Carries out the batch on the plain model.
std::vector<Answer> apply(Batch const& batch, Contents& contents);
/// The same where some keys found no room: all their operations, none of which took effect.
std::vector<Answer> apply_but(std::vector<bool> const& refused, Batch const& batch,
                              Contents& contents);

/// A device session: what each operation of its batch came to. Warp s has operations s, s + warps,
/// ... and, after each, writes how many it has had acknowledged into the medium's word acknowledged
/// + s.
struct SessionSeen {
  std::vector<std::uint32_t> keys;
  std::vector<Seen> seen;
  std::uint32_t warps = 1;
  std::uint32_t acknowledged = 0;
};

/// What taking the last commit back brings: contents, and the step that they are of.
struct Back {
  Contents contents;
  std::optional<std::uint64_t> step;
};

/// What a crash may leave of each key: `old`, or `fresh` of the batch in flight; of a device
/// session, whatever an order of its operations explains in which those that had been acknowledged
/// took effect.
struct Oracle {
  Contents old, fresh;
  bool whole = false;  // an atomic batch: all keys old, or all fresh
  bool may_refuse = false;  // the pool is being made: it may not open at all
  std::optional<SessionSeen> session = {};
  // Number of the step that the dense buffers are of; it goes with the contents.
  std::optional<std::uint64_t> old_step = {}, fresh_step = {};
  // What each of the two goes back to, if it can be taken back; `kept`: or not any more.
  std::optional<Back> old_back = {}, fresh_back = {};
  bool kept = false;
};

}  // namespace perdure::explore
