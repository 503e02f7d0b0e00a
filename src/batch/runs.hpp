// Long runs of operations on one key, in pieces of 32, an operation a lane; pieces begin at
// multiples of 32 in `order`, and where the run does. What each comes to any warps sum up, each of
// another piece; one warp adds up these sums, 32 at a time; and then any warps answer the pieces.
// So no warp goes through all of a hot key's operations. Invariants: as of groups.hpp; a piece is
// answered from what its group comes to before it, and from nothing that another piece has been
// answered; a sum says nothing of who else has what operations of its run, so it counts only where
// all of them have one key.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "batch/folded.hpp"
#include "exec/bits.hpp"

namespace perdure {

#if defined(PERDURE_EXPLORE)  // whose batches have nine operations
inline constexpr std::uint64_t kLongRun = 2;
inline constexpr std::uint32_t kRunPiece = 3;
inline constexpr std::uint64_t kAnsweredApart = 1;
#else
inline constexpr std::uint64_t kLongRun = 32;
inline constexpr std::uint32_t kRunPiece = 32;
// operations of a batch; below it a launch more costs more than one warp's answers
inline constexpr std::uint64_t kAnsweredApart = std::uint64_t{1} << 14;
#endif
// A run's pieces are looked at so many at a time, for each waits for memory twice.
inline constexpr int kPiecesAhead = 4;

/// How many pieces the long runs of a batch have at most: each has as many as it fills, and two.
PERDURE_FN constexpr std::uint64_t most_pieces(std::uint64_t n) { return 3 * n / kRunPiece + 1; }

/// Operations of the piece that begins there.
PERDURE_FN constexpr std::uint32_t piece_size(std::uint64_t base) {
  return kRunPiece - static_cast<std::uint32_t>(base % kRunPiece);
}

/// Whether more than kLongRun operations have the hash of the one at j, which begins their run.
/// What computes (Rmw) goes operation by operation however many there are.
PERDURE_FN bool runs_long(BatchView const& batch, std::uint64_t j) {
  return batch.rmw == Rmw::replace && j + kLongRun < batch.n &&
         batch.order[j + kLongRun].hash == batch.order[j].hash;
}

/// What memory says of some operations side by side in `order`, a lane each. All loads of several
/// pieces are under way before a lane looks at what another has.
template <class W>
struct LoadedPiece {
  struct Lane {
    std::uint64_t operation = 0;
    bool in_run = false, pending = false, same = false;
    OpKind kind = OpKind::get;
  };
  typename W::template Each<Lane> lanes;

  /// Those from `base` on that have the key's hash.
  PERDURE_FN void load_order(W& warp, BatchView const& batch, std::uint64_t base,
                             KeyRef const& key) {
    warp.each([&](std::uint32_t lane) {
      Lane& l = lanes[lane];
      l = {};
      if (lane >= piece_size(base) || base + lane >= batch.n) return;
      exec::Sorted const at = batch.order[base + lane];
      l.in_run = at.hash == key.hash;
      if (l.in_run) l.operation = at.index;
    });
  }

