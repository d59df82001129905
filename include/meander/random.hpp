// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <type_traits>

#include <Kokkos_Core.hpp>

#include <meander/impl/check.hpp>
#include <meander/impl/random.hpp>
#include <meander/impl/strided.hpp>
#include <meander/impl/view_traits.hpp>

namespace meander {

/// \brief Fills a batch of rows with independent standard normal numbers.
///
/// The numbers are a function of the seed, the number of the row and the coordinate alone
/// (Philox4x32-10, Salmon et al. 2011, and the method of Box & Muller 1958): row i of a seed is the
/// same in any batch, on any number of threads or ranks, and on every backend up to the rounding of
/// a logarithm, a square root and a sine. Float and double draws agree to
/// float's rounding but for those far out (three in a million differ by more than 8 ulp, up to
/// 3e-4), since double takes 32 bits more; they end at 6.77 and 9.42. Rows of two seeds, and two
/// rows of one seed, are independent for every practical purpose.
///
/// Asynchronous with respect to the host: the work is queued on `exec`; nothing is allocated,
/// copied or fenced.
///
/// \tparam Compute type of the arithmetic, float or double; the value type of x if not given
/// \param[in] exec the instance the work is queued on
/// \param[in] seed any number
/// \param[in] first_row the number of the first row of x
/// \param[out] x (B, D), any layout; float or double, no wider than Compute
/// \throws std::invalid_argument if two elements of x share an address, or first_row + B exceeds
/// 2^64
template <class Compute = void, class ExecutionSpace, class View>
void fill_normal(ExecutionSpace const& exec, std::uint64_t seed, std::uint64_t first_row,
                 View const& x) {
  static_assert(Kokkos::is_execution_space_v<ExecutionSpace>,
                "meander::fill_normal: exec must be an instance of a Kokkos execution space.");
  static_assert(Kokkos::is_view_v<View>, "meander::fill_normal: x must be a Kokkos View.");
  static_assert(View::rank() == 2, "meander::fill_normal: x must have rank 2 (batch, dimension).");
  static_assert(impl::is_writable_v<View>, "meander::fill_normal: x must not be a View of const.");
  using Storage = impl::value_t<View>;
  using C       = std::conditional_t<std::is_void_v<Compute>, Storage, Compute>;
  static_assert(impl::is_supported_pair_v<Storage, C>,
                "meander::fill_normal: the value type of x must be float or double and no wider "
                "than Compute.");
  static_assert(impl::is_accessible_from_v<View, ExecutionSpace>,
                "meander::fill_normal: x must lie in memory that the execution space can access.");
  auto const matrix = impl::strided_matrix(x);
  impl::check_distinct("meander::fill_normal", "x", impl::elements(matrix));
  impl::check_first_row("meander::fill_normal", first_row, matrix.extent0);
  impl::fill_normal<C>(exec, seed, first_row, matrix);
}

}  // namespace meander
