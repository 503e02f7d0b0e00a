// Values by logs against a plain map: over reopenings, collections and crashes.
#include "pm/value_log/value_log.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "units/value_log_store.hpp"

namespace perdure::pm {
namespace {

Operation any_operation() {
  auto const kind = *rc::gen::weightedElement<OpKind>(
      {{6, OpKind::put}, {3, OpKind::erase}, {2, OpKind::update}, {1, OpKind::get}});
  std::string const key = key_of(*rc::gen::inRange<std::size_t>(0, 12));
  // Some are so long that a few fill a segment.
  auto const size =
      *rc::gen::weightedOneOf<std::size_t>({{4, rc::gen::inRange<std::size_t>(0, 100)},
                                            {1, rc::gen::inRange<std::size_t>(60'000, 90'000)}});
  char const with = *rc::gen::inRange('a', 'z');
  return {kind, key, kind == OpKind::erase ? "" : std::string(size, with)};
}

/// What a crash may have left, of words that were stored between two ordering points.
Image any_mix(Image const& before, Image const& after) {
  Image mixed = after;
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  auto const keep = *rc::gen::element(1u, 2u, 8u);  // one word in so many is lost
  for (std::size_t at = 0; at < before.size(); at += 8)
    if (random() % keep == 0) std::memcpy(mixed.data() + at, before.data() + at, 8);
  return mixed;
}

RC_GTEST_PROP(ValueLog, KeepsWhatWasWrittenOverCrashesAndCollections, ()) {
  auto store = std::make_unique<LogStore>(small_segments(0));
  Model model;
  int const rounds = *rc::gen::inRange(1, 6);
  for (int round = 0; round < rounds; ++round) {
    auto const operations =
        *rc::gen::container<std::vector<Operation>>(rc::gen::exec(any_operation));
    Outcome const asked = run(*store, operations);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      bool const there = model.contains(operations[i].key);
      bool const found = there || operations[i].kind == OpKind::put;
      RC_ASSERT(asked.statuses[i] == (found ? KeyStatus::ok : KeyStatus::not_found));
      Asked::apply(operations[i], model);
    }
    RC_ASSERT(store->contents() == model);
    if (*rc::gen::arbitrary<bool>()) store->log->collector().collect_queued();
    RC_ASSERT(store->contents() == model);
    bool const orderly = *rc::gen::arbitrary<bool>();
    if (orderly) store->log->close();
    store = std::make_unique<LogStore>(store->image(), small_segments(0));
    RC_ASSERT(store->recovered.damage.empty());
    RC_ASSERT(store->recovered.current == model.size());
    RC_ASSERT(store->contents() == model);
  }
}

RC_GTEST_PROP(ValueLog, APieceThatWasCutTookEffectOperationByOperation, ()) {
  LogStore store(small_segments(0));
  auto const earlier = *rc::gen::container<std::vector<Operation>>(rc::gen::exec(any_operation));
  run(store, earlier);
  Model const model = store.contents();
  Image before = store.image();
  // One piece: keys that differ.
  std::vector<Operation> piece;
  for (std::size_t i = 0; i < 12; ++i) {
    piece.push_back(any_operation());
    piece.back().key = key_of(i);
    piece.back().value.resize(std::min<std::size_t>(piece.back().value.size(), 30'000));
  }
  run(store, piece);
  Image after = store.image();
  before.resize(after.size());
  // New superblocks are the root's matter, which has its own tests.
  std::memcpy(before.data(), after.data(), kMinSuperblock);
  // Nor is any header torn, save its state: it is ordered before anything else of its segment.
  for (std::size_t at = kMinSuperblock; at < after.size(); at += kMinSuperblock) {
    constexpr std::size_t kState = offsetof(LogSegmentHeader, state);
    std::memcpy(before.data() + at, after.data() + at, kState);
    std::memcpy(before.data() + at + kState + 8, after.data() + at + kState + 8,
                kFirstLogRecord - kState - 8);
    // One is sealed only once its records are ordered.
    std::uint64_t word = 0;
    LogState state;
    std::memcpy(&word, after.data() + at + kState, 8);
    if (LogState::parse(word, state) && state.use == LogState::Use::sealed)
      std::memcpy(after.data() + at + kState, before.data() + at + kState, 8);
  }

  LogStore reopened(any_mix(before, after), small_segments(0));
  RC_ASSERT(reopened.recovered.damage.empty());
  Model const found = reopened.contents();
  for (Operation const& each : piece) {
    Model taken = model;
    Asked::apply(each, taken);
    auto const of = [&](Model const& m) {
      auto const it = m.find(each.key);
      return it == m.end() ? std::optional<std::string>() : it->second;
    };
    RC_ASSERT(of(found) == of(model) || of(found) == of(taken));
  }
  // And again: what was torn is passed over, for good.
  reopened.log->close();
  LogStore again(reopened.image(), small_segments(0));
  RC_ASSERT(again.recovered.damage.empty());
  RC_ASSERT(again.contents() == found);
}

}  // namespace
}  // namespace perdure::pm
