// What io_uring is asked for a request. By itself, so that a test can read the flags that make a
// write durable, also where the kernel grants no io_uring.
#pragma once

#include <liburing.h>

#include "base/hooks.hpp"
#include "wal/disk/block_device.hpp"

namespace perdure::wal {

/// `fixed`: the request's memory lies in the registered buffer.
inline void prepare(io_uring_sqe& sqe, int fd, Request const& r, bool fixed) {
  auto const bytes = static_cast<unsigned>(r.bytes);
  if (r.verb == Verb::read) {
    fixed ? io_uring_prep_read_fixed(&sqe, fd, r.data, bytes, r.offset, 0)
          : io_uring_prep_read(&sqe, fd, r.data, bytes, r.offset);
  } else {
    fixed ? io_uring_prep_write_fixed(&sqe, fd, r.data, bytes, r.offset, 0)
          : io_uring_prep_write(&sqe, fd, r.data, bytes, r.offset);
    if (r.verb == Verb::write_durably && !mutated("ring_write_without_dsync"))
      sqe.rw_flags = RWF_DSYNC;
  }
  io_uring_sqe_set_data64(&sqe, r.tag);
}

/// What the disk itself still holds back of completed writes, and the file's new length.
inline void prepare_sync(io_uring_sqe& sqe, int fd, std::uint64_t tag) {
  mutated("disk_not_synced") ? io_uring_prep_nop(&sqe)
                             : io_uring_prep_fsync(&sqe, fd, IORING_FSYNC_DATASYNC);
  io_uring_sqe_set_data64(&sqe, tag);
}

}  // namespace perdure::wal
