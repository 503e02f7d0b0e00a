// A run in a machine's memory: one allocation with all its arrays, and how they are filled.
// Invariant: see run_view.hpp; of what failed to be made nothing is left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/filter.hpp"
#include "lsm/engine/machine_engine.hpp"
#include "lsm/engine/run_view.hpp"
#include "lsm/engine/value_rows.hpp"

namespace perdure::lsm {

/// Entries or keys that one thread works on side by side: as many as a core has lines on their way.
/// A GPU has other threads meanwhile.
template <class Machine>
inline constexpr std::uint32_t kGroup = Machine::kPoolIsFar ? 1 : 16;
template <class Machine>
std::size_t groups(std::size_t n) {
  return (n + kGroup<Machine> - 1) / kGroup<Machine>;
}

/// The caller's array where the machine reads it.
template <class Machine, class T>
Result<T const*> bring(Machine& machine, typename Machine::template Buffer<T>& here,
                       std::span<T const> array) {
  if constexpr (Machine::kPoolIsFar) {
    if (array.empty()) return static_cast<T const*>(nullptr);
    if (Status s = here.resize(array.size()); !s.ok()) return s;
    if (Status s = machine.send(here.data(), array.data(), array.size()); !s.ok()) return s;
    return static_cast<T const*>(here.data());
  }
  return array.data();
}

template <class Machine>
class RunOn final : public Run {
 public:
  /// `shared`: the bytes that all keys begin with.
  RunOn(RunShape const& shape, std::uint64_t bytes, std::uint64_t key_words,
        std::vector<std::byte> shared)
      : Run(shape.count, bytes, shape.row_words()),
        key_words_(key_words),
        shared_(std::move(shared)) {}

  /// Before anybody else has it.
  Result<std::byte*> allocate() {
    if (Status s = memory_.resize(bytes()); !s.ok())
      return Status{s.code(), "a run of " + std::to_string(count()) + " keys: " + s.message()};
    return memory_.data();
  }
  void set_view(RunView const& view) { view_ = view; }

  [[nodiscard]] RunView const& view() const { return view_; }
  [[nodiscard]] std::byte const* memory() const { return memory_.data(); }
  [[nodiscard]] RunForm form() const {
    RunForm form{{}, key_words_, shared_};
    form.shape.count = view_.count;
    form.shape.shared = view_.shared;
    form.shape.width = view_.width;
    form.shape.value_size = view_.value_size;
    form.shape.sizes_vary = view_.sizes != nullptr;
    form.shape.value_sizes_vary = view_.value_sizes != nullptr;
    form.shape.has_values = view_.has_values;
    form.shape.values_inside = view_.words != nullptr || view_.rows != nullptr;
    return form;
  }
  /// Of all keys together.
  [[nodiscard]] std::uint64_t key_words() const {
    return std::max<std::uint64_t>(key_words_, count());
  }
  [[nodiscard]] std::vector<std::byte> const& shared() const { return shared_; }

  static RunOn const& of(Run const& run) { return static_cast<RunOn const&>(run); }

 private:
  RunView view_;
  std::uint64_t key_words_;  // that are kept
  std::vector<std::byte> shared_;
  typename Machine::template Buffer<std::byte> memory_;
};

/// The arrays of a run while it is made.
struct RunArrays {
  std::uint64_t* prefixes = nullptr;
  StoredVersion* versions = nullptr;
  std::uint64_t* keys = nullptr;
  std::uint32_t* places = nullptr;
  std::uint32_t* sizes = nullptr;
  std::uint32_t* value_sizes = nullptr;
  std::uint64_t* values = nullptr;  // their bytes
  std::uint64_t* samples = nullptr;
  std::uint32_t* filter = nullptr;

