// The files that one process has mapped by gpm_map, by the address they were mapped at. Invariant:
// as GpmCalls has it; what is written to a file here is on its way to the medium when the call
// returns.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "gpm/gpm_file.hpp"
#include "gpm/gpm_machine.hpp"
#include "perdure/survival.h"
#include "pm/host_verbs.hpp"

namespace perdure::gpm {

template <class Grid>
class GpmMappedFiles {
 public:
  explicit GpmMappedFiles(GpmMachine<Grid>& machine) : machine_(machine) {}

  void* map(char const* path, std::size_t size, bool create) {
    Grid* const grid = machine_.opened();
    if (grid == nullptr) return nullptr;
    auto file = GpmFile::map(gpm_file_name(path), size, create, Grid::kPinsPools);
    if (!file.ok()) return gpm_none(file.status());
    std::byte* const at = file->data();
    std::scoped_lock const lock(mutex_);
    files_.insert_or_assign(at, std::move(file.value()));
    return at;
  }
  gpm_result unmap(void* address, gpm_stream stream) {
    std::scoped_lock const lock(mutex_);
    auto const found = files_.find(static_cast<std::byte*>(address));
    if (found == files_.end()) return machine_.unknown("gpm_unmap", "an address of gpm_map");
    Status const done = machine_.after_kernels(stream);
    files_.erase(found);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }
  std::size_t mapped_bytes(void const* address) {
    std::scoped_lock const lock(mutex_);
    auto const found = files_.find(static_cast<std::byte*>(const_cast<void*>(address)));
    return found == files_.end() ? 0 : found->second.bytes();
  }
  gpm_result write(void* to, void const* from, std::size_t size, gpm_stream stream) {
    return moved("gpm_write", to, size, stream, [&] {
      auto* const at = static_cast<std::byte*>(to);
      return machine_.grid().copy(at, static_cast<std::byte const*>(from), size);
    });
  }
  gpm_result fill(void* to, int byte, std::size_t size, gpm_stream stream) {
    return moved("gpm_fill", to, size, stream,
                 [&] { return machine_.grid().fill(static_cast<std::byte*>(to), byte, size); });
  }
  char const* survives_what(void const* address) {
    std::scoped_lock const lock(mutex_);
    auto const found = files_.find(static_cast<std::byte*>(const_cast<void*>(address)));
    if (found == files_.end()) {
      machine_.unknown("gpm_survives", "an address of gpm_map");
      return nullptr;
    }
    said_ = survives(found->second.medium()).describe();
    return said_.c_str();
  }

 private:
  /// act() -> Status, which changes [at, at + size) of a mapped file, after the kernels that were
  /// launched.
  template <class F>
  gpm_result moved(char const* call, void* at, std::size_t size, gpm_stream stream, F act) {
    if (!within_a_file(static_cast<std::byte*>(at), size))
      return machine_.unknown(call, "within what gpm_map mapped");
    if (Status s = machine_.grid().follow(stream); !s.ok()) return gpm_failed(s);
    pm::will_write(at, size);
    Status const began = act();
    Status const done = began.ok() ? machine_.grid().order() : began;
    pm::wrote(at, size);
    return done.ok() ? GPM_OK : gpm_failed(done);
  }
  bool within_a_file(std::byte* at, std::size_t size) {
    std::scoped_lock const lock(mutex_);
    auto next = files_.upper_bound(at);
    if (next == files_.begin()) return false;
    auto const& [begin, file] = *--next;
    auto const from = static_cast<std::size_t>(at - begin);
    return from <= file.bytes() && size <= file.bytes() - from;
  }

  GpmMachine<Grid>& machine_;
  std::mutex mutex_;  // guards the rest
  std::map<std::byte*, GpmFile> files_;
  std::string said_;
};

}  // namespace perdure::gpm
