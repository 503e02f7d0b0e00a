// pm::Mapping over the explorer's arena, linked in place of pm/mapping.cpp: there is one pool,
// whatever its path, and its file is as long as it has grown.
#include "pm/mapping.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "explore/sim_arena.hpp"
#include "pm/extension.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool_format.hpp"

namespace perdure::explore {

namespace {
std::byte* room() {
  void* const at = ::mmap(nullptr, Arena::kCapacity, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}
}  // namespace

Arena::Arena(std::uint32_t word_bytes)
    : shift_(word_bytes == 8 ? 3 : 2), data_(room()), shadow_(room()) {}

Arena::~Arena() {
  ::munmap(data_, kCapacity);
  ::munmap(shadow_, kCapacity);
}

bool Arena::shadow_agrees() const {
  // that word and the log word are nothing that lasts, and are written by themselves
  constexpr std::uint64_t kAfter = pm::kLogWordOffset + 8;
  static_assert(pm::kChangeWordOffset < pm::kLogWordOffset);
  return std::memcmp(data_, shadow_, std::min(file_bytes, pm::kChangeWordOffset)) == 0 &&
         (file_bytes <= kAfter ||
          std::memcmp(data_ + kAfter, shadow_ + kAfter, file_bytes - kAfter) == 0);
}

}  // namespace perdure::explore

namespace perdure::pm {

Mapping::Mapping() = default;
Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  file_ = std::exchange(other.file_, {});
  size_ = std::exchange(other.size_, 0);
  reserved_ = other.reserved_;
  max_bytes_ = other.max_bytes_;
  return *this;
}
Mapping::~Mapping() = default;
void Mapping::close() { file_.data = nullptr; }
Status Mapping::keep() { return {}; }
Status Mapping::sync(void const* at, std::size_t bytes) const {
  writes_back(at, bytes);
  order();
  return {};
}

Status Mapping::grow(std::uint64_t least, std::uint64_t eager) {
  if (least <= size_) return {};
  std::uint64_t const most =
      max_bytes_ == 0 ? explore::Arena::kCapacity : std::min(max_bytes_, explore::Arena::kCapacity);
  if (least > most) return {Code::no_space, "the simulated medium is full"};
  size_ = eager > least && eager <= most ? eager : least;
  explore::arena->file_bytes = size_;
  return {};
}
// What is prepared is no part of the pool, and has no order.
bool Mapping::prepare(std::uint64_t, std::uint64_t) { return false; }
void Mapping::prepare_no_more() {}

Result<Mapping> Mapping::create(std::string const&, std::uint64_t bytes, std::uint64_t max_bytes,
                                MakeOptions const&, MapOptions const& options) {
  Mapping m;
  m.file_.data = explore::arena->data();
  m.reserved_ = explore::Arena::kCapacity;
  m.max_bytes_ = max_bytes;
  m.file_.options = options;
  explore::arena->file_bytes = 0;
  if (Status s = m.grow(bytes); !s.ok()) return s;
  return m;
}

// Nobody looks at a simulated pool from outside.
Result<Fd> Mapping::open_existing(std::string const& path, bool, Lock) {
  return Status{Code::unsupported, "pool " + path + " is simulated"};
}
Result<Mapping> Mapping::copy_live(std::string const& path, MapOptions const&, FileCheck const&) {
  return Status{Code::unsupported, "pool " + path + " is simulated"};
}

Result<Mapping> Mapping::open(std::string const&, MapOptions const& options, FileCheck const&) {
  Mapping m;
  m.file_.data = explore::arena->data();
  m.reserved_ = explore::Arena::kCapacity;
  m.size_ = explore::arena->file_bytes;
  m.file_.options = options;
  return m;
}

}  // namespace perdure::pm