  /// `j`: where the group begins.
  PERDURE_FN void load_operations(W& warp, BatchView const& batch, std::uint64_t base,
                                  std::uint64_t j, KeyRef const& key) {
    warp.each([&](std::uint32_t lane) {
      Lane& l = lanes[lane];
      if (!l.in_run) return;
      bool const first = base + lane == j;
      l.pending = first || batch.template pending<W>(l.operation);
      l.same = batch.keys.size(l.operation) == key.bytes &&
               (first || same_bytes(batch.keys.at(l.operation), key.data, key.bytes));
      l.kind = batch.kind_of(l.operation);
    });
  }
};

/// The group's value is now what this operation wrote.
PERDURE_FN void note_writer(BatchView const& batch, std::uint64_t writer, Folded& folded) {
  if (folded.changed && mutated("long_run_keeps_first_writer")) return;
  folded.changed = true;
  folded.writer = writer;
  folded.bytes = batch.values.size(writer);
}

/// Some operations of a group. Sets of lanes are masks.
template <class W>
class RunPiece {
 public:
  /// `before` is what the group comes to without them.
  PERDURE_FN RunPiece(W& warp, LoadedPiece<W> const& loaded, std::uint64_t base,
                      Folded const& before) {
    auto const those = [&](auto of) {
      return warp.ballot([&](std::uint32_t lane) { return of(loaded.lanes[lane]); });
    };
    using Lane = typename LoadedPiece<W>::Lane;
    ends_ = exec::popcount(those([](Lane const& l) { return l.in_run; })) < piece_size(base);
    one_key_ = those([](Lane const& l) { return l.in_run && !l.same; }) == 0;
    warp.each([&](std::uint32_t lane) { operation_[lane] = loaded.lanes[lane].operation; });
    members_ = those([](Lane const& l) { return l.pending && l.same; });
    others_ = those([](Lane const& l) { return l.pending && !l.same; }) != 0;
    puts_ = those([](Lane const& l) { return l.kind == OpKind::put; }) & members_;
    gets_ = those([](Lane const& l) { return l.kind == OpKind::get; }) & members_;
    std::uint32_t const updates =
        those([](Lane const& l) { return l.kind == OpKind::update; }) & members_;
    // puts and erasures say whether the key is there
    std::uint32_t const sets = members_ & ~gets_ & ~updates;
    live_ = warp.ballot([&](std::uint32_t lane) {
      std::uint32_t const earlier = sets & below(lane);
      bool const there = earlier == 0 ? before.present : in(puts_, exec::highest_bit(earlier));
      return in(members_, lane) && there;
    });
    writes_ = puts_ | (updates & live_);
    there_after_ = sets == 0 ? before.present : in(puts_, exec::highest_bit(sets));
    std::uint32_t const unwritten = writes_ == 0 ? ~0u : below(exec::lowest_bit(writes_));
    stored_gets_ = before.changed ? 0 : gets_ & live_ & unwritten;
  }

  [[nodiscard]] PERDURE_FN bool ends() const { return ends_; }
  /// The group's, of all operations that have its hash.
  [[nodiscard]] PERDURE_FN bool has_one_key() const { return one_key_; }
  [[nodiscard]] PERDURE_FN std::uint32_t members() const { return members_; }
  [[nodiscard]] PERDURE_FN std::uint64_t operation(std::uint32_t lane) const {
    return operation_[lane];
  }
  [[nodiscard]] PERDURE_FN KeyStatus status(std::uint32_t lane) const {
    return in(puts_ | live_, lane) ? KeyStatus::ok : KeyStatus::not_found;
  }
  /// Gets that are answered with the value that was there before the batch, and with one of the
  /// batch's.
  [[nodiscard]] PERDURE_FN std::uint32_t stored_gets() const { return stored_gets_; }
  [[nodiscard]] PERDURE_FN std::uint32_t fresh_gets() const {
    return gets_ & live_ & ~stored_gets_;
  }

  /// By lane: the last operation before it that wrote the value.
  [[nodiscard]] PERDURE_FN typename W::template Each<std::uint64_t> writers(
      W& warp, Folded const& before) const {
    typename W::template Each<std::uint32_t> from;
    warp.each([&](std::uint32_t lane) {
      std::uint32_t const earlier = writes_ & below(lane);
      from[lane] = earlier == 0 ? lane : exec::highest_bit(earlier);
    });
    auto writer = warp.shuffle(operation_, from);
    warp.each([&](std::uint32_t lane) {
      if ((writes_ & below(lane)) == 0) writer[lane] = before.writer;
    });
    return writer;
  }

  /// What the group comes to with these operations.
  PERDURE_FN void fold(W& warp, BatchView const& batch, Folded& folded) const {
    ++folded.pieces;
    folded.gives |= stored_gets_ != 0;
    folded.others_wait |= others_;
    folded.present = there_after_;
    if (writes_ != 0)
      note_writer(batch, warp.broadcast(operation_, exec::highest_bit(writes_)), folded);
  }

 private:
  PERDURE_FN static bool in(std::uint32_t mask, std::uint32_t lane) {
    return (mask >> lane & 1) != 0;
  }
  PERDURE_FN static std::uint32_t below(std::uint32_t lane) { return (1u << lane) - 1; }

