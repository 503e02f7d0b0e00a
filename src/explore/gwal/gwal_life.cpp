#include "explore/gwal/gwal_life.hpp"

#include <utility>

#include "pm/host_verbs.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint32_t kOperandsAfterRecovery = 1000;  // operands that runs do not write
constexpr std::size_t kMostGenerations = 6;

}  // namespace

GwalStep GwalLife::further(GwalStep::Kind kind, std::uint32_t key) {
  return {kind, false, {{GwalOp::Kind::merge, key, kOperandsAfterRecovery}}};
}

void GwalLife::drop() {
  generations_.clear();
  log_.reset();
  writable_ = false;
  next_request_ = 1;
}

GwalLife::Wrong GwalLife::open(GwalContents& found) {
  auto log = world_.open_log();
  if (!log.ok()) return "the log does not open: " + log.status().message();
  GwalRocks const there = world_.rocks();
  auto recovered = log.value()->recover(there.sequence);
  if (!recovered.ok()) return "the log is not recovered: " + recovered.status().message();
  log_ = std::move(log).value();
  found = there.contents;
  for (lsm::GwalRecovered& r : recovered.value()) {
    if (Totals* const t = world_.counted())
      ++(r.found.discarded ? t->gwal.discarded : t->gwal.replayed);
    if (r.found.discarded) continue;
    Generation& generation = generations_.emplace_back();
    generation.segment = std::move(r.segment);
    for (lsm::GwalRecord const& record : r.records) {
      if (record.first_request != next_request_ && next_request_ != 1)
        return "request " + std::to_string(record.first_request) + " follows " +
               std::to_string(next_request_ - 1);
      next_request_ = record.first_request + record.requests;
      for (std::uint64_t i = 0; i < record.requests; ++i) {
        GwalOp const op = gwal_op(pm::load_word(record.payload.data() + i * 8));
        generation.ops.push_back(op);
        found.apply(op);
      }
    }
  }
  return std::nullopt;
}

GwalLife::Wrong GwalLife::seal() {
  writable_ = false;
  if (generations_.size() >= kMostGenerations) return std::nullopt;
  auto segment = log_->begin(0);
  if (!segment.ok()) return "a segment cannot be begun: " + segment.status().message();
  generations_.push_back({std::move(segment).value(), {}, {}, false});
  writable_ = true;
  return std::nullopt;
}

GwalLife::Wrong GwalLife::make_room(std::uint64_t bytes) {
  for (;;) {
    lsm::GwalRoom const room = log_->make_room(bytes);
    if (room == lsm::GwalRoom::there) return std::nullopt;
    if (room == lsm::GwalRoom::never || generations_.empty())
      return "a log that needs nothing that it holds has no room";
    if (Wrong wrong = hand_over()) return wrong;
  }
}

GwalLife::Wrong GwalLife::write(GwalStep const& step) {
  std::uint64_t const bytes = step.ops.size() * 8;
  if (Wrong wrong = make_room(bytes)) return wrong;
  auto room = writable_ ? generations_.back().segment->reserve(bytes) : Status{Code::no_space, ""};
  if (room.status().code() == Code::no_space) {
    if (Wrong wrong = seal()) return wrong;
    if (!writable_) return std::nullopt;
    room = generations_.back().segment->reserve(bytes);
  }
  if (!room.ok()) return "there is no room: " + room.status().message();
  Generation& generation = generations_.back();
  GwalContents const old = world_.contents();
  GwalContents contents = old;
  for (GwalOp const& op : step.ops) contents.apply(op);
  world_.expect(old, contents);
  for (std::size_t i = 0; i < step.ops.size(); ++i) {
    std::uint64_t const word = gwal_word(step.ops[i]);
    pm::write_bytes(room.value().data() + i * 8, &word, sizeof word);
  }
  if (Status const s = generation.segment->commit(next_request_, step.ops.size(), step.sync);
      !s.ok())
    return "a commit fails: " + s.message();
  next_request_ += step.ops.size();
  generation.ops.insert(generation.ops.end(), step.ops.begin(), step.ops.end());
  world_.acknowledged(contents);
  if (Totals* const t = world_.counted()) ++t->gwal.records;
  return std::nullopt;
}

