// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include <meander/base.hpp>
#include <meander/impl/affine.hpp>
#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

namespace meander::impl {

inline constexpr double half_log_two_pi = 0.91893853320467274178;

/// N(loc, diag(scale)^2) as the kernels read it; a null loc means N(0, I).
template <class T>
struct NormalBase {
  T const* loc           = nullptr;  ///< (D)
  T const* scale         = nullptr;  ///< (D)
  T const* inverse_scale = nullptr;  ///< (D)
  T const* log_volume    = nullptr;  ///< (1), the sum of the logarithms of scale
};

/// The layers of one family, prepared. A further flow family adds an alternative.
template <class T>
using FlowLayer = std::variant<PlanarCoefficients<T>, AffineCoefficients>;

/// A flow as src/ reads it. What it points to belongs to the Flow.
template <class T>
struct FlowState {
  std::int32_t dim = 0;
  NormalBase<T> base;
  FlowLayer<T> const* layers  = nullptr;  ///< host memory, in the order they were fitted in
  std::int32_t num_layers     = 0;
  bool generative             = true;     ///< the layers map latent rows to data rows
  T* workspace                = nullptr;  ///< see workspace_size
  std::int64_t workspace_rows = 0;
};

/// What one call asks for. Rows come from `from` or are drawn, pass through the layers, and go to
/// `to`; `log` takes log|det| of that map or, where `scored`, the log-density of the data rows.
template <class Storage, class Compute>
struct FlowCall {
  FlowState<Compute> flow;
  bool to_data      = true;  ///< from latent to data rows, else from data to latent rows
  bool scored       = false;
  std::int64_t rows = 0;
  StridedMatrix<Storage const> from;  ///< null: row i is drawn from the base as row first_row + i
  std::uint64_t seed      = 0;
  std::uint64_t first_row = 0;
  StridedMatrix<Storage> drawn;  ///< the rows as they were drawn; null: not wanted
  StridedMatrix<Storage> to;     ///< null: not wanted
  StridedVector<Storage> log;    ///< null: not wanted
};

/// The one entry to the kernels, for checked arguments. Instantiated in src/ for every enabled
/// execution space and the supported pairs of storage and compute type. Asynchronous.
template <class ExecutionSpace, class Storage, class Compute>
void run_flow(ExecutionSpace const& exec, FlowCall<Storage, Compute> const& call);

/// How many rows of the workspace a flow needs on this space, and how many numbers they take.
struct Workspace {
  std::int64_t rows = 0;
  std::size_t size  = 0;
};
template <class ExecutionSpace, class Compute>
Workspace workspace(FlowState<Compute> const& flow);

/// Distributes 3 D + 1 numbers of `storage` to the base and fills them. Asynchronous.
template <class ExecutionSpace, class Compute, class Parameter>
void prepare_base(ExecutionSpace const& exec, std::int32_t dim, Compute* storage,
                  NormalBase<Compute>& base, StridedVector<Parameter const> loc,
                  StridedVector<Parameter const> log_scale);

}  // namespace meander::impl