  /// Where they lie in memory that begins at `memory`; answers how many bytes of it they take.
  /// Without memory, that alone.
  std::uint64_t lay_out(std::byte* memory, RunShape const& shape, std::uint64_t key_words) {
    std::uint64_t at = 0;
    auto const next = [&]<class T>(T*& array, std::uint64_t n) {
      if (n == 0) return;
      if (memory != nullptr) array = reinterpret_cast<T*>(memory + at);
      at += (n * sizeof(T) + 63) / 64 * 64;
    };
    next(prefixes, whole_lines(shape.count));
    next(samples, std::uint64_t{Samples(shape.count).all_lines} * Samples::kFan);
    next(versions, shape.count);
    next(filter, FilterWord::words(shape.count));
    next(keys, key_words);
    next(places, shape.sizes_vary ? shape.count : 0);
    next(sizes, shape.sizes_vary ? shape.count : 0);
    next(value_sizes, shape.value_sizes_vary ? shape.count : 0);
    next(values, std::uint64_t{shape.count} * shape.value_words());
    return at;
  }

  /// Where that memory begins.
  [[nodiscard]] std::byte* memory() const { return reinterpret_cast<std::byte*>(prefixes); }

  [[nodiscard]] RunView view(RunShape const& shape) const {
    RunView view;
    view.count = shape.count;
    view.shared = shape.shared;
    view.width = shape.width;
    view.value_size = shape.value_size;
    view.has_values = shape.has_values;
    view.prefixes = prefixes;
    view.versions = versions;
    view.keys = keys;
    view.places = places;
    view.sizes = sizes;
    view.value_sizes = value_sizes;
    (shape.row_words() != 0 ? view.rows : view.words) = values;
    view.filter = filter;
    view.filter_words = FilterWord::words(shape.count);
    view.samples = Samples(shape.count);
    view.samples.words = samples;
    return view;
  }
  static std::uint64_t whole_lines(std::uint32_t n) {
    return std::uint64_t{Samples::lines_of(n)} * Samples::kFan;
  }
};

/// A run of that form, of which nothing is filled yet.
template <class Machine>
Result<std::shared_ptr<RunOn<Machine>>> new_run(RunForm form, RunArrays& arrays) {
  std::uint64_t const bytes = arrays.lay_out(nullptr, form.shape, form.key_words);
  auto run =
      std::make_shared<RunOn<Machine>>(form.shape, bytes, form.key_words, std::move(form.shared));
  auto const memory = run->allocate();
  if (!memory) return memory.status();
  arrays.lay_out(memory.value(), form.shape, form.key_words);
  return run;
}

template <class From>
struct KeySizesBody {
  From from;
  std::uint32_t* sizes;
  std::uint32_t* words;
  PERDURE_FN void operator()(std::size_t k) const {
    sizes[k] = from.key_size(k);
    words[k] = RunView::words_of(sizes[k]);
  }
};

template <class From>
struct FillBody {
  From from;
  RunArrays to;
  std::uint64_t* words;  // of values; null: the run has none, or rows
  std::uint32_t stride;  // of keys of one size, in words
  std::uint32_t const* places;  // of keys of several sizes
  std::uint32_t const* sizes;
  PERDURE_FN void operator()(std::size_t k) const {
    to.prefixes[k] = from.prefix(k);
    to.versions[k] = from.version(k);
    if (to.value_sizes != nullptr) to.value_sizes[k] = from.value_size(k);
    if (words != nullptr) words[k] = from.value_word(k);
    if (to.sizes != nullptr) {
      to.sizes[k] = sizes[k];
      to.places[k] = places[k];
    }
    if (to.keys == nullptr) return;
    from.copy_key(k, to.keys + (places != nullptr ? places[k] : k * stride));
  }
};

/// The samples, and what fills up the last line of prefixes.
struct SamplesBody {
  RunView run;
  std::uint64_t* prefixes;
  std::uint64_t* samples;