void GwalLife::write_directly(GwalStep const& step) {
  GwalRocks next = world_.rocks();
  GwalContents const old = world_.contents();
  GwalContents contents = old;
  for (GwalOp const& op : step.ops) {
    next.contents.apply(op);
    contents.apply(op);
    ++next.sequence;
  }
  world_.expect(old, contents);
  world_.set_rocks(std::move(next));
  world_.acknowledged(contents);
}

GwalLife::Wrong GwalLife::intend() {
  Generation& oldest = generations_.front();
  if (generations_.size() == 1) writable_ = false;
  std::uint64_t const sequence = world_.rocks().sequence;
  if (Status const s = oldest.segment->intend(sequence); !s.ok())
    return "an intent fails: " + s.message();
  oldest.intent = sequence;
  return std::nullopt;
}

GwalLife::Wrong GwalLife::withdraw(GwalStep const& step) {
  Generation& oldest = generations_.front();
  if (Status const s = oldest.segment->intend(lsm::kNoGwalIntent); !s.ok())
    return "an intent is not withdrawn: " + s.message();
  oldest.intent.reset();
  write_directly(step);
  return std::nullopt;
}

/// A snapshot is open, so it gives what it ingests a sequence number of its own.
void GwalLife::ingest() {
  Generation& oldest = generations_.front();
  GwalRocks next = world_.rocks();
  for (GwalOp const& op : oldest.ops) next.contents.apply(op);
  ++next.sequence;
  world_.set_rocks(std::move(next));
  oldest.ingested = true;
  if (Totals* const t = world_.counted()) ++t->gwal.ingests;
}

GwalLife::Wrong GwalLife::retire() {
  if (Status const s = generations_.front().segment->retire(); !s.ok())
    return "a segment is not retired: " + s.message();
  generations_.pop_front();
  return std::nullopt;
}

/// What is left to do of it.
GwalLife::Wrong GwalLife::hand_over() {
  if (!generations_.front().ingested) {
    if (Wrong wrong = intend()) return wrong;
    ingest();
  }
  return retire();
}

GwalLife::Wrong GwalLife::reopen() {
  drop();
  GwalContents found;
  if (Wrong wrong = open(found)) return wrong;
  if (found == world_.contents()) return std::nullopt;
  return "opened again, the store has" + found.describe() + " instead of" +
         world_.contents().describe();
}

GwalLife::Wrong GwalLife::take(GwalStep const& step) {
  bool const any = !generations_.empty();
  bool const intended = any && generations_.front().intent.has_value();
  bool const ingested = any && generations_.front().ingested;
  switch (step.kind) {
    case GwalStep::Kind::write: return write(step);
    case GwalStep::Kind::direct:
      if (!any) write_directly(step);
      return std::nullopt;
    case GwalStep::Kind::seal: return any ? seal() : std::nullopt;
    case GwalStep::Kind::intend: return any && !ingested ? intend() : std::nullopt;
    case GwalStep::Kind::withdraw: return intended && !ingested ? withdraw(step) : std::nullopt;
    case GwalStep::Kind::ingest:
      if (intended && !ingested) ingest();
      return std::nullopt;
    case GwalStep::Kind::retire: return ingested ? retire() : std::nullopt;
    case GwalStep::Kind::reopen: break;
  }
  return reopen();
}

GwalLife::Wrong GwalLife::run(GwalScenario const& scenario) {
  for (GwalStep const& step : scenario.steps)
    if (Wrong wrong = take(step)) return wrong;
  return std::nullopt;
}

}  // namespace perdure::explore
