#include "lsm/gwal/gwal_power_note.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "lsm/gwal/gwal_headers.hpp"
#include "lsm/gwal/gwal_power_format.hpp"
#include "wal/disk/block_file.hpp"
#include "wal/disk/disk.hpp"

namespace perdure::lsm {
namespace {

std::uint32_t crc_of(GwalPowerNote const& note, std::string const& directory) {
  return crc32c(crc32c(0, &note, offsetof(GwalPowerNote, crc)), directory.data(), directory.size());
}

Status damaged(std::string const& path) {
  return {Code::corrupt,
          "the note " + path +
              ", which says where the database's power log lies, is damaged; restore the database "
              "and that log from one copy, or, to go on with what RocksDB has and lose what it has "
              "not, remove the note and the log"};
}

}  // namespace

Result<std::optional<GwalPowerNoteRead>> read_gwal_power_note(std::string const& path) {
  auto file = wal::BlockFile::open(path, wal::OpenMode::read_only);
  if (file.status().code() == Code::not_found) return std::optional<GwalPowerNoteRead>{};
  if (!file.ok()) return file.status();
  auto block = wal::AlignedBuffer::make(wal::kBlock);
  if (!block.ok()) return block.status();
  auto const read = file.value()->read(0, block->span());
  if (!read.ok()) return read.status();
  GwalPowerNote note;
  std::memcpy(&note, block->data(), sizeof note);
  if (read.value() < wal::kBlock || note.magic != kGwalPowerNoteMagic) return damaged(path);
  if (note.format_version > kGwalPowerVersion)
    return Status{Code::corrupt, "the note " + path + " has format version " +
                                     std::to_string(note.format_version) +
                                     ", and this Perdure knows " +
                                     std::to_string(kGwalPowerVersion) +
                                     "; open the database with the newer Perdure that wrote it"};
  if (note.path_bytes > wal::kBlock - sizeof note) return damaged(path);
  std::string directory(reinterpret_cast<char const*>(block->data()) + sizeof note,
                        note.path_bytes);
  if (note.crc != crc_of(note, directory)) return damaged(path);
  std::size_t const named = std::min<std::size_t>(note.identity_bytes, note.identity.size());
  return std::optional(
      GwalPowerNoteRead{std::string(note.identity.data(), named), std::move(directory)});
}

Result<WrittenGwalPowerNote> WrittenGwalPowerNote::write(std::string const& path,
                                                         std::string const& identity,
                                                         std::string const& directory) {
  if (directory.size() > wal::kBlock - sizeof(GwalPowerNote))
    return Status{Code::invalid_argument,
                  "the name of the power log's directory is too long: " + directory};
  auto block = wal::AlignedBuffer::make(wal::kBlock);
  if (!block.ok()) return block.status();
  GwalPowerNote note{kGwalPowerNoteMagic,
                     kGwalPowerVersion,
                     static_cast<std::uint32_t>(identity.size()),
                     gwal_identity(identity),
                     static_cast<std::uint32_t>(directory.size()),
                     {},
                     0};
  note.crc = crc_of(note, directory);
  std::memcpy(block->data(), &note, sizeof note);
  std::memcpy(block->data() + sizeof note, directory.data(), directory.size());
  auto made = wal::BlockFile::make(path, {.overwrite = true});
  if (!made.ok()) return made.status();
  WrittenGwalPowerNote written;
  written.path_ = path;
  written.name_ = std::move(made->second);
  Status s = made->first->write_durably(0, block->span());
  if (s.ok()) s = made->first->sync();
  if (s.ok()) s = written.name_->keep();
  if (s.ok() && !mutated("gwal_power_note_not_kept")) s = wal::disk().sync_directory_of(path);
  if (!s.ok()) return s;
  return written;
}

Status WrittenGwalPowerNote::remove() {
  name_->remove();
  return wal::disk().sync_directory_of(path_);
}

}  // namespace perdure::lsm