  typename W::template Each<std::uint64_t> operation_;
  std::uint32_t members_, puts_, gets_, live_, writes_, stored_gets_;
  bool ends_, one_key_, others_, there_after_;
};

// ------------------------------------------------------------------------------------------------
// Sums

/// What a piece comes to that goes on with the run before it. Of other pieces memory has anything,
/// and lanes look at it beside those that count: so what is true or false is a byte here.
struct PieceSum {
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};
  /// Where its key was there before, or was not.
  struct Case {
    std::uint64_t writer = kNobody;  // the last that changed the value
    std::uint8_t present = 0;  // the key is there afterwards
    std::uint8_t gives = 0;  // a get is answered with the value that was there before
  };
  Case there, absent;
  std::uint8_t one_key = 0;  // all have that of the operation before the piece; else nothing counts
  std::uint8_t ends = 0;  // no operation behind it is of its run
};

/// Sums up each piece that goes on with the run before it.
struct SumPiecesBody {
  static constexpr int kStages = 1;
  BatchView batch;
  template <class W>
  struct State {};

  [[nodiscard]] std::uint64_t items() const { return batch.n / kRunPiece + 1; }

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>&, exec::Counts&) const {
    std::uint64_t const base = item * kRunPiece;
    if (base == 0 || base >= batch.n) return;
    exec::Sorted const before = batch.order[base - 1];
    if (before.hash != batch.order[base].hash) return;
    KeyRef const key{batch.keys.at(before.index), batch.keys.size(before.index), before.hash};
    std::uint64_t const behind = base + kRunPiece;
    LoadedPiece<W> loaded;
    loaded.load_order(warp, batch, base, key);
    loaded.load_operations(warp, batch, base, base - 1, key);
    PieceSum sum;
    sum.ends = behind >= batch.n || batch.order[behind].hash != key.hash;
    sum.there = sum_up(warp, loaded, base, true, sum.one_key);
    sum.absent = sum_up(warp, loaded, base, false, sum.one_key);
    warp.elect([&] {
      batch.sums[item] = sum;
      return std::uint64_t{0};
    });
  }

 private:
  template <class W>
  PERDURE_FN PieceSum::Case sum_up(W& warp, LoadedPiece<W> const& loaded, std::uint64_t base,
                                   bool there, std::uint8_t& one_key) const {
    Folded folded(there, 0);
    RunPiece<W> const piece(warp, loaded, base, folded);
    one_key = piece.has_one_key();
    piece.fold(warp, batch, folded);
    return {folded.changed ? folded.writer : PieceSum::kNobody,
            static_cast<std::uint8_t>(folded.present), static_cast<std::uint8_t>(folded.gives)};
  }
};

// ------------------------------------------------------------------------------------------------
// A group, piece by piece

/// The next pieces of the group that begins at j, from `base` on. True: the run has ended.
template <int kPieces, class W, class F>
PERDURE_FN bool for_next_pieces(W& warp, BatchView const& batch, std::uint64_t j,
                                std::uint64_t& base, KeyRef const& key, Folded& folded,
                                bool& one_key, F f) {
  LoadedPiece<W> loaded[kPieces];
  std::uint64_t bases[kPieces];
  for (int a = 0; a < kPieces; ++a, base += piece_size(base)) {
    bases[a] = base;
    loaded[a].load_order(warp, batch, base, key);
  }
  for (int a = 0; a < kPieces; ++a) loaded[a].load_operations(warp, batch, bases[a], j, key);
  for (int a = 0; a < kPieces; ++a) {
    RunPiece<W> const piece(warp, loaded[a], bases[a], folded);
    one_key = piece.has_one_key();
    f(piece, bases[a], folded);
    piece.fold(warp, batch, folded);
    if (piece.ends()) return true;
  }
  return false;
}

