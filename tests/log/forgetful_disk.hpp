// A whole disk in memory that misbehaves as disks may: its files are faulty_disk.hpp's, and its
// directories forget, too. A name that was made, renamed or removed may be as it was before, after
// a power cut, unless its directory was synced since. Whole stores run on it
// (src/wal/disk/disk.hpp). Requests that change something are counted, and at one of them the power
// fails, or it ends with an error. Everything follows from one seed.
#pragma once

#include <map>
#include <string>

#include "faulty_disk.hpp"
#include "wal/disk/renaming_disk.hpp"

namespace perdure::wal::test {

enum class Mishap : std::uint8_t { none, power, error, read_error, full, kill };

class ForgetfulDisk : public wal::RenamingDisk {
 public:
  /// A request, for tests that look at what was asked.
  struct Event {
    enum class What : std::uint8_t {
      write,
      write_durably,
      sync,
      create,
      make_directory,
      rename,
      remove,
      sync_directory
    };
    What what;
    std::string name;  // the last part of it
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  explicit ForgetfulDisk(std::uint64_t seed) : random_(seed) { use_disk(this); }
  ~ForgetfulDisk() override { use_disk(nullptr); }
  ForgetfulDisk(ForgetfulDisk const&) = delete;
  ForgetfulDisk& operator=(ForgetfulDisk const&) = delete;

  /// At request number `at` from now on, 1 the first; `full`: from there on.
  void plan(Mishap mishap, std::uint64_t at, int error = EIO) {
    std::lock_guard const lock(mutex_);
    mishap_ = mishap;
    at_ = at;
    error_ = error;
    requests_ = reads_ = 0;
    happened_ = false;
  }
  [[nodiscard]] bool happened() const {
    std::lock_guard const lock(mutex_);
    return happened_;
  }
  [[nodiscard]] bool dead() const {
    std::lock_guard const lock(mutex_);
    return dead_;
  }
  [[nodiscard]] std::uint64_t requests() const {
    std::lock_guard const lock(mutex_);
    return requests_;
  }
  [[nodiscard]] std::vector<Event> events() const {
    std::lock_guard const lock(mutex_);
    return events_;
  }
  void short_writes(bool whether) { short_writes_ = whether; }

  /// What was not synced may be lost, files and names; every request fails from here on.
  void cut_power() {
    std::lock_guard const lock(mutex_);
    dead_ = happened_ = true;
    for (auto const& node : nodes_) node->directory ? forget_names(*node) : node->file->cut_power();
    for (auto const& node : nodes_) node->writer = node->reader = {};
  }
  /// The process is killed: nothing is lost yet; every request fails from here on.
  void kill() {
    std::lock_guard const lock(mutex_);
    dead_ = happened_ = true;
    for (auto const& node : nodes_) {
      if (!node->directory) node->file->kill();
      node->writer = node->reader = {};
    }
  }
  /// The power is back, or the next process there.
  void restore() {
    std::lock_guard const lock(mutex_);
    dead_ = false;
    mishap_ = Mishap::none;
    for (auto const& node : nodes_)
      if (!node->directory) node->file->restore();
  }

  /// The file's own faults; null where there is none.
  [[nodiscard]] std::shared_ptr<FaultyDisk> file(std::string const& path) const {
    std::lock_guard const lock(mutex_);
    auto const node = find(path);
    return node ? node->file : nullptr;
  }

  Result<std::unique_ptr<BlockDevice>> open(std::string const& path, OpenMode mode,
                                            IoOptions const&) override {
    if (mode == OpenMode::create) {
      if (Status s = create(path); !s.ok()) return s;
    }
    std::lock_guard const lock(mutex_);
    auto const node = find(path);
    if (!node || node->directory)
      return Status{Code::not_found, "file " + path + ": no such file or directory"};
    bool const reads = mode == OpenMode::read_only;
    if (!node->writer.expired() || (!reads && !node->reader.expired()))
      return Status{Code::busy, "file " + path + " is open elsewhere; close it there first"};
    std::shared_ptr<void> held = reads ? node->reader.lock() : nullptr;
    if (!held) held = std::make_shared<int>();
    (reads ? node->reader : node->writer) = held;
    return std::unique_ptr<BlockDevice>(std::make_unique<FaultyDevice>(node->file, held));
  }

