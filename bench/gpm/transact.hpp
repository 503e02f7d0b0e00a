// What transactional applications share (GPM section 4.1): a table in durable memory that batches
// change in place, an undo log, and the loop over batches.
//
// The log's transaction word is all that says how far a table came: clearing the log ends the
// entries of a batch and counts it, with one 8-byte store. So a batch is (1) logged, each write's
// old value before the write, (2) written and persisted, (3) counted; a crash before (3) finds the
// entries of all writes that may have happened, and undoes them. Invariants: a batch writes no
// place twice, so entries are undone in any order, each as often as crashes want; the log's file is
// made last, so that where it is, the table's first contents are.
//
// On paths that cannot persist inside kernels nothing is logged, as in the paper: what a crash
// leaves there may be part of a batch. Applications write values that do not depend on what they
// replace, so that doing the batch again mends it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>

#include "app.hpp"

namespace perdure::bench::gpm {

// bytes of a table's file before the table: one word, see below
inline constexpr std::uint64_t kTableHeader = 4096;
// of a conventional log's partition: a block of threads
inline constexpr std::uint32_t kBlockWriters = 256;

/// Threads of a block. Tiny problems, too, have several blocks, whose threads run at the same time.
[[nodiscard]] inline std::uint32_t block_threads(Size size) {
  return size == Size::tiny ? 16 : 256;
}

/// The undo log as writing kernels get it.
struct WriteLog {
  perdure::gpm::LogView view;
  bool on = false;

  /// Whether the entry is durable, or none is needed. Writers are numbered so that those side by
  /// side log together.
  template <class T>
  PERDURE_FN bool insert(T& thread, void const* entry, std::size_t size,
                         std::uint64_t writer) const {
    if (!on) return true;
    bool const hcl = view.kind == perdure::gpm::LogKind::hcl;
    auto const partition = static_cast<std::int64_t>(hcl ? writer : writer / kBlockWriters);
    return perdure::gpm::insert(thread, view, entry, size, partition) ==
           perdure::gpm::LogError::none;
  }
};

/// Puts back what the log holds. `Undo` has a type Entry, and put_back(thread, entry), which stores
/// to durable memory.
template <class Undo>
struct UndoKernel {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  using Entry = typename Undo::Entry;

  perdure::gpm::LogView log;
  Undo undo;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    using perdure::gpm::LogError;
    for (std::uint64_t p = thread.global(); p < log.partitions; p += thread.total()) {
      auto const partition = static_cast<std::int64_t>(p);
      Entry entry;
      while (perdure::gpm::read(thread, log, &entry, sizeof entry, partition) == LogError::none) {
        undo.put_back(thread, entry);
        thread.persist();  // before the entry goes: a crash in between undoes it again
        if (perdure::gpm::remove(thread, log, sizeof entry, partition) != LogError::none) break;
      }
    }
  }
};

struct TransactionShape {
  std::uint64_t table_bytes;
  std::uint64_t writers;  // of a batch, at most; each logs one entry
  std::uint64_t entry_bytes;
};

template <class Grid>
class Transactions {
 public:
  Transactions(Grid& grid, AppOptions const& options, TransactionShape const& shape)
      : grid_(&grid),
        shape_(shape),
        problem_(problem_of(options, shape)),
        threads_(block_threads(options.size)),
        hcl_(options.log == perdure::gpm::LogKind::hcl),
        log_file_(file_of(options, "log")),
        goes_on_(options.resume && access(log_file_.c_str(), F_OK) == 0) {
    if (!goes_on_) std::remove(log_file_.c_str());  // an older table's
    memory_.emplace(require(
        perdure::gpm::Memory<Grid>::open(grid, file_of(options, "table"), kTableHeader + bytes(),
                                         {options.path, !goes_on_, options.flush_threads}),
        "table"));
    if (stores_directly(options.path)) require(near_.resize(bytes()), "machine memory");
    if (goes_on_) {
      open_log();
      upload();
    } else if (near() != table()) {
      require(grid.fill(near(), 0, bytes()), "machine memory");
    }
  }

  /// Whether batches were committed, or could have been, before.
  [[nodiscard]] bool goes_on() const { return goes_on_; }
  /// What kernels have written of a fresh table is what the first batch finds, durably.
  void begin() {
    require(grid_->launch({1, 1}, StoreWord<std::uint64_t>{header(), problem_}, persist()),
            "table");
    require(memory_->commit(0, memory_->bytes()), "table");
    filled_ = memory_->made_durable();
    using perdure::gpm::LogKind;
    auto const blocks =
        static_cast<std::uint32_t>((shape_.writers + kBlockWriters - 1) / kBlockWriters);
    std::uint64_t const log_bytes = std::uint64_t{blocks} * kBlockWriters * shape_.entry_bytes;
    auto made =
        !logs() ? Log::create(*grid_, log_file_, 64, {LogKind::conventional, 0, 0, 1}, false)
        : hcl_ ? Log::create(*grid_, log_file_, log_bytes, {LogKind::hcl, blocks, kBlockWriters, 0})
               : Log::create(*grid_, log_file_, log_bytes, {LogKind::conventional, 0, 0, blocks});
    log_.emplace(require(std::move(made), "log"));
  }

  /// The table: durable; and the copy in machine memory that kernels read, which is the same on
  /// paths where kernels write machine memory anyway.
  [[nodiscard]] std::byte* table() const { return memory_->data() + kTableHeader; }
  [[nodiscard]] std::byte* near() const { return near_.data() != nullptr ? near_.data() : table(); }
  [[nodiscard]] std::uint64_t bytes() const { return shape_.table_bytes; }
  [[nodiscard]] perdure::gpm::Persist persist() const { return memory_->persist(); }

