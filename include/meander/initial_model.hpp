// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>

#include <meander/direction.hpp>
#include <meander/model.hpp>
#include <meander/planar_options.hpp>

namespace meander {

/// \brief What a flow is before it is trained.
struct InitialOptions {
  PlanarOptions planar = {};  ///< activation, constraint, epsilon of the layers
  /// Spread of w: its coordinates are normal with this standard deviation over sqrt(D), so that
  /// w.z of standardised rows has it whatever D is. Finite and >= 0.
  double w_scale = 2;
  /// Spread of u about its starting point, likewise over sqrt(D). With L >= D that is the vector
  /// for which the layer is the identity (u_hat = 0): the flow begins near the identity. With L < D
  /// it is zero, where a layer of a constrained stack contracts along w: real data, whose
  /// coordinates are correlated, is fitted better from there, but contractions of many layers would
  /// pile up.
  /// Finite and >= 0; not given: 0.05 with L >= D, else 0.02.
  std::optional<double> u_scale = {};
  /// Standard deviation of b. Finite and >= 0; not given: 0.3 with L >= D, else 0.1.
  std::optional<double> b_scale = {};
};

/// \brief A flow of random planar layers with the base N(0, I), to begin training from.
///
/// A function of its arguments alone, made on the host: numbers are counter-based
/// (Philox4x32-10), so that a seed names the same model on every machine, up to the rounding of
/// logarithm and cosine.
///
/// \param[in] num_layers L, 1 to 2^31 - 1
/// \param[in] dim D, 1 to 2^31 - 1
/// \param[in] direction which way the layers map; generative to be trained by reverse KL and
/// sampled at no more than the cost of the map, normalizing for maximum likelihood
/// \param[in] seed any number
/// \param[in] options spreads, and what the layers are
/// \throws std::invalid_argument if an argument is out of its range
Model initial_planar_model(std::int64_t num_layers, std::int64_t dim, Direction direction,
                           std::uint64_t seed, InitialOptions const& options = {});

}  // namespace meander
