// Which instantiation of the engine a store needs. Counting builds and unusual shapes share the generic shape's code.
#pragma once

#include "index/gphash/ops.hpp"
#include "store/engine.hpp"

namespace perdure {

/// make.template operator()<Ops, kCounted>() makes it. Where the pool is far, `word` is always of the kind that may
/// have a mirror; elsewhere only tests ask for one.
template <bool kPoolIsFar, class Make>
auto choose_engine(EngineOptions const& options, Make make) {
  using gphash::InPlaceOps;
  using gphash::Shape228;
  using gphash::ShapeAny;
  using gphash::WordOps;
  if (options.in_place) {
    if (options.count_accesses) return make.template operator()<InPlaceOps<ShapeAny>, true>();
    if (options.default_shape) return make.template operator()<InPlaceOps<Shape228>, false>();
    return make.template operator()<InPlaceOps<ShapeAny>, false>();
  }
  if constexpr (kPoolIsFar) {
    if (options.count_accesses) return make.template operator()<WordOps<ShapeAny, true>, true>();
    if (options.default_shape) return make.template operator()<WordOps<Shape228, true>, false>();
    return make.template operator()<WordOps<ShapeAny, true>, false>();
  } else {
    if (options.mirrored && options.count_accesses) return make.template operator()<WordOps<ShapeAny, true>, true>();
    if (options.mirrored) return make.template operator()<WordOps<ShapeAny, true>, false>();
    if (options.count_accesses) return make.template operator()<WordOps<ShapeAny>, true>();
    if (options.default_shape) return make.template operator()<WordOps<Shape228>, false>();
    return make.template operator()<WordOps<ShapeAny>, false>();
  }
}

}  // namespace perdure