  /// Whether batches are logged; if not, they cannot be undone.
  [[nodiscard]] bool logs() const { return persist() == perdure::gpm::Persist::here; }
  [[nodiscard]] WriteLog log() const { return log_ ? WriteLog{log_->view(), logs()} : WriteLog{}; }
  [[nodiscard]] std::uint64_t committed() const { return log_->file().header().transaction - 1; }

  /// The batch's writes lie within [from, from + bytes) of the table.
  void commit(std::uint64_t from, std::uint64_t bytes) {
    require(memory_->commit(kTableHeader + from, bytes), "commit");
    require(log_->clear(), "commit");
  }
  /// Undoes the batch that no commit counted, if there is one.
  template <class Undo>
  void undo(Undo const& undo) {
    if (!logs()) return;
    auto const shape = perdure::gpm::grid_of(log_->file().header().partitions,
                                             hcl_ ? threads_ : std::min(threads_, 32u));
    require(grid_->launch(shape, UndoKernel<Undo>{log_->view(), undo}, persist()), "undoing");
    require(grid_->order(), "undoing");
  }
  /// The same for a table that was there. It leaves no entries, unless some are not the
  /// application's.
  template <class Undo>
  void recover(Undo const& how) {
    Stopwatch watch;
    undo(how);
    undone_s_ = watch.lap();
    if (require(log_->in_use(), "log") != 0)
      throw Failure("log " + log_file_ + " holds what this application never logs");
  }
  void add_to(AppReport& report) const {
    report.more.emplace_back("restart_undo_s", undone_s_);
    report.more.emplace_back("restart_copy_s", brought_s_);
  }
  /// By commits.
  [[nodiscard]] std::uint64_t made_durable() const { return memory_->made_durable() - filled_; }

 private:
  using Log = perdure::gpm::Log<Grid>;

  [[nodiscard]] static std::uint64_t problem_of(AppOptions const& options,
                                                TransactionShape const& shape) {
    return digest_of(std::vector<std::uint64_t>{
        shape.table_bytes, shape.writers, shape.entry_bytes,
        static_cast<std::uint64_t>(options.size), options.seed,
        static_cast<std::uint64_t>(options.log),
        static_cast<std::uint64_t>(perdure::gpm::persist_on(options.path))});
  }

  [[nodiscard]] std::uint64_t* header() const {
    return reinterpret_cast<std::uint64_t*>(memory_->data());
  }
  /// What the log holds, and what of it is needed, follows from the options.
  void open_log() {
    Array<Grid, std::uint64_t> word(*grid_, 1);
    require(grid_->copy(word.data(), header(), 1), "table");
    if (word.get()[0] != problem_)
      throw Failure("the table beside " + log_file_ +
                    " is of another size, seed, log or path; resume it as it was run");
    log_.emplace(require(Log::open(*grid_, log_file_, logs()), "log"));
  }
  void upload() {
    if (near() == table()) return;
    Stopwatch watch;
    require(grid_->copy(near(), table(), bytes()), "table");
    require(grid_->order(), "table");
    brought_s_ = watch.lap();
  }

  Grid* grid_;
  TransactionShape shape_;
  std::uint64_t problem_;  // in the header: what the table is of
  std::uint32_t threads_;  // of a block
  bool hcl_;
  std::string log_file_;
  bool goes_on_;
  std::optional<perdure::gpm::Memory<Grid>> memory_;
  typename Grid::template Buffer<std::byte> near_;
  std::optional<Log> log_;
  double undone_s_ = 0, brought_s_ = 0;
  std::uint64_t filled_ = 0;  // bytes made durable before the first batch
};

/// What an application does with batch n.
struct BatchWork {
  std::function<void(std::uint64_t)> prepare;  // its input
  std::function<void(std::uint64_t)> apply;  // everything up to the commit
  std::function<void(std::uint64_t)> commit;
  std::function<void(std::uint64_t)> done;  // checks
  std::function<void()> undo;  // of a batch that was applied; empty: the path cannot
};

/// Runs batches [began_at, batches), and then one more that is undone where it would have been
/// committed.
template <class Grid>
AppReport run_batches(Grid& grid, std::uint64_t began_at, std::uint64_t batches,
                      BatchWork const& work) {
  AppReport report;
  report.began_at = began_at;
  Stopwatch watch;
  auto const apply = [&](std::uint64_t n) {
    work.prepare(n);
    require(grid.order(), "input");
    watch.lap();
    work.apply(n);
    require(grid.order(), "batch");
    return watch.lap();
  };
  std::uint64_t stored = 0;
  for (std::uint64_t n = began_at; n < batches; ++n) {
    std::uint64_t const before = require(grid.tally(), "tally").bytes;
    report.run_s += apply(n);
    work.commit(n);
    double const took = watch.lap();
    report.run_s += took;
    report.durable_s += took;
    stored += require(grid.tally(), "tally").bytes - before;
    ++report.steps;
    work.done(n);
  }
  report.more.emplace_back("batches_stored_bytes", static_cast<double>(stored));
  if (work.undo) {
    report.more.emplace_back("undone_batch_s", apply(batches < began_at ? began_at : batches));
    watch.lap();
    work.undo();
    report.recovery_s = watch.lap();
  }
  return report;
}

}  // namespace perdure::bench::gpm
