// Which instantiation of the engine a store needs. Unusual shapes share the generic shape's code.
#pragma once

#include "index/gphash/ops.hpp"
#include "store/gphash/engine/engine.hpp"

namespace perdure {

/// make.template operator()<Ops>() makes it. Where the pool is far, `word` is always of the kind
/// that may have a mirror; elsewhere only tests ask for one.
template <bool kPoolIsFar, class Make>
auto choose_engine(EngineOptions const& options, Make make) {
  using gphash::InPlaceOps;
  using gphash::Shape228;
  using gphash::ShapeAny;
  using gphash::WordOps;
  if (options.in_place) {
    if (options.default_shape) return make.template operator()<InPlaceOps<Shape228>>();
    return make.template operator()<InPlaceOps<ShapeAny>>();
  }
  if (options.hashed) return make.template operator()<WordOps<Shape228, true, true, true>>();
  if (options.logged) return make.template operator()<WordOps<Shape228, true, true>>();
  if constexpr (kPoolIsFar) {
    if (options.default_shape) return make.template operator()<WordOps<Shape228, true>>();
    return make.template operator()<WordOps<ShapeAny, true>>();
  } else {
    if (options.mirrored) return make.template operator()<WordOps<ShapeAny, true>>();
    if (options.default_shape) return make.template operator()<WordOps<Shape228>>();
    return make.template operator()<WordOps<ShapeAny>>();
  }
}

}  // namespace perdure
