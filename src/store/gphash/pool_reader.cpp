// A reader beside the writer of a pool: follows its file and its roots, or its log of entries, and
// looks keys up on several threads (pool_look.hpp, log_look.hpp). Invariant: one mutex guards what
// threads share, the file's size and the table as it is now.
#include "perdure/pool_reader.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/caught.hpp"
#include "exec/workers.hpp"
#include "pm/followed_file.hpp"
#include "pm/pool.hpp"
#include "pm/repairs.hpp"
#include "pm/root.hpp"
#include "store/gphash/log_look.hpp"
#include "store/gphash/pool_look.hpp"
#include "store/repair_reports.hpp"
#include "store/tables/catalogue.hpp"
#include "store/tables/catalogue_format.hpp"

namespace perdure {
namespace {

constexpr std::uint64_t kReadAChunk = 64u << 10;  // of values, for a thread at a time
constexpr std::size_t kMostKeysRead = 256;
constexpr std::uint32_t kUsualValue = 512;  // bytes, where values have any length

Status refuse(std::string const& path, std::string const& why) {
  return {Code::unsupported, "pool " + path + ": it is read beside its writer only with " + why +
                                 "; look at it live (live=True), or open it"};
}

Status check_kind(std::string const& path, pm::PoolHeader const& h) {
  if (h.index != 0 || h.in_place()) return refuse(path, "index gphash of layout word or log");
  if (h.durability == static_cast<std::uint8_t>(Durability::power))
    return refuse(path, "durability none or process");
  return {};
}

}  // namespace

struct PoolReader::State {
  /// A call's keys, and where it wants their answers.
  struct Answers {
    Column const& keys;
    std::span<Target const> targets;
    std::span<KeyStatus> statuses;
    std::span<std::uint32_t> value_bytes;

    [[nodiscard]] std::span<std::byte const> key(std::size_t i) const {
      if (keys.offsets == nullptr) return {keys.data + i * keys.width, keys.width};
      auto const begin = static_cast<std::size_t>(keys.offsets[i]);
      return {keys.data + begin, static_cast<std::size_t>(keys.offsets[i + 1]) - begin};
    }
    void set(std::size_t i, KeyStatus status, std::uint32_t bytes) const {
      statuses[i] = status;
      if (!value_bytes.empty()) value_bytes[i] = bytes;
    }
  };

  State(std::string pool_path, pm::FollowedFile followed, std::uint32_t threads)
      : path(std::move(pool_path)), file(std::move(followed)), workers(threads) {}

  std::string path;
  pm::FollowedFile file;
  pm::PoolHeader header{};
  exec::Workers workers;
  std::mutex mutex;  // guards the file's size and what follows
  std::uint64_t sequence = 0;  // of the root that `table` is of
  gphash::TableView table{};
  std::unique_ptr<gphash::LogFollower> log;  // of layout log
  tables::Catalogue catalogue;

  /// For how many keys a thread takes at a time.
  [[nodiscard]] std::uint32_t usual_value_bytes() const {
    return header.value_bytes != 0 ? header.value_bytes : kUsualValue;
  }

  Status read_header() {
    if (file.size() < pm::kHeadBytes)
      return {Code::corrupt, "pool " + path + " is truncated; restore it from a copy"};
    auto const read = pm::Pool::header_in(path, file.data());
    if (!read) return read.status();
    header = read.value();
    if (pm::unfinished_repair(file.data()) != pm::Unfinished::nothing) return repair_not_over(path);
    return check_kind(path, header);
  }

  Status begin() {
    if (!header.logged()) return now().status();
    log = std::make_unique<gphash::LogFollower>(path, header, file.data(),
                                                [this] { return mapped(); });
    return log->follow(&workers);
  }

  Result<std::uint64_t> mapped() {
    std::lock_guard const lock(mutex);
    if (Status s = file.follow(); !s.ok()) return s;
    return file.size();
  }