  static std::uint64_t items(RunView const& run) {
    return std::uint64_t{1 + run.samples.all_lines} * Samples::kFan;
  }
  PERDURE_FN void operator()(std::size_t item) const {
    constexpr std::uint32_t kFan = Samples::kFan;
    if (item < kFan) {
      std::uint64_t const at = std::uint64_t{run.count} + item;
      if (at < std::uint64_t{Samples::lines_of(run.count)} * kFan)
        prefixes[at] = Samples::kAboveAll;
      return;
    }
    std::uint64_t const place = item - kFan;
    std::uint64_t each = kFan;  // prefixes below a sample of the level
    std::uint32_t level = 1;
    for (; level < run.samples.height && place / kFan >= run.samples.lines[level]; ++level)
      each *= kFan;
    std::uint64_t const sample = place - std::uint64_t{run.samples.lines[level - 1]} * kFan;
    std::uint64_t const end = (sample + 1) * each;
    samples[place] = end < run.count ? run.prefixes[end - 1] : Samples::kAboveAll;
  }
};

struct LastPlaceBody {
  std::uint32_t const* places;
  std::uint32_t const* words;
  std::uint32_t n;
  std::uint32_t* end;
  PERDURE_FN void operator()(std::size_t) const { *end = places[n - 1] + words[n - 1]; }
};

/// Makes runs of what `From` says of each entry, in the run's order: key_size(k), copy_key(k, to),
/// prefix(k), version(k), value_size(k), value_word(k), and value_row(k), which has word(w).
template <class Machine>
class RunMaker {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

 public:
  template <class From>
  Result<RunPtr> make(Machine& machine, RunShape const& shape, From const& from,
                      std::vector<std::byte> shared) {
    PERDURE_ASSERT(shared.size() == shape.shared && (!shape.whole() || shape.shared == 0));
    auto const words = key_words(machine, shape, from);
    if (!words) return words.status();
    RunArrays arrays;
    auto made = new_run<Machine>({shape, words.value(), std::move(shared)}, arrays);
    if (!made) return made.status();
    auto& run = *made;
    std::uint32_t const row_words = shape.row_words();
    FillBody<From> const fill{from,
                              arrays,
                              row_words == 0 ? arrays.values : nullptr,
                              RunView::words_of(shape.width),
                              shape.sizes_vary ? places_.data() : nullptr,
                              sizes_.data()};
    if (Status s = machine.threads(shape.count, fill); !s.ok()) return s;
    if (row_words != 0) {
      RowLanes const lanes(Machine::kPoolIsFar, row_words);
      FillRowsBody<From> const rows{from, arrays.values, lanes};
      if (Status s = machine.threads(lanes.of(shape.count), rows); !s.ok()) return s;
    }
    RunView const view = arrays.view(shape);
    if (Status s = prepare_searches(machine, view, arrays); !s.ok()) return s;
    if (Status s = machine.wait(); !s.ok()) return s;
    run->set_view(view);
    return RunPtr(std::move(run));
  }

 private:
  static Status prepare_searches(Machine& machine, RunView const& view, RunArrays const& arrays) {
    SamplesBody const sample{view, arrays.prefixes, arrays.samples};
    if (Status s = machine.threads(SamplesBody::items(view), sample); !s.ok()) return s;
    if (view.filter == nullptr) return {};
    if (Status s = machine.fill(arrays.filter, 0, view.filter_words); !s.ok()) return s;
    FilterBody<typename Machine::Solo, kGroup<Machine>> const body{view, arrays.filter};
    return machine.threads(groups<Machine>(view.count), body);
  }

  /// Of all keys; of keys of several sizes, sizes_ and places_ then have each one's.
  template <class From>
  Result<std::uint64_t> key_words(Machine& machine, RunShape const& shape, From const& from) {
    std::uint32_t const n = shape.count;
    if (!shape.sizes_vary)
      return shape.whole() ? 0 : std::uint64_t{n} * RunView::words_of(shape.width);
    for (auto* buffer : {&sizes_, &words_, &places_}) {
      if (Status s = buffer->resize(n); !s.ok()) return s;
    }
    if (Status s = end_.resize(1); !s.ok()) return s;
    KeySizesBody<From> const body{from, sizes_.data(), words_.data()};
    if (Status s = machine.threads(n, body); !s.ok()) return s;
    if (Status s = machine.sums_before(words_.data(), places_.data(), n); !s.ok()) return s;
    LastPlaceBody const last{places_.data(), words_.data(), n, end_.data()};
    if (Status s = machine.threads(1, last); !s.ok()) return s;
    auto const end = machine.fetch(end_, 1);
    if (!end) return end.status();
    return std::uint64_t{end.value()[0]};
  }

  Buffer<std::uint32_t> sizes_, words_, places_, end_;
};

}  // namespace perdure::lsm
