#include "hot_cold.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace perdure::hetero {

Result<std::unique_ptr<HotCold>> create_hot_cold(std::shared_ptr<Sides> sides,
                                                 HotColdOptions const& options) {
  auto made = HotColdTables::create(std::move(sides), options);
  if (!made) return made.status();
  return std::unique_ptr<HotCold>(std::move(*made));
}

Result<std::unique_ptr<HotColdTables>> HotColdTables::create(std::shared_ptr<Sides> sides,
                                                             HotColdOptions const& options) {
  std::unique_ptr<HotColdTables> made(new HotColdTables(std::move(sides), options));
  if (Status s = made->make(); !s.ok()) return s;
  return made;
}

Status HotColdTables::make() {
  auto hot = SharedTable::create(kept_, {options_.hot_keys, Where::host});
  if (!hot) return hot.status();
  hot_ = std::move(*hot);
  auto cold = SharedTable::create(kept_, {options_.keys, Where::device});
  if (!cold) return cold.status();
  cold_ = std::move(*cold);
  changed_.resize(options_.hot_keys);
  samples_.resize(kMostSamples);
  for (Cold& piece : pieces_) {
    piece.at.resize(kPiece);
    for (auto* const words : {&piece.keys, &piece.values}) {
      auto made = shared_words(kept_, kPiece);
      if (!made) return made.status();
      *words = std::move(*made);
    }
  }
  return {};
}

Status HotColdTables::get(Keys keys, std::span<std::uint64_t> values) {
  if (Status s = SharedTable::check(keys, values.size()); !s.ok()) return s;
  std::size_t number = 0;
  for (std::size_t at = 0; at < keys.size(); at += kPiece, ++number) {
    std::size_t const n = std::min(kPiece, keys.size() - at);
    Cold& cold = pieces_[number % 2];
    cold.n = 0;
    cold.first = at;
    look_up_hot(keys.subspan(at, n), values.subspan(at, n), cold);
    if (number > 0) {
      if (Status s = finish(pieces_[(number + 1) % 2], values); !s.ok()) return s;
    }
    GetArrays const rest{cold.keys->all().data(), cold.values->all().data(), cold.n};
    if (rest.n == 0) continue;
    View const view = cold_->device_view(Copy::device);
    if (Status s = cold_->queue().get(view, rest); !s.ok()) return s;
  }
  gets_ += keys.size();
  return number == 0 ? Status{} : finish(pieces_[(number + 1) % 2], values);
}

void HotColdTables::look_up_hot(Keys keys, std::span<std::uint64_t> values, Cold& cold) {
  sides_->workers().for_chunks(keys.size(), kPart, [&](std::size_t begin, std::size_t end) {
    Keys const part = keys.subspan(begin, end - begin);
    std::uint64_t* const answers = values.data() + begin;
    sides_->thread().get(hot_->host_view(), {part.data(), answers, part.size()}, options_.ahead);
    sample(part);
    std::size_t const absent =
        static_cast<std::size_t>(std::count(answers, answers + part.size(), kAbsent));
    std::size_t to = cold.n.fetch_add(absent, std::memory_order_relaxed);
    std::uint64_t* const cold_keys = cold.keys->all().data();
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (answers[i] != kAbsent) continue;
      cold_keys[to] = part[i];
      cold.at[to++] = static_cast<std::uint32_t>(begin + i);
    }
  });
}

void HotColdTables::sample(Keys keys) {
  std::size_t const n = (keys.size() + kWatched - 1) / kWatched;
  std::size_t const at = sampled_.fetch_add(n, std::memory_order_relaxed);
  for (std::size_t i = 0; i < n && at + i < kMostSamples; ++i)
    samples_[at + i] = keys[i * kWatched];
}

/// The device's answers of a piece go where they belong.
Status HotColdTables::finish(Cold& cold, std::span<std::uint64_t> values) {
  if (Status s = cold_->queue().wait(); !s.ok()) return s;
  std::uint64_t const* const found = cold.values->all().data();
  sides_->share_out(cold.n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) values[cold.first + cold.at[i]] = found[i];
  });
  cold_gets_ += cold.n;
  return {};
}

Status HotColdTables::put(Keys keys, Keys values) {
  if (Status s = SharedTable::check(keys, values.size()); !s.ok()) return s;
  for (std::size_t at = 0; at < keys.size(); at += kPiece) {
    std::size_t const n = std::min(kPiece, keys.size() - at);
    Cold& cold = pieces_[0];
    cold.n = 0;
    put_hot(keys.subspan(at, n), values.subspan(at, n), cold);
    std::size_t const rest = cold.n;
    if (Status s = cold_->put(cold.keys->all().first(rest), cold.values->all().first(rest));
        !s.ok())
      return s;
  }
  return {};
}

