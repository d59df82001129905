// SPDX-License-Identifier: BSD-3-Clause
#include "planar_layers.hpp"

namespace meander::impl::host {

template struct PlanarMap<float, float, MapDirection::inverse>;
template struct PlanarMap<double, double, MapDirection::inverse>;
template struct PlanarMap<float, double, MapDirection::inverse>;

}  // namespace meander::impl::host
