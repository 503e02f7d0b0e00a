// GPHash's operations, once for every machine (W) and every medium (M). The two layouts share a
// face:
//
//   probe     loads all candidate slots of a key at once (one-shot warp access, section 3.1)
//   find      the valid slot that holds the key, its record checked against it
//   plan      phase one of a batch: settles where a change will go, without publishing it
//   publish   phase two: makes it visible
//   rehash    copies what one slot of the retiring level holds to where a growth brings it
//
// A batch gives each key to one warp (operations on one key are folded before), so warps meet only
// over slots. Between plan and publish lies an ordering point; see
// store/gphash/engine/engine_on.hpp.
#pragma once

#include "index/gphash/in_place_ops.hpp"
#include "index/gphash/operation.hpp"
#include "index/gphash/word_ops.hpp"