  /// The table as it is now. While the writer writes a root, or has mended one that was torn, the
  /// one before it still leads to nearly everything.
  Result<gphash::TableView> now() {
    std::lock_guard const lock(mutex);
    auto const root = pm::newest_root(file.data());
    if (root && root->sequence != sequence) {
      if (Status s = file.follow(); !s.ok()) return s;
      auto next = gphash::table_of(path, header, *root, file.size());
      if (!next && sequence == 0) return next.status();
      if (next) table = *next, sequence = root->sequence;
    }
    if (sequence != 0) return table;
    return Status{Code::corrupt,
                  "pool " + path + ": neither copy of the root has a valid checksum; restore it"};
  }

  /// Keys of a call, or what is wrong with them.
  [[nodiscard]] Status check(Column const& keys) const {
    if (keys.count == 0) return {};
    bool const fixed = header.key_bytes != 0;
    if (fixed ? keys.offsets != nullptr || keys.width != header.key_bytes
              : keys.offsets == nullptr || keys.width != 0)
      return bad_keys(fixed ? "have " + std::to_string(header.key_bytes) + " bytes each"
                            : "have any length: offsets, and width 0");
    if (keys.space != MemorySpace::host) return bad_keys("lie in host memory");
    if (fixed) return {};
    for (std::size_t i = 0; i < keys.count; ++i)
      if (keys.offsets[i] < 0 || keys.offsets[i + 1] < keys.offsets[i])
        return bad_keys("lie one behind the other: offsets decrease at " + std::to_string(i));
    return {};
  }
  [[nodiscard]] Status bad_keys(std::string const& why) const {
    return {Code::invalid_argument, "pool " + path + ": its keys " + why};
  }

  [[nodiscard]] std::size_t keys_a_chunk() const {
    return std::clamp<std::size_t>(kReadAChunk / usual_value_bytes(), 1, kMostKeysRead);
  }

  Status get_words(Answers const& to) {
    auto table_now = now();
    if (!table_now) return table_now.status();
    gphash::PoolLook const look(file.data(), file.data(), *table_now);
    workers.for_chunks(to.keys.count, keys_a_chunk(), [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        std::uint32_t bytes = 0;
        auto const status = look.at(to.key(i), to.targets[i].to, to.targets[i].bytes, bytes);
        to.set(i, status, bytes);
      }
    });
    return {};
  }

  Status get_logged(Answers const& to) {
    if (Status s = log->follow(&workers); !s.ok())
      return s;  // so that most is found at the first look
    std::mutex failing;
    Status failed;  // guarded by it
    workers.for_chunks(to.keys.count, keys_a_chunk(), [&](std::size_t begin, std::size_t end) {
      Status s = caught([&] { return get_logged(to, begin, end); });
      if (s.ok()) return;
      std::lock_guard const lock(failing);
      failed = std::move(s);
    });
    return failed;
  }

  Status get_logged(Answers const& to, std::size_t begin, std::size_t end) {
    static_assert(kMostKeysRead <= gphash::LogLook::kMost);
    std::array<gphash::LogLook::Ask, kMostKeysRead> asks;
    for (std::size_t i = begin; i < end; ++i)
      asks[i - begin] = {to.key(i), {to.targets[i].to, to.targets[i].bytes}};
    gphash::LogLook look(*log, std::span(asks).first(end - begin));
    if (Status s = look.get(); !s.ok()) return s;
    for (std::size_t i = begin; i < end; ++i)
      to.set(i, asks[i - begin].status, asks[i - begin].target.value_bytes);
    return {};
  }
};

PoolReader::PoolReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
PoolReader::PoolReader(PoolReader&&) noexcept = default;
PoolReader& PoolReader::operator=(PoolReader&&) noexcept = default;
PoolReader::~PoolReader() = default;

std::uint32_t PoolReader::key_bytes() const { return state_->header.key_bytes; }
std::uint32_t PoolReader::value_bytes() const { return state_->header.value_bytes; }
std::uint32_t PoolReader::most_value_bytes() const { return state_->header.max_value_bytes; }
bool PoolReader::replaced() const { return !state_->file.has_its_name(); }

