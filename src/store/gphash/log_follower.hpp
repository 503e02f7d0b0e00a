// Follows the log of entries of a pool of layout `log` beside its writer (wal/entries.hpp), and
// keeps an index of what it comes to. Nothing is locked in the pool, and nothing is written there.
//
// A record that an extent unlinks is used again once that extent is ordered, and not before. So a
// value that was copied is the pool's if the entry that led to it counted still after the copy: if
// no extent had come that has the key (follow(), and look again), or none at all (stands()).
//
// Invariants: what the index has is what the log came to behind one extent, the newest that counts,
// unless follow() is under way or has failed; what has been looked up in between has another
// version. Parts count with their commit, a device session with its end: one that a kill cut off,
// once a store has opened the pool again. What is read is bounded by the pool, and by where the log
// ended when reading began.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "exec/workers.hpp"
#include "perdure/status.h"
#include "pm/pool_format.hpp"
#include "store/gphash/entry_index.hpp"
#include "store/gphash/log_records.hpp"
#include "wal/entry_cells.hpp"

namespace perdure::gphash {

class LogFollower {
 public:
  /// Maps what the pool has grown by; how many bytes of it can be read then.
  using Map = std::function<Result<std::uint64_t>()>;
  LogFollower(std::string path, pm::PoolHeader const& h, std::byte const* base, Map map);

  /// Afterwards the index has at least what counted when it was called. By workers, where that is
  /// much; none: by the caller alone, who may be one of them.
  Status follow(exec::Workers* workers = nullptr);

  /// While it lives nobody changes the index.
  struct Seen {
    std::shared_lock<std::shared_mutex> lock;
    EntryIndex const* index;
    LogRecords records;
    std::uint64_t version;
  };
  [[nodiscard]] Seen seen() const;
  /// The index of that version had, and has, all that counts: as of some moment of this call.
  [[nodiscard]] bool stands(std::uint64_t version) const;

  /// The pool is mapped there from here on; the explorer has it as of several moments, and its
  /// records as of others.
  void look_at(std::byte const* base, std::byte const* records);

 private:
  using Extent = wal::EntryExtent;
  using Clock = std::chrono::steady_clock;
  using RootWords = std::array<std::uint64_t, 2>;  // both copies' sequences, torn or not

  /// Where the newest extent is that was read, a part perhaps.
  struct Mark {
    bool known = false;
    wal::EntryCells cells;
    std::optional<std::uint64_t> head;  // its position; none: it is released, or never was
    std::uint64_t number = 0;
    std::uint64_t end = 0;
    RootWords roots{};
    std::uint64_t pool_bytes = 0;
  };
  /// The newest that counts.
  struct Counted {
    std::optional<std::uint64_t> head;
    std::uint64_t number = 0;
    std::uint64_t end = 0;
  };
  /// As the root says.
  struct Begin {
    std::uint64_t segment = 0, id = 0, segment_number = 0;
    std::uint64_t cell = 0;  // of the oldest extent
    std::uint64_t above = 0;
  };

  [[nodiscard]] RootWords root_words() const;
  [[nodiscard]] std::uint64_t change_word() const;
  [[nodiscard]] bool stands(Mark const& mark) const;
  [[nodiscard]] bool news_behind(Mark const& mark) const;
  [[nodiscard]] static bool is_there(Mark const& mark, std::uint64_t head, std::uint64_t number);

  Status follow_log();
  Result<bool> attempt();
  Status read_root(Begin& begin);
  [[nodiscard]] bool continues(Begin const& begin);
  void begin_anew(Begin const& begin);
  void anchor(Begin const& begin);
  Result<bool> read_on();
  [[nodiscard]] std::uint64_t goal();
  Result<std::optional<Extent>> next_extent();
  Result<bool> cover(std::uint64_t position);
  [[nodiscard]] bool is_whole(Extent const& extent) const;
  [[nodiscard]] bool values_whole(Extent const& extent) const;
  [[nodiscard]] Status fits_session(Extent const& extent) const;
  Result<bool> take(Extent const& extent);
  [[nodiscard]] bool apply_parts();
  [[nodiscard]] bool apply(Extent const& extent);
  [[nodiscard]] bool apply_waiting();
  [[nodiscard]] bool check_is_due() const;
  Status check_end();
  Status find_behind_end();
  void set_newest();
  void drop_segments();
  void publish();
  void forget();
  [[nodiscard]] Status damaged(std::string const& what) const;

  std::string path_;
  pm::PoolHeader header_;
  std::byte const* base_;
  Map map_;

  mutable std::shared_mutex mutex_;  // guards the next four
  EntryIndex index_;
  LogRecords records_;
  Mark mark_;
  std::uint64_t version_ = 1;

  std::mutex following_;  // guards the rest
  Mark next_;
  Counted counted_;
  std::vector<Extent> parts_;  // behind it, with no commit yet; or a session with no end
  bool anew_ = false;  // the index was begun, and the log's end has not been reached since
  std::uint64_t checked_ = 0;  // the change word, when the log's end was checked
  Clock::time_point next_check_;
  bool touched_ = false;  // the index is of no version yet
  exec::Workers alone_{1};
  std::uint64_t const process_ = this_process();  // whose threads those of others are
  exec::Workers* workers_ = &alone_;  // of the follow() that is under way
  std::vector<Extent> waiting_;  // that were taken, and are not in the index yet
  std::uint64_t waiting_entries_ = 0;
};

}  // namespace perdure::gphash
