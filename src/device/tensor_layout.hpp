// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <Kokkos_Macros.hpp>

#include <meander/impl/function.hpp>

namespace meander::impl::device {

/// Whether the tensor kernels exist: the matrix instructions they use came with compute capability
/// 8.0.
inline constexpr bool has_tensor_kernels =
#if defined(KOKKOS_ENABLE_CUDA) && (defined(KOKKOS_ARCH_AMPERE) || defined(KOKKOS_ARCH_ADA89) || \
                                    defined(KOKKOS_ARCH_HOPPER) || defined(KOKKOS_ARCH_BLACKWELL))
    true;
#else
    false;
#endif

/// Where PlanarCoefficients::parts holds what: w, u_hat and the Gram matrix as pieces of right
/// factors, in the order in which a warp loads them, and the scalars of the layers. Layers come in
/// blocks of 16, coordinates in steps of 16; what lies past L or D is zero.
struct TensorLayout {
  static constexpr int step  = 16;  ///< coordinates
  static constexpr int block = 16;  ///< layers
  static constexpr int group = 4;   ///< blocks that share a piece of the Gram matrix

  std::int32_t steps;   ///< of coordinates
  std::int32_t blocks;  ///< of layers

  MEANDER_FUNCTION TensorLayout(std::int32_t dim, std::int32_t layers)
      : steps((dim + step - 1) / step), blocks((layers + block - 1) / block) {}

  /// 32-bit words of what is loaded at once, two neighbouring pieces: for w and the Gram matrix the
  /// layers of a block, for u_hat the coordinates of a step.
  static constexpr int set = 384;

  /// W^T: coordinates of step k, layers of a block.
  MEANDER_FUNCTION std::size_t w(std::int32_t of_block, std::int32_t k) const {
    return (std::size_t(of_block) * steps + k) * set;
  }
  /// U_hat: layers of a block, coordinates of step k.
  MEANDER_FUNCTION std::size_t u(std::int32_t of_block, std::int32_t k) const {
    return w(blocks, 0) + (std::size_t(of_block) * steps + k) * set;
  }
  /// G^T: u_hat of block `from` (modulo `group`), w of block `to`.
  MEANDER_FUNCTION std::size_t cross(std::int32_t to, std::int32_t from) const {
    return u(blocks, 0) + (std::size_t(to) * group + from % group) * set;
  }
  /// The Gram numbers inside a block, row by row; then b, s, s - 1 of each
  /// layer and whether it exists.
  MEANDER_FUNCTION std::size_t scalars(std::int32_t of_block) const {
    return cross(blocks, 0) + std::size_t(of_block) * (block * block + 4 * block);
  }
  MEANDER_FUNCTION std::size_t size() const { return scalars(blocks); }

  /// Which coordinate of a step is column g of the n-th piece of U_hat: such that thread t gets the
  /// same four coordinates from a product as it loads for one.
  MEANDER_FUNCTION static std::int32_t coordinate(int n, int g) {
    return g / 2 * 4 + n * 2 + g % 2;
  }
};

}  // namespace meander::impl::device
