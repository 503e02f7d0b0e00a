// Scans and ranges, page by page, and the byte strings that they and gets answer.
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "capi/guard.hpp"
#include "capi/options.hpp"

namespace perdure::capi {
namespace {

using Range = std::optional<RangeQuery>;

/// What a page without records begins and ends at.
constexpr std::array<std::int64_t, 1> kNoOffsets = {0};

bool is_done(perdure_cursor const& cursor) {
  if (auto const* const range = std::get_if<Range>(&cursor.at)) return !range->has_value();
  return std::get<ScanCursor>(cursor.at).done;
}

/// Moves what a page of the C++ interface has into one of ours.
template <class Page>
void take_page(Page& from, perdure_page& page) {
  page.keys.values = std::move(from.keys);
  page.values.values = std::move(from.values);
}

Status scan_page(Store& store, ScanCursor& at, std::size_t limit, std::atomic<bool> const* stop,
                 perdure_page& page) {
  auto scanned = store.scan(at, limit, stop);
  if (!scanned.ok()) return scanned.status();
  take_page(*scanned, page);
  at = std::move(scanned->next);
  return {};
}

Status range_page(Store& store, Range& at, std::size_t limit, std::atomic<bool> const* stop,
                  perdure_page& page) {
  at->limit = limit;
  auto found = store.range(*at, stop);
  if (!found.ok()) return found.status();
  take_page(*found, page);
  at = std::move(found->next);
  return {};
}

Status next_page(Store& store, perdure_cursor& cursor, std::size_t limit,
                 std::atomic<bool> const* stop, perdure_page& page) {
  if (limit == 0)
    return {Code::invalid_argument, "limit is 0; ask for one record of a page at least"};
  if (is_done(cursor)) return store.belongs_here();
  if (auto* const range = std::get_if<Range>(&cursor.at))
    return range_page(store, *range, limit, stop, page);
  return scan_page(store, std::get<ScanCursor>(cursor.at), limit, stop, page);
}

}  // namespace
}  // namespace perdure::capi

using perdure::Status;
using perdure::Store;
namespace capi = perdure::capi;

extern "C" {

perdure_code perdure_scan(perdure_cursor** cursor, perdure_error** error) {
  capi::clear(cursor);
  return capi::guarded(error, [&] {
    return capi::make(cursor, "cursor", [](perdure_cursor&) { return Status{}; });
  });
}

perdure_code perdure_range(perdure_range_query const* query, perdure_cursor** cursor,
                           perdure_error** error) {
  capi::clear(cursor);
  return capi::guarded(error, [&] {
    return capi::make(cursor, "cursor", [&](perdure_cursor& object) -> Status {
      auto asked = capi::range_query(query);
      if (!asked.ok()) return asked.status();
      object.at = perdure::capi::Range(std::move(*asked));
      return {};
    });
  });
}

perdure_code perdure_next_page(perdure_store* store, perdure_cursor* cursor, std::size_t limit,
                               perdure_stop const* stop, perdure_page** page,
                               perdure_error** error) {
  capi::clear(page);
  return capi::in_store(store, error, [&](Store& open) {
    return capi::make(page, "page", [&](perdure_page& object) -> Status {
      if (cursor == nullptr) return capi::no_argument("cursor");
      return capi::next_page(open, *cursor, limit, stop != nullptr ? &stop->stopped : nullptr,
                             object);
    });
  });
}

std::uint32_t perdure_cursor_done(perdure_cursor const* cursor) {
  return cursor == nullptr || capi::is_done(*cursor) ? 1 : 0;
}

void perdure_cursor_free(perdure_cursor* cursor) { delete cursor; }

perdure_strings const* perdure_page_keys(perdure_page const* page) {
  return page != nullptr ? &page->keys : nullptr;
}

perdure_strings const* perdure_page_values(perdure_page const* page) {
  return page != nullptr ? &page->values : nullptr;
}

void perdure_page_free(perdure_page* page) { delete page; }

perdure_code perdure_count_range(perdure_store* store, perdure_range_query const* query,
                                 std::uint64_t* count, perdure_error** error) {
  return capi::in_store(store, error, [&](Store& open) -> Status {
    if (count == nullptr) return capi::no_argument("count");
    auto const asked = capi::range_query(query);
    if (!asked.ok()) return asked.status();
    auto const counted = open.count_range(asked.value());
    if (!counted.ok()) return counted.status();
    *count = counted.value();
    return {};
  });
}

std::size_t perdure_strings_count(perdure_strings const* strings) {
  if (strings == nullptr || strings->values.offsets.empty()) return 0;
  return strings->values.offsets.size() - 1;
}

std::int64_t const* perdure_strings_offsets(perdure_strings const* strings) {
  if (strings == nullptr || strings->values.offsets.empty()) return capi::kNoOffsets.data();
  return strings->values.offsets.data();
}

void const* perdure_strings_data(perdure_strings const* strings) {
  if (strings == nullptr || strings->values.data.empty()) return capi::kNoOffsets.data();
  return strings->values.data.data();
}

void perdure_strings_free(perdure_strings* strings) { delete strings; }

}  // extern "C"
