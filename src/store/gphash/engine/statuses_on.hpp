// Statuses of a session's operations: the machine decides them, and the host has a copy, their
// twin. Invariant: at_host_ says that the copy is, or will be once it has come, what the machine
// has.
#pragma once

#include <cstdint>
#include <span>

#include "store/gphash/engine/launcher.hpp"

namespace perdure {

template <class Machine>
class StatusesOn {
 public:
  using Buffer = typename Machine::template Buffer<std::uint8_t>;
  using Copy = Result<std::span<std::uint8_t const>>;

  explicit StatusesOn(Launcher<Machine>& launcher) : launcher_(&launcher) {}

  /// A batch begins. `first` has each operation's; empty: all are pending.
  Status bring(BatchView& batch, std::span<std::uint8_t const> first) {
    change();
    batch.all_pending = first.empty();
    Status const there = first.empty() ? buffer_.resize(batch.n) : launcher_->send(buffer_, first);
    if (!there.ok()) return there;
    if (Status s = first.empty() ? buffer_.need_twin(batch.n) : Status{}; !s.ok()) return s;
    batch.status = buffer_.data();
    return {};
  }
  [[nodiscard]] Buffer& buffer() { return buffer_; }

  /// The machine writes them anew.
  void change() { at_host_ = early_ = false; }
  /// The twin has them.
  void told() { at_host_ = true; }

  /// Of n operations, behind what was launched; the host has them when it has waited for it.
  Status begin_fetch(std::uint64_t n) {
    at_host_ = true;
    return launcher_->machine.begin_fetch(buffer_, n);
  }
  /// So that the host may have them before what is launched from here on has ended.
  Status begin_early(std::uint64_t n) {
    early_ = true;
    Status const begun = begin_fetch(n);
    return begun.ok() ? launcher_->machine.note_fetch() : begun;
  }
  [[nodiscard]] bool early() const { return early_; }
  /// Waits for those alone; empty: none were to come early.
  Copy wait_early(std::uint64_t n) {
    if (!early_) return std::span<std::uint8_t const>();
    if (Status s = launcher_->machine.await_fetch(); !s.ok()) return s;
    return std::span<std::uint8_t const>(buffer_.twin(), n);
  }

  /// Waits for them where the host has none.
  Copy fetch(std::uint64_t n) {
    if (at_host_) return std::span<std::uint8_t const>(buffer_.twin(), n);
    return launcher_->machine.fetch(buffer_, n);
  }

 private:
  Launcher<Machine>* launcher_;
  Buffer buffer_;
  bool at_host_ = false;
  bool early_ = false;
};

}  // namespace perdure
