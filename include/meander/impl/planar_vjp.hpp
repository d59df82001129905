// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <meander/constraint.hpp>
#include <meander/impl/flow.hpp>
#include <meander/impl/function.hpp>
#include <meander/impl/map_direction.hpp>
#include <meander/impl/planar_coefficients.hpp>
#include <meander/impl/strided.hpp>

namespace meander::impl {

/// Where the sums over rows stand among the numbers of one chunk of rows. With da the gradient by
/// a = w.z + b, h the activation, z and g the row and its gradient before and after a group of
/// gram_group layers:
///   w: sum of da z,  u: sum of h g,  at the index of PlanarCoefficients;
///   b: sum of da,  s: sum of the log-det's gradient by s, times log_det_scale;
///   m: sum of da_i h_j for j < i in one group, at i * m_pitch + j % gram_group;
///   loss: sum of the log-densities, where the call is scored.
struct PlanarVjpSums {
  std::size_t w, u, b, s, m, loss, size;
  std::int32_t m_pitch;

  template <class T>
  MEANDER_FUNCTION explicit PlanarVjpSums(PlanarCoefficients<T> const& c) {
    std::size_t const layers = (std::size_t(c.layers) + c.group - 1) / c.group * c.group;
    std::size_t const matrix = layers * c.padded_dim;
    w                        = 0;
    u                        = matrix;
    b                        = u + matrix;
    s                        = b + layers;
    m                        = s + layers;
    m_pitch                  = c.group == 1 && c.layers < c.gram_group ? c.layers : c.gram_group;
    loss                     = m + layers * m_pitch;
    size                     = loss + 1;
  }
};

/// The gradient of log|det| by s is up to 1 / s: times s it stays in range, and the constraint
/// gives d(log s) for a tiny s as well. Without a constraint s may be zero.
template <class T>
MEANDER_FUNCTION T log_det_scale(PlanarCoefficients<T> const& c, std::int32_t l) {
  return c.may_be_singular ? T(1) : c.s[l];
}

/// Rows whose sums are kept apart, and then added in order. Depends on nothing but B, D and L, so
/// that gradients do not depend on threads; long enough that the sums of all chunks take memory of
/// order B (D + L), and a multiple of `unit`, the longest run that a kernel takes at once.
struct PlanarVjpChunks {
  static constexpr std::int64_t unit = 256;
  static constexpr std::int64_t most = 256;
  std::int64_t rows = 0, count = 0;

  PlanarVjpChunks(std::int64_t batch, std::int32_t dim, std::int32_t layers);

  /// At most `most_chunks` chunks of a multiple of `tile` rows.
  static PlanarVjpChunks of(std::int64_t batch, std::int64_t tile, std::int64_t most_chunks);

  /// As many as a batch of up to this many rows can have.
  static std::int64_t bound(std::int64_t max_batch, std::int32_t dim, std::int32_t layers);

 private:
  PlanarVjpChunks() = default;
};

/// The memory of a PlanarVjpWorkspace.
template <class Compute>
struct PlanarVjpMemory {
  Compute* rows          = nullptr;  ///< what kernels keep per row
  double* sums           = nullptr;  ///< of each chunk, and before them those of all
  std::int64_t max_batch = 0;
  std::int32_t slots     = 0;  ///< host: how many threads have rows of their own
};

struct PlanarVjpSizes {
  std::size_t rows, sums;
};

/// How many numbers PlanarVjpMemory holds.
template <class ExecutionSpace, class Compute>
PlanarVjpSizes planar_vjp_sizes(PlanarCoefficients<Compute> const& stack, std::int64_t max_batch,
                                std::int32_t slots);

/// \throws std::invalid_argument if a workspace cannot be for that many rows
void check_vjp_max_batch(std::int64_t max_batch);

/// \throws std::invalid_argument naming the function and the argument, if there are more rows than
/// the workspace is for
void check_vjp_batch(char const* function, char const* argument, std::int64_t batch,
                     std::int64_t max_batch);

/// What one call asks for: `from` is read by the map of that direction; grad_to and grad_log_det
/// are the gradients by what it gives. Where `scored` they are null, and those of the log-density:
/// of the base at the row that the map gives, and one. Where `undone` the rows of the inverse have
/// been through it: `from` holds what it gives.
template <class Storage, class Compute>
struct PlanarVjpCall {
  PlanarCoefficients<Compute> stack;
  MapDirection direction = MapDirection::forward;
  StridedMatrix<Storage const> from, grad_to;
  StridedVector<Storage const> grad_log_det;
  StridedMatrix<Storage> grad_from;  ///< null: not wanted
  bool with_parameters = false;
  bool scored          = false;
  bool undone          = false;
  NormalBase<Compute> base;
  PlanarVjpMemory<Compute> memory;
};

/// The gradients by the rows, and the sums that planar_vjp_parameters turns into those by the
/// parameters. Instantiated in src/ for every enabled execution space and the supported pairs of
/// storage and compute type. Asynchronous.
template <class ExecutionSpace, class Storage, class Compute>
void planar_vjp(ExecutionSpace const& exec, PlanarVjpCall<Storage, Compute> const& call);

/// The unconstrained parameters and where their gradients go, times `scale`.
template <class Parameter, class Gradient>
struct PlanarVjpParameters {
  Constraint constraint;
  MapDirection direction;
  StridedMatrix<Parameter const> w, u;
  StridedMatrix<Gradient> grad_w, grad_u;
  StridedVector<Gradient> grad_b;
  double scale = 1;
  double* loss = nullptr;  ///< takes `scale` times the sum of the log-densities; null: not wanted
};

template <class ExecutionSpace, class Compute, class Parameter, class Gradient>
void planar_vjp_parameters(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                           PlanarVjpMemory<Compute> const& memory,
                           PlanarVjpParameters<Parameter, Gradient> const& parameters);

}  // namespace meander::impl