  Result<bool> make_directory(std::string const& path, mode_t) override {
    {
      std::lock_guard const lock(mutex_);
      if (find(path)) return false;
    }
    return change(
               Event::What::make_directory, path,
               [&] {
                 auto node = std::make_shared<Node>();
                 node->directory = true;
                 nodes_.push_back(node);
                 return Change{name_of(path), node, {}};
               }).ok()
               ? Result<bool>(true)
               : Result<bool>(io_error(path));
  }

  Result<bool> forgets(std::string const& directory) override {
    std::lock_guard const lock(mutex_);
    auto const node = find(directory);
    if (!node || !node->directory)
      return Status{Code::not_found, "directory " + directory + ": no such directory"};
    return false;
  }

  Result<std::optional<Found>> look(std::string const& path, std::size_t head_bytes) override {
    std::lock_guard const lock(mutex_);
    auto const node = find(path);
    if (!node) return std::optional<Found>{};
    Found found{!node->directory, {}};
    if (node->directory) return std::optional<Found>{found};
    std::lock_guard const file(node->file->mutex);
    auto const& bytes = node->file->cache;
    found.head.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(
                                                         std::min(bytes.size(), head_bytes)));
    return std::optional<Found>{found};
  }

  Status rename(std::string const& from, std::string const& to, bool replace) override {
    {
      std::lock_guard const lock(mutex_);
      if (!find(from)) return {Code::not_found, "file " + from + ": no such file"};
      if (!replace && find(to)) return {Code::already_exists, "file " + to + " is there already"};
    }
    return change(Event::What::rename, to,
                  [&] { return Change{name_of(to), find(from), name_of(from)}; });
  }

  Status remove(std::string const& path) override {
    {
      std::lock_guard const lock(mutex_);
      if (!find(path)) return {Code::not_found, "file " + path + ": no such file"};
    }
    return change(Event::What::remove, path, [&] { return Change{name_of(path), nullptr, {}}; });
  }

  Status sync_directory_of(std::string const& path) override {
    if (asked(Event::What::sync_directory, path, 0, 0, false) != 0) return io_error(path);
    std::lock_guard const lock(mutex_);
    auto const directory = find(directory_of(path));
    if (!directory) return {Code::not_found, "directory of " + path + ": no such directory"};
    directory->lasting = directory->now;
    directory->pending.clear();
    return {};
  }

 private:
  struct Node;
  /// Of a directory: a name, and what it leads to (null: nothing). `was`: the name that it had
  /// before.
  struct Change {
    std::string name;
    std::shared_ptr<Node> node;
    std::string was;
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  struct Node {
    bool directory = false;
    std::shared_ptr<FaultyDisk> file;
    std::weak_ptr<void> writer, reader;  // who has it open
    Names now, lasting;
    std::vector<Change> pending;  // since `lasting`
  };

  static Status io_error(std::string const& path) {
    return {Code::io_error, path + ": " + std::strerror(EIO)};
  }
  static std::string name_of(std::string const& path) { return path.substr(path.rfind('/') + 1); }
  /// Which a file that is made has once it is kept.
  static std::string lasting_name_of(std::string const& path) {
    std::string const name = name_of(path), partial = pm::partial_name("");
    return name.ends_with(partial) ? name.substr(0, name.size() - partial.size()) : name;
  }
  static std::string directory_of(std::string const& path) {
    return path.substr(0, path.rfind('/'));
  }

  static void apply(Names& names, Change const& change) {
    if (!change.was.empty()) names.erase(change.was);
    change.node ? static_cast<void>(names[change.name] = change.node)
                : static_cast<void>(names.erase(change.name));
  }

  /// The root is there, and has no name. The caller holds mutex_.
  [[nodiscard]] std::shared_ptr<Node> find(std::string const& path) const {
    auto node = root_;
    for (std::size_t at = 1; at < path.size() && node;) {
      auto const end = std::min(path.find('/', at), path.size());
      auto const next = node->now.find(path.substr(at, end - at));
      node = next == node->now.end() ? nullptr : next->second;
      at = end + 1;
    }
    return node;
  }

