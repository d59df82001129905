// SPDX-License-Identifier: BSD-3-Clause
#include <meander/initial_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include <meander/impl/flow_check.hpp>
#include <meander/impl/philox.hpp>

#include "refuse.hpp"

namespace meander {

namespace {

constexpr char const* function = "meander::initial_planar_model";

/// Standard normals of one layer, one after another (Box & Muller 1958).
class Normals {
 public:
  Normals(std::uint64_t seed, std::uint64_t layer) : seed_(seed), layer_(layer) {}

  double next() {
    constexpr int per_block = 4;
    if (used_ == per_block) {
      auto const words =
          impl::philox_words(seed_, layer_, block_++, impl::PhiloxStream::initial_words);
      for (int i = 0; i < per_block; i += 2) {
        double const radius = std::sqrt(-2 * std::log(unit(words.v[i])));
        double const angle  = 2 * std::numbers::pi * unit(words.v[i + 1]);
        normals_[i]         = radius * std::cos(angle);
        normals_[i + 1]     = radius * std::sin(angle);
      }
      used_ = 0;
    }
    return normals_[used_++];
  }

 private:
  static double unit(std::uint32_t word) {
    return (double(word) + 0.5) / (double(std::numeric_limits<std::uint32_t>::max()) + 1);
  }

  std::uint64_t seed_, layer_;
  std::uint32_t block_ = 0;
  int used_            = 4;
  double normals_[4]   = {};
};

/// The w.u for which a layer is the identity: there the constraint gives w.u_hat = 0.
double identity(Constraint constraint) {
  switch (constraint) {
    case Constraint::softplus: return 0.5413248546129181;      // log(e - 1)
    case Constraint::log_softplus: return 1.5205939171727694;  // log(exp(e - 1) - 1)
    case Constraint::none: break;
  }
  return 0;
}

void check(std::int64_t count, char const* name) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (count < 1 || count > most)
    impl::refuse(function, "argument ", name, " is ", count, ", expected a number from 1 to ",
                 most);
}

void check(double scale, char const* name) {
  if (!(std::isfinite(scale) && scale >= 0))
    impl::refuse(function, "options.", name, " is ", scale, ", expected a finite number >= 0");
}

}  // namespace

Model initial_planar_model(std::int64_t num_layers, std::int64_t dim, Direction direction,
                           std::uint64_t seed, InitialOptions const& options) {
  check(num_layers, "num_layers");
  check(dim, "dim");
  impl::check_direction(direction);
  impl::check_options(options.planar);
  check(options.w_scale, "w_scale");
  // Measured on the densities of Rezende & Mohamed and on tabular data (docs/experiments.md).
  bool const from_identity = num_layers >= dim;
  double const u_scale     = options.u_scale.value_or(from_identity ? 0.05 : 0.02);
  double const b_scale     = options.b_scale.value_or(from_identity ? 0.3 : 0.1);
  check(u_scale, "u_scale");
  check(b_scale, "b_scale");
  PlanarLayers layers;
  layers.count      = num_layers;
  layers.dim        = dim;
  layers.options    = options.planar;
  double const root = std::sqrt(double(dim));
  for (std::int64_t l = 0; l < num_layers; ++l) {
    Normals normals(seed, static_cast<std::uint64_t>(l));
    for (std::int64_t d = 0; d < dim; ++d)
      layers.w.push_back(options.w_scale / root * normals.next());
    auto const w         = layers.w.end() - dim;
    double const squares = std::inner_product(w, layers.w.end(), w, 0.0);
    // A w that happens to be short must not make u long.
    double const bounded = std::max(squares, options.w_scale * options.w_scale / 4);
    double const along_w =
        from_identity && bounded > 0 ? identity(options.planar.constraint) / bounded : 0.0;
    for (std::int64_t d = 0; d < dim; ++d)
      layers.u.push_back(along_w * w[d] + u_scale / root * normals.next());
    layers.b.push_back(b_scale * normals.next());
  }
  Model model;
  model.direction = direction;
  model.stored    = ScalarType::float64;
  model.layers.emplace_back(std::move(layers));
  return model;
}

}  // namespace meander
