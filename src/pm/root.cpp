#include "pm/root.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {

std::string_view RootEntry::text() const {
  return {name.data(), static_cast<std::size_t>(std::ranges::find(name, '\0') - name.begin())};
}

RootEntry const* Root::find(std::string_view name) const {
  PERDURE_ASSERT(entries <= kMaxRootEntries && !name.empty());
  auto const all = in_use();
  auto const found = std::ranges::find(all, name, &RootEntry::text);
  return found == all.end() ? nullptr : &*found;
}

void Root::set(std::string_view name, std::uint64_t offset, std::uint64_t value) {
  PERDURE_ASSERT(!name.empty() && name.size() < sizeof(RootEntry::name));  // a zero ends it
  RootEntry const* const found = find(name);
  PERDURE_ASSERT(found != nullptr || entries < kMaxRootEntries);
  RootEntry& changed =
      entry[found == nullptr ? entries++ : static_cast<std::size_t>(found - entry)];
  changed = {{}, offset, value};
  std::ranges::copy(name, changed.name.begin());
  PERDURE_ASSERT(find(name) == &changed);  // it is there once
}

void Root::remove(std::string_view name) {
  RootEntry const* const found = find(name);
  if (found == nullptr) return;
  entry[found - entry] = entry[--entries];
  entry[entries] = {};
  PERDURE_ASSERT(find(name) == nullptr);
}

std::size_t Root::bytes() const {
  PERDURE_ASSERT(entries <= kMaxRootEntries);
  return kRootHead + entries * sizeof(RootEntry);
}

std::uint32_t Root::checksum() const {
  std::uint32_t const head = crc32c(0, this, offsetof(Root, crc));
  if (mutated("root_checksum_without_entries")) return head;
  return crc32c(head, entry, bytes() - kRootHead);
}

std::optional<Root> read_root(std::byte const* at) {
  Root root{};
  read_bytes(&root, at, kRootHead);
  // Of a torn head, which may say anything, no more is read than may be there.
  if (root.sequence == 0 || root.entries > kMaxRootEntries) return std::nullopt;
  read_bytes(reinterpret_cast<std::byte*>(root.entry), at + kRootHead, root.bytes() - kRootHead);
  if (root.crc != root.checksum() && !mutated("root_checksum_ignored")) return std::nullopt;
  return root;
}

std::optional<Root> newest_root(std::byte const* base) {
  std::optional<Root> const copies[2] = {read_root(base + kRootOffset[0]),
                                         read_root(base + kRootOffset[1])};
  if (!copies[0] && !copies[1]) return std::nullopt;
  int const newest = !copies[1] || (copies[0] && copies[0]->sequence > copies[1]->sequence) ? 0 : 1;
  return copies[mutated("older_root_wins") && copies[1 - newest] ? 1 - newest : newest];
}

void write_root(std::byte* at, Root& root) {
  PERDURE_ASSERT(root.sequence != 0 && names_fault(root).empty());
  root.crc = root.checksum();
  write_bytes(at, &root, root.bytes());
}

std::string names_fault(Root const& root) {
  PERDURE_ASSERT(root.entries <= kMaxRootEntries);
  for (RootEntry const& entry : root.in_use()) {
    std::string_view const name = entry.text();
    bool const ends = std::ranges::all_of(std::span(entry.name).subspan(name.size()),
                                          [](char c) { return c == '\0'; });
    bool const prints = std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
    if (name.empty() || name.size() == entry.name.size() || !ends || !prints)
      return "an entry of the root has no whole name";
    if (root.find(name) != &entry) return "the root names \"" + std::string(name) + "\" twice";
  }
  return {};
}

}  // namespace perdure::pm