  Status create(std::string const& path) {
    {
      std::lock_guard const lock(mutex_);
      if (find(path))
        return {Code::already_exists,
                "file " + path + ": is there already; remove it, or name another"};
    }
    return change(Event::What::create, path, [&] {
      auto node = std::make_shared<Node>();
      node->file = std::make_shared<FaultyDisk>(random_());
      node->file->short_writes = short_writes_;
      node->file->asked = [this, name = lasting_name_of(path)](Asked what, std::uint64_t offset,
                                                               std::uint64_t bytes, bool grows) {
        if (what == Asked::read) return asked_to_read();
        return asked(static_cast<Event::What>(static_cast<int>(what) - 1), name, offset, bytes,
                     grows);
      };
      nodes_.push_back(node);
      return Change{name_of(path), node, {}};
    });
  }

  /// Under way when the power fails, a change of names may have been made or not.
  template <class Make>
  Status change(Event::What what, std::string const& path, Make const& make) {
    int const fails = asked(
        what, path, 0, 0, what == Event::What::create || what == Event::What::make_directory, [&] {
          auto const directory = find(directory_of(path));
          if (!directory) return;
          Change const change = make();
          directory->pending.push_back(change);
          apply(directory->now, change);
        });
    if (fails == 0) return {};
    return fails == ENOSPC ? Status{Code::no_space, path + ": its file system is full"}
                           : io_error(path);
  }

  /// The errno that a request ends with. `doing` is done with the lock held, also where the power
  /// then fails.
  template <class Doing>
  int asked(Event::What what, std::string const& path, std::uint64_t offset, std::uint64_t bytes,
            bool grows, Doing const& doing) {
    bool ends = false;
    {
      std::lock_guard const lock(mutex_);
      if (dead_) return EIO;
      events_.push_back({what, name_of(path), offset, bytes});
      ++requests_;
      ends = (mishap_ == Mishap::power || mishap_ == Mishap::kill) && requests_ == at_;
      bool const fails = (mishap_ == Mishap::error && requests_ == at_) ||
                         (mishap_ == Mishap::full && requests_ >= at_ && grows);
      happened_ |= fails;
      if (fails) return mishap_ == Mishap::full ? ENOSPC : error_;
      doing();
    }
    if (ends) mishap_ == Mishap::kill ? kill() : cut_power();
    return ends ? EIO : 0;
  }
  int asked(Event::What what, std::string const& path, std::uint64_t offset, std::uint64_t bytes,
            bool grows) {
    return asked(what, path, offset, bytes, grows, [] {});
  }
  int asked_to_read() {
    std::lock_guard const lock(mutex_);
    if (dead_) return EIO;
    bool const fails = ++reads_ == at_ && mishap_ == Mishap::read_error;
    happened_ |= fails;
    return fails ? error_ : 0;
  }

  /// All changes since the last sync, none, the first few, or any.
  void forget_names(Node& directory) {
    std::uint64_t const fate = random_() % 4;
    std::size_t const first =
        directory.pending.empty() ? 0 : random_() % (directory.pending.size() + 1);
    for (std::size_t i = 0; i < directory.pending.size(); ++i) {
      bool const there =
          fate == 0 || (fate == 1 && i < first) || (fate == 3 && (random_() & 1) != 0);
      if (there) apply(directory.lasting, directory.pending[i]);
    }
    directory.pending.clear();
    directory.now = directory.lasting;
  }

  static std::shared_ptr<Node> new_root() {
    auto root = std::make_shared<Node>();
    root->directory = true;
    return root;
  }

  mutable std::mutex mutex_;  // guards the rest; taken before a file's
  std::mt19937_64 random_;
  std::shared_ptr<Node> const root_ = new_root();
  std::vector<std::shared_ptr<Node>> nodes_{root_};
  std::vector<Event> events_;
  Mishap mishap_ = Mishap::none;
  std::uint64_t at_ = 0, requests_ = 0, reads_ = 0;
  int error_ = EIO;
  bool happened_ = false, dead_ = false, short_writes_ = false;
};

}  // namespace perdure::wal::test