Result<PoolReader> PoolReader::open(std::string const& path, PoolReaderOptions const& options) {
  return caught([&]() -> Result<PoolReader> {
    auto file = pm::FollowedFile::open(path);
    if (!file) return file.status();
    std::uint32_t const threads =
        options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
    auto state = std::make_unique<State>(path, std::move(*file), threads);
    if (Status s = state->read_header(); !s.ok()) return s;
    if (Status s = state->begin(); !s.ok()) return s;
    return PoolReader(std::move(state));
  });
}

Status PoolReader::get(Column const& keys, std::span<Target const> targets,
                       std::span<KeyStatus> statuses, std::span<std::uint32_t> value_bytes) {
  State& s = *state_;
  if (Status wrong = s.check(keys); !wrong.ok()) return wrong;
  if (targets.size() != keys.count || statuses.size() != keys.count ||
      (!value_bytes.empty() && value_bytes.size() != keys.count))
    return {Code::invalid_argument,
            "pool " + s.path +
                ": a get has a target and a status for each key, and lengths of"
                " values for all or none"};
  return caught([&] {
    State::Answers const answers{keys, targets, statuses, value_bytes};
    return s.log ? s.get_logged(answers) : s.get_words(answers);
  });
}

namespace {

/// Table 0, by a reader.
class ReaderRecords final : public tables::CatalogueRecords {
 public:
  ReaderRecords(PoolReader& reader, std::string const& path) : reader_(reader), path_(path) {}

  [[nodiscard]] std::string const& path() const override { return path_; }
  [[nodiscard]] std::uint32_t key_bytes() const override { return reader_.key_bytes(); }
  [[nodiscard]] std::uint32_t most_value_bytes() const override {
    return reader_.most_value_bytes();
  }

  Result<std::vector<Found>> read(std::span<std::int64_t const> ids) override {
    std::vector<Found> found(ids.size());
    std::vector<std::uint32_t> lengths(ids.size(), kUsualValue);
    if (Status s = read_once(ids, lengths, found); !s.ok()) return s;
    if (std::ranges::all_of(lengths, [](auto bytes) { return bytes <= kUsualValue; })) return found;
    for (auto& bytes : lengths) bytes = std::max(bytes, kUsualValue);
    if (Status s = read_once(ids, lengths, found); !s.ok()) return s;  // they keep their lengths
    return found;
  }

  Status may_make(std::string_view name) override {
    return {Code::invalid_argument, "pool " + path_ +
                                        ": it is read beside its writer; make table '" +
                                        std::string(name) + "' where it is written"};
  }
  Status write(std::int64_t, std::vector<std::byte> const&) override { return may_make("?"); }
  Result<std::uint64_t> records() override { return may_make("?"); }

 private:
  /// So many bytes of each at most; how many it has is known then.
  Status read_once(std::span<std::int64_t const> ids, std::vector<std::uint32_t>& lengths,
                   std::vector<Found>& found) {
    std::vector<TableKey> keys;
    std::vector<PoolReader::Target> targets;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      keys.push_back({ids[i], tables::kCatalogue});
      found[i].content.resize(lengths[i]);
      targets.push_back({found[i].content.data(), lengths[i]});
    }
    std::vector<KeyStatus> statuses(ids.size());
    if (Status s = reader_.get(Column::of(keys), targets, statuses, lengths); !s.ok()) return s;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      found[i].status = statuses[i];
      found[i].content.resize(std::min<std::size_t>(lengths[i], found[i].content.size()));
    }
    return {};
  }

  PoolReader& reader_;
  std::string const& path_;
};

}  // namespace

Result<Table> PoolReader::table(std::string_view name, std::uint32_t row_bytes) {
  return caught([&]() -> Result<Table> {
    ReaderRecords records(*this, state_->path);
    return state_->catalogue.table(records, name, row_bytes);
  });
}

Result<std::vector<Table>> PoolReader::tables() {
  return caught([&]() -> Result<std::vector<Table>> {
    ReaderRecords records(*this, state_->path);
    return state_->catalogue.all(records);
  });
}

}  // namespace perdure