/// Sums of pieces side by side, a lane each.
template <class W>
class SumsOfPieces {
 public:
  PERDURE_FN SumsOfPieces(W& warp, BatchView const& batch, std::uint64_t base) {
    warp.each([&](std::uint32_t lane) {
      std::uint64_t const item = base / kRunPiece + lane;
      if (item * kRunPiece < batch.n) sums_[lane] = batch.sums[item];
    });
    std::uint32_t const ends = warp.ballot(
        [&](std::uint32_t lane) { return sums_[lane].ends != 0 || sums_[lane].one_key == 0; });
    several_keys_ = warp.ballot([&](std::uint32_t lane) { return sums_[lane].one_key == 0; });
    std::uint32_t const last = ends == 0 ? W::kLanes : exec::lowest_bit(ends);
    ends_ = ends != 0 && !in(several_keys_, last);
    n_ = last + (ends_ ? 1 : 0);
    several_keys_ = ends == 0 || ends_ ? 0 : several_keys_;
  }

  /// So many of them count.
  [[nodiscard]] PERDURE_FN std::uint32_t n() const { return n_; }
  /// The run ends with them; or the piece behind them has several keys.
  [[nodiscard]] PERDURE_FN bool ends() const { return ends_; }
  [[nodiscard]] PERDURE_FN bool precede_several_keys() const { return several_keys_ != 0; }

  /// By lane, what the group comes to before that piece. `folded`: before all of them; and then,
  /// with them.
  [[nodiscard]] PERDURE_FN typename W::template Each<Folded> add_to(W& warp, BatchView const& batch,
                                                                    Folded& folded) const {
    using Case = PieceSum::Case;
    std::uint32_t const those = n_ == W::kLanes ? ~0u : below(n_);
    // whatever was before
    std::uint32_t const sets = those & warp.ballot([&](std::uint32_t lane) {
      return sums_[lane].there.present == sums_[lane].absent.present;
    });
    std::uint32_t const puts =
        warp.ballot([&](std::uint32_t lane) { return sums_[lane].there.present != 0; });
    auto const present_before = [&](std::uint32_t earlier) {
      return earlier == 0 ? folded.present : in(puts, exec::highest_bit(earlier));
    };
    typename W::template Each<Case> is;
    typename W::template Each<std::uint64_t> writer;
    warp.each([&](std::uint32_t lane) {
      bool const there = present_before(sets & below(lane));
      is[lane] =
          there && !mutated("piece_summed_as_absent") ? sums_[lane].there : sums_[lane].absent;
      writer[lane] = is[lane].writer;
    });
    std::uint32_t const writes = those & warp.ballot([&](std::uint32_t lane) {
      return is[lane].writer != PieceSum::kNobody;
    });
    typename W::template Each<std::uint32_t> from;
    warp.each([&](std::uint32_t lane) {
      std::uint32_t const earlier = writes & below(lane);
      from[lane] = earlier == 0 ? lane : exec::highest_bit(earlier);
    });
    auto const last = warp.shuffle(writer, from);
    typename W::template Each<Folded> before;
    warp.each([&](std::uint32_t lane) {
      before[lane] = folded;
      before[lane].present = present_before(sets & below(lane));
      if ((writes & below(lane)) != 0) note_writer(batch, last[lane], before[lane]);
    });
    folded.gives |= (those & warp.ballot([&](std::uint32_t lane) {
                      return is[lane].gives != 0 && !before[lane].changed;
                    })) != 0;
    folded.pieces += n_;
    folded.present = present_before(sets);
    if (writes != 0) note_writer(batch, warp.broadcast(writer, exec::highest_bit(writes)), folded);
    return before;
  }

 private:
  PERDURE_FN static bool in(std::uint32_t mask, std::uint32_t lane) {
    return (mask >> lane & 1) != 0;
  }
  PERDURE_FN static std::uint32_t below(std::uint32_t lane) { return (1u << lane) - 1; }

  typename W::template Each<PieceSum> sums_;
  std::uint32_t n_ = 0, several_keys_ = 0;
  bool ends_ = false;
};

/// Pieces that have sums, from `base` on. True: the run has ended; else a piece at `base` has
/// several keys.
template <class W, class G>
PERDURE_FN bool for_sums(W& warp, BatchView const& batch, std::uint64_t& base, KeyRef const& key,
                         Folded& folded, G g) {
  PERDURE_ASSERT(!kCostlyAssertions || base % kRunPiece == 0);
  if (base >= batch.n || batch.order[base].hash != key.hash) return true;
  for (;;) {
    SumsOfPieces<W> const sums(warp, batch, base);
    g(base, sums.add_to(warp, batch, folded), sums.n());
    base += std::uint64_t{sums.n()} * kRunPiece;
    if (sums.ends()) return true;
    if (sums.precede_several_keys()) return false;
  }
}

