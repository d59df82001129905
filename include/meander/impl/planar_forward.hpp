// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

namespace meander::impl {

/// The forward map for checked arguments. Instantiated in src/ for every enabled execution space
/// and the supported pairs of storage and compute type. log_det.data may be null. Asynchronous.
template <class ExecutionSpace, class Storage, class Compute>
void planar_forward(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                    StridedMatrix<Storage const> z, StridedMatrix<Storage> y,
                    StridedVector<Storage> log_det);

}  // namespace meander::impl
