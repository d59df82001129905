// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <meander/impl/function.hpp>
#include <meander/planar_options.hpp>

namespace meander::impl {

/// A prepared stack as the kernels read it. All pointers lie in one allocation of the stack.
///
/// Layers are taken in groups of `group`: inside a group the coefficients of one coordinate stand
/// side by side, so that a kernel which handles a whole group reads them in order. Element (l, d)
/// of w and u_hat is at index(l, d). With group = 1 that is the row-major (L, padded_dim) matrix.
///
/// `gram` holds, for any two layers i, j of one group of `gram_group` layers, w_i . u_hat_j at
/// (i * gram_group + j % gram_group): the chain of such a group needs only scalars per row (Gram
/// form). The forward map reads the numbers with j < i, the inverse those with j > i. Not the
/// diagonal: that is s_minus_1.
template <class T>
struct PlanarCoefficients {
  T* w         = nullptr;
  T* u_hat     = nullptr;
  T* b         = nullptr;
  T* s         = nullptr;  ///< 1 + w.u_hat, taken from the constraint, never from the dot product
  T* s_minus_1 = nullptr;  ///< w.u_hat, likewise
  T* gram      = nullptr;
  /// 1 where the running product of determinants must go through a logarithm after this layer, else
  /// 0. The last layer's is always 1. Set so that the product can neither overflow nor underflow.
  T* take_log = nullptr;
  /// The same numbers once more in the form of device/tensor_coefficients.hpp; null where no kernel
  /// reads them.
  T* parts                = nullptr;
  std::int32_t dim        = 0;
  std::int32_t padded_dim = 0;  ///< dim rounded up to a multiple of 4; the padding is zero
  std::int32_t layers     = 0;
  std::int32_t group      = 1;
  std::int32_t gram_group = 1;
  Activation activation   = Activation::tanh;
  bool may_be_singular    = false;  ///< Constraint::none: a determinant can be zero or negative
  T negative_slope        = 0;
  T log_det_epsilon       = 0;

  MEANDER_FUNCTION std::size_t index(std::int32_t l, std::int32_t d) const {
    return (std::size_t(l / group) * std::size_t(padded_dim) + std::size_t(d)) *
               std::size_t(group) +
           std::size_t(l % group);
  }
};

}  // namespace meander::impl