/// Those whose keys are in the small table; the others become `cold`.
void HotColdTables::put_hot(Keys keys, Keys values, Cold& cold) {
  sides_->workers().for_chunks(keys.size(), kPart, [&](std::size_t begin, std::size_t end) {
    std::array<std::uint64_t, kPart> there, hot_keys, hot_values;
    std::array<std::uint32_t, kPart> pairs, buckets;
    std::size_t const n = end - begin;
    sides_->thread().get(hot_->host_view(), {keys.data() + begin, there.data(), n}, options_.ahead);
    auto const absent =
        std::count(there.begin(), there.begin() + static_cast<std::ptrdiff_t>(n), kAbsent);
    std::size_t to = cold.n.fetch_add(static_cast<std::size_t>(absent), std::memory_order_relaxed);
    std::size_t hot = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint64_t const key = keys[begin + i], value = values[begin + i];
      if (there[i] != kAbsent) {
        hot_keys[hot] = key;
        hot_values[hot++] = value;
        continue;
      }
      cold.keys->all()[to] = key;
      cold.values->all()[to++] = value;
    }
    View view = hot_->host_view();
    view.trail.pairs = pairs.data();
    view.trail.buckets = buckets.data();
    sides_->thread().put(view, {hot_keys.data(), hot_values.data(), hot}, 0);
    for (std::size_t i = 0; i < hot; ++i) std::atomic_ref(changed_[pairs[i]]).store(1);
  });
}

/// The device's table gets what was put to hot keys.
Status HotColdTables::write_back() {
  View const& view = hot_->host_view();
  Cold& cold = pieces_[0];
  std::size_t n = 0;
  auto const send = [&]() -> Status {
    Status const done = cold_->put(cold.keys->all().first(n), cold.values->all().first(n));
    n = 0;
    return done;
  };
  for (std::uint32_t location = 0; location < *view.used; ++location) {
    if (std::exchange(changed_[location], 0) == 0) continue;
    std::byte const* const pair = view.base + view.pair(location).bytes;
    std::memcpy(&cold.keys->all()[n], pair, 8);
    std::memcpy(&cold.values->all()[n], pair + 8, 8);
    if (++n < kPiece) continue;
    if (Status s = send(); !s.ok()) return s;
  }
  return send();
}

Status HotColdTables::read_cold(Keys keys, std::vector<std::uint64_t>& values) {
  Cold& cold = pieces_[0];
  for (std::size_t at = 0; at < keys.size(); at += kPiece) {
    Keys const part = keys.subspan(at, std::min(kPiece, keys.size() - at));
    std::copy(part.begin(), part.end(), cold.keys->all().begin());
    std::span<std::uint64_t> const found = cold.values->all().first(part.size());
    if (Status s = cold_->get(cold.keys->all().first(part.size()), found, Way::device); !s.ok())
      return s;
    values.insert(values.end(), found.begin(), found.end());
  }
  return {};
}

Status HotColdTables::keep(Keys keys) {
  if (keys.size() > options_.hot_keys) {
    return {Code::invalid_argument, std::to_string(keys.size()) +
                                        " hot keys: the small table is for " +
                                        std::to_string(options_.hot_keys) + "; name fewer"};
  }
  if (Status s = write_back(); !s.ok()) return s;
  std::vector<std::uint64_t> values, hot_keys, hot_values;
  if (Status s = read_cold(keys, values); !s.ok()) return s;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (values[i] == kAbsent) continue;
    hot_keys.push_back(keys[i]);
    hot_values.push_back(values[i]);
  }
  if (Status s = hot_->clear(); !s.ok()) return s;
  return hot_->put(hot_keys, hot_values);
}

std::vector<HotColdTables::Weighed> HotColdTables::hottest() {
  std::vector<Weighed> all;
  for (auto const& [key, weight] : weights_) all.emplace_back(key, weight / 2);
  std::size_t const n = std::min<std::size_t>(sampled_, kMostSamples);
  for (std::size_t i = 0; i < n; ++i) all.emplace_back(samples_[i], 2);
  std::sort(all.begin(), all.end());
  std::vector<Weighed> summed;
  for (auto const& [key, weight] : all) {
    if (summed.empty() || summed.back().first != key) summed.emplace_back(key, 0);
    summed.back().second += weight;
  }
  std::sort(summed.begin(), summed.end(),
            [](Weighed const& a, Weighed const& b) { return a.second > b.second; });
  if (summed.size() > options_.hot_keys) summed.resize(options_.hot_keys);
  return summed;
}

Result<std::uint64_t> HotColdTables::migrate() {
  std::vector<Weighed> const next = hottest();
  std::vector<std::uint64_t> keys, before;
  for (auto const& one : next) keys.push_back(one.first);
  for (auto const& one : weights_) before.push_back(one.first);
  std::sort(before.begin(), before.end());
  if (Status s = keep(keys); !s.ok()) return s;
  sampled_ = 0;
  weights_ = next;
  return static_cast<std::uint64_t>(std::count_if(keys.begin(), keys.end(), [&](std::uint64_t key) {
    return !std::binary_search(before.begin(), before.end(), key);
  }));
}

}  // namespace perdure::hetero
