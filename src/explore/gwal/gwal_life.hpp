// A small LSM store over a G-WAL: it writes records, and hands generation after generation to a
// model of RocksDB, whose ingest is atomic, and durable when it returns. Invariant: what stands
// below it (the log's medium, RocksDB's) hears before each change what a crash may leave.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "explore/gwal/gwal_scenario.hpp"
#include "explore/progress.hpp"
#include "lsm/gwal/gwal.hpp"

namespace perdure::explore {

/// What a life begins with.
inline constexpr std::uint64_t kFirstSequence = 5;

/// RocksDB after some ingest or write.
struct GwalRocks {
  std::uint64_t sequence = 0;
  GwalContents contents = {};
};

class GwalWorld {
 public:
  virtual ~GwalWorld() = default;
  virtual Result<std::unique_ptr<lsm::Gwal>> open_log() = 0;
  [[nodiscard]] virtual GwalRocks rocks() const = 0;
  virtual void set_rocks(GwalRocks next) = 0;
  /// What is there, and what may be there from here on, too.
  virtual void expect(GwalContents const& old, GwalContents const& fresh) = 0;
  /// The same is there after a crash from here on.
  virtual void acknowledged(GwalContents const& contents) = 0;
  /// What was acknowledged last.
  [[nodiscard]] virtual GwalContents const& contents() const = 0;
  /// Null: nothing is counted.
  [[nodiscard]] virtual Totals* counted() = 0;
};

class GwalLife {
 public:
  using Wrong = std::optional<std::string>;
  explicit GwalLife(GwalWorld& world) : world_(world) {}

  /// What RocksDB has, and on top of it what the log brings back.
  Wrong open(GwalContents& found);
  Wrong run(GwalScenario const& scenario);
  /// Hands over what the log brought back, and writes another batch. Before that RocksDB may take a
  /// write (`direct`), for which there is no intent then.
  template <class Direct>
  Wrong go_on(Direct direct);
  Wrong reopen();
  /// As a process goes that is killed.
  void drop();

 private:
  struct Generation {
    std::unique_ptr<lsm::GwalSegment> segment;
    std::vector<GwalOp> ops;
    std::optional<std::uint64_t> intent;
    bool ingested = false;
  };

  Wrong take(GwalStep const& step);
  Wrong write(GwalStep const& step);
  Wrong make_room(std::uint64_t bytes);
  Wrong seal();
  Wrong intend();
  Wrong withdraw(GwalStep const& step);
  void write_directly(GwalStep const& step);
  void ingest();
  Wrong retire();
  Wrong hand_over();
  [[nodiscard]] static GwalStep further(GwalStep::Kind kind, std::uint32_t key);

  GwalWorld& world_;
  std::unique_ptr<lsm::Gwal> log_;
  std::deque<Generation> generations_;  // oldest first
  bool writable_ = false;  // the newest takes writes
  lsm::RequestId next_request_ = 1;
};

template <class Direct>
GwalLife::Wrong GwalLife::go_on(Direct direct) {
  while (!generations_.empty()) {
    if (direct())
      if (Wrong wrong = withdraw(further(GwalStep::Kind::withdraw, kGwalDirectKey))) return wrong;
    if (Wrong wrong = hand_over()) return wrong;
  }
  return write(further(GwalStep::Kind::write, 0));
}

}  // namespace perdure::explore
