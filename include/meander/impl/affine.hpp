// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <meander/impl/map_direction.hpp>
#include <meander/impl/strided.hpp>

namespace meander::impl {

/// An affine layer as the kernels read it. Double whatever the rows are and the other layers
/// compute in: next to reading a row that costs nothing, and a shift that is large against the
/// scale, as that of data far from zero is, loses nothing.
struct AffineCoefficients {
  double const* shift         = nullptr;  ///< (D)
  double const* scale         = nullptr;  ///< (D)
  double const* inverse_scale = nullptr;  ///< (D)
  double const* log_volume    = nullptr;  ///< (1), the sum of log_scale
  std::int32_t dim            = 0;
};

/// How many numbers affine_prepare fills.
inline std::size_t affine_storage_size(std::int32_t dim) { return 3 * std::size_t(dim) + 1; }

/// \throws std::invalid_argument if D is not in [1, max_dim]
void check_affine_dim(std::int64_t dim, std::int64_t max_dim);

/// The coefficients that lie in `storage`.
AffineCoefficients affine_coefficients(std::int32_t dim, double const* storage);

/// Fills `storage` from the parameters. Asynchronous.
template <class ExecutionSpace, class Parameter>
void affine_prepare(ExecutionSpace const& exec, std::int32_t dim, double* storage,
                    StridedVector<Parameter const> shift, StridedVector<Parameter const> log_scale);

/// The map for checked arguments. Instantiated in src/ for every enabled execution space.
/// log_det.data may be null. Asynchronous.
template <class ExecutionSpace, class Storage>
void affine_map(ExecutionSpace const& exec, AffineCoefficients const& layer, MapDirection direction,
                StridedMatrix<Storage const> from, StridedMatrix<Storage> to,
                StridedVector<Storage> log_det);

}  // namespace meander::impl
