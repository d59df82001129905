// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

namespace meander::impl {

/// The inverse map for checked arguments, from y to z. Instantiated in src/ for every enabled
/// execution space and the supported pairs of storage and compute type. log_det.data may be null.
/// Asynchronous.
template <class ExecutionSpace, class Storage, class Compute>
void planar_inverse(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                    StridedMatrix<Storage const> y, StridedMatrix<Storage> z,
                    StridedVector<Storage> log_det);

}  // namespace meander::impl
