// Host memory that is not pinned, on its way to a GPU and back: through a few pinned pieces, which
// the host's threads fill or empty while those before and after are on the link. (The driver stages
// such memory too, with one thread.) Invariant: the host touches a piece only when the copy that
// used it last has ended.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "exec/cuda/cuda_status.cuh"
#include "exec/workers.hpp"

namespace perdure::exec {

class CudaStaging {
 public:
  static constexpr std::size_t kPiece = std::size_t{4} << 20;  // bytes
  static constexpr std::size_t kLeast = std::size_t{128} << 10;  // less goes the driver's way

  CudaStaging() = default;
  CudaStaging(CudaStaging const&) = delete;
  CudaStaging& operator=(CudaStaging const&) = delete;
  ~CudaStaging() {
    for (Piece& piece : pieces_) {
      if (piece.copied != nullptr) cudaEventSynchronize(piece.copied);
      if (piece.copied != nullptr) cudaEventDestroy(piece.copied);
      cudaFreeHost(piece.data);
    }
  }

  static bool pays(void const* host, std::size_t bytes) {
    cudaPointerAttributes attributes{};
    if (bytes < kLeast) return false;
    bool const known = cudaPointerGetAttributes(&attributes, host) == cudaSuccess;
    if (!known) static_cast<void>(cudaGetLastError());
    return !known || attributes.type == cudaMemoryTypeUnregistered;
  }

  /// Returns when `from` may change again; the last pieces are still under way on the stream.
  Status send(std::byte* to, std::byte const* from, std::size_t bytes, cudaStream_t stream,
              Workers& workers) {
    for (std::size_t at = 0, n = 0; at < bytes; at += kPiece, ++n) {
      Piece& piece = pieces_[n % kPieces];
      std::size_t const size = std::min(kPiece, bytes - at);
      if (Status s = ready(piece, kPiece); !s.ok()) return s;
      workers.for_chunks(size, kChunk, [&](std::size_t begin, std::size_t end) {
        std::memcpy(piece.data + begin, from + at + begin, end - begin);
      });
      if (Status s = copy(to + at, piece.data, size, cudaMemcpyHostToDevice, piece, stream);
          !s.ok())
        return s;
    }
    return {};
  }

  /// Brings rows of `width` bytes to `to`, of them those that selected(row) names; the others stay
  /// as they are.
  template <class Selected>
  Status fetch(std::byte* to, std::byte const* from, std::size_t width, std::size_t rows,
               cudaStream_t stream, Workers& workers, Selected selected) {
    std::size_t const each = std::max<std::size_t>(1, kPiece / width);  // rows a piece
    std::size_t const pieces = (rows + each - 1) / each;
    for (std::size_t n = 0; n < pieces + kPieces - 1; ++n) {
      if (n < pieces) {
        Piece& piece = pieces_[n % kPieces];
        if (Status s = ready(piece, std::max(kPiece, width)); !s.ok()) return s;
        std::size_t const count = std::min(each, rows - n * each);
        if (Status s = copy(piece.data, from + n * each * width, count * width,
                            cudaMemcpyDeviceToHost, piece, stream);
            !s.ok())
          return s;
      }
      if (n + 1 < kPieces) continue;
      std::size_t const first = (n + 1 - kPieces) * each;
      Piece& piece = pieces_[(n + 1 - kPieces) % kPieces];
      if (Status s = ready(piece, 0); !s.ok()) return s;
      workers.for_chunks(std::min(each, rows - first), std::max<std::size_t>(1, kChunk / width),
                         [&](std::size_t begin, std::size_t end) {
                           keep_rows(to + first * width, piece.data, width, begin, end,
                                     [&](std::size_t row) { return selected(first + row); });
                         });
    }
    return {};
  }

 private:
  static constexpr std::size_t kPieces = 4;
  static constexpr std::size_t kChunk = std::size_t{128} << 10;  // bytes one thread takes at a time

  struct Piece {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    cudaEvent_t copied = nullptr;
  };

  /// Waits until the host may touch the piece; `bytes` is what it must hold.
  static Status ready(Piece& piece, std::size_t bytes) {
    if (piece.copied == nullptr) {
      if (Status s = cuda_status(cudaEventCreateWithFlags(&piece.copied, cudaEventDisableTiming),
                                 "making an event");
          !s.ok())
        return s;
    }
    if (Status s = cuda_status(cudaEventSynchronize(piece.copied), "waiting for a copy"); !s.ok())
      return s;
    if (bytes <= piece.capacity) return {};
    cudaFreeHost(piece.data);
    piece.data = nullptr;
    piece.capacity = 0;
    if (Status s =
            cuda_allocated(cudaMallocHost(&piece.data, bytes), bytes, "pinned memory for copies");
        !s.ok())
      return s;
    piece.capacity = bytes;
    return {};
  }

  static Status copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                     Piece& piece, cudaStream_t stream) {
    if (Status s = cuda_status(cudaMemcpyAsync(to, from, bytes, kind, stream),
                               "copying between host and GPU");
        !s.ok())
      return s;
    return cuda_status(cudaEventRecord(piece.copied, stream), "copying between host and GPU");
  }

  /// Rows side by side go in one copy.
  template <class Selected>
  static void keep_rows(std::byte* to, std::byte const* from, std::size_t width, std::size_t begin,
                        std::size_t end, Selected selected) {
    for (std::size_t row = begin; row < end;) {
      std::size_t const first = row;
      while (row < end && selected(row)) ++row;
      if (row > first) std::memcpy(to + first * width, from + first * width, (row - first) * width);
      while (row < end && !selected(row)) ++row;
    }
  }

  std::array<Piece, kPieces> pieces_;
};

}  // namespace perdure::exec
