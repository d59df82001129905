// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <meander/base.hpp>
#include <meander/direction.hpp>
#include <meander/planar_options.hpp>

namespace meander {

/// \brief The type that the tensors of a model file are stored in.
enum class ScalarType { float32, float64 };

/// \brief The word used for a scalar type in messages.
constexpr char const* to_string(ScalarType type) {
  switch (type) {
    case ScalarType::float32: return "float32";
    case ScalarType::float64: return "float64";
  }
  return "unknown";
}

/// \brief A run of planar layers that share their options.
struct PlanarLayers {
  std::int64_t count = 0;  ///< L, the number of layers
  std::int64_t dim   = 0;  ///< D, the length of a row
  PlanarOptions options;
  /// Unconstrained parameters as an optimizer sees them, row-major: w and u are (count, dim), b is
  /// (count). Parameters stored as float32 are exact in double.
  std::vector<double> w, u, b;

  friend bool operator==(PlanarLayers const&, PlanarLayers const&) = default;
};

/// \brief An elementwise affine layer, f(z)_d = shift_d + exp(log_scale_d) z_d.
struct AffineLayer {
  std::int64_t dim = 0;  ///< D, the length of a row and of both vectors
  std::vector<double> shift, log_scale;

  friend bool operator==(AffineLayer const&, AffineLayer const&) = default;
};

/// \brief The base distribution N(loc, diag(exp(log_scale))^2); both vectors have length D.
struct DiagonalNormal {
  std::vector<double> loc, log_scale;

  friend bool operator==(DiagonalNormal const&, DiagonalNormal const&) = default;
};

/// \brief A flow as a model file holds it: a base distribution and a stack of layers, in host
/// memory.
struct Model {
  Direction direction = Direction::generative;
  std::variant<StandardNormal, DiagonalNormal> base;
  /// Applied in order. A further flow family adds an alternative to this variant.
  std::vector<std::variant<PlanarLayers, AffineLayer>> layers;
  ScalarType stored = ScalarType::float32;
  /// The layout that was recognised on reading: "meander", "bare" or "normflows".
  std::string layout = "meander";

  /// \brief D, the length of a row; 0 if neither a layer nor the base says it.
  std::int64_t dim() const;

  friend bool operator==(Model const&, Model const&) = default;
};

}  // namespace meander