/// Goes through the group that begins at j, and returns what it comes to. Calls f(piece, its first
/// position, what the group comes to before it) piece by piece; but g(the first one's position,
/// what the group comes to before each, how many), a lane each, of pieces that have sums.
template <class W, class F, class G>
PERDURE_FN Folded for_pieces(W& warp, BatchView const& batch, std::uint64_t j, KeyRef const& key,
                             Folded folded, F f, G g) {
  std::uint64_t base = j;
  bool one_key = true;
  if (batch.sums != nullptr) {
    if (for_next_pieces<1>(warp, batch, j, base, key, folded, one_key, f)) return folded;
    if (one_key && for_sums(warp, batch, base, key, folded, g)) return folded;
  }
  while (!for_next_pieces<kPiecesAhead>(warp, batch, j, base, key, folded, one_key, f)) {
  }
  return folded;
}

// ------------------------------------------------------------------------------------------------
// Answers

/// A piece that is to be answered.
struct PieceToAnswer {
  std::uint64_t j = 0;  // where its group begins
  std::uint64_t base = 0;  // and itself
  Folded before;  // what its group comes to before it
  std::byte const* stored = nullptr;  // the value that was there before the batch
  std::uint32_t stored_bytes = 0;
  bool damaged = false;  // that value
  bool gets = true;  // have values, not only statuses
};

template <class W>
PERDURE_FN void answer_piece(W& warp, BatchView const& batch, std::uint32_t value_bytes,
                             RunPiece<W> const& piece, Folded const& before,
                             PieceToAnswer const& of, exec::Counts& counts) {
  std::uint32_t const corrupt = of.damaged ? piece.stored_gets() : 0;
  counts[BatchCounts::corrupt] += exec::popcount(corrupt);
  if (of.gets) {
    auto const to = [&](std::uint32_t lane) {
      return batch.out + piece.operation(lane) * value_bytes;
    };
    warp.copy_each(
        piece.stored_gets() & ~corrupt,
        of.stored_bytes < value_bytes ? of.stored_bytes : value_bytes, to,
        [&](std::uint32_t) { return of.stored; }, nullptr);
    auto const writers = piece.writers(warp, before);
    warp.copy_each(
        piece.fresh_gets(), value_bytes, to,
        [&](std::uint32_t lane) { return batch.values.at(writers[lane]); }, nullptr);
  }
  warp.each([&](std::uint32_t lane) {
    if ((piece.members() >> lane & 1) == 0) return;
    std::uint64_t const i = piece.operation(lane);
    batch.status[i] = static_cast<std::uint8_t>((corrupt >> lane & 1) != 0 ? KeyStatus::corrupt
                                                                           : piece.status(lane));
    W::store(batch.decided + i, batch.pass);
  });
}

/// Answers the pieces that a launch before has listed.
struct AnswerPiecesBody {
  static constexpr int kStages = 1;
  BatchView batch;
  std::uint32_t value_bytes;  // of an element of `out`; 0 = sizes vary
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>&, exec::Counts& counts) const {
    if (item >= *batch.pieces_count) return;
    PieceToAnswer const of = batch.pieces[item];
    PERDURE_ASSERT(!kCostlyAssertions || (of.j <= of.base && of.base < batch.n + kRunPiece));
    std::uint64_t const i = batch.order[of.j].index;
    KeyRef const key{batch.keys.at(i), batch.keys.size(i), batch.order[of.j].hash};
    LoadedPiece<W> loaded;
    loaded.load_order(warp, batch, of.base, key);
    loaded.load_operations(warp, batch, of.base, of.j, key);
    answer_piece(warp, batch, value_bytes, RunPiece<W>(warp, loaded, of.base, of.before), of.before,
                 of, counts);
  }
};

}  // namespace perdure
