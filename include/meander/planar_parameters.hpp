// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace meander {

/// \brief The unconstrained parameters of a stack of L planar layers on R^D, as an optimizer sees
/// them.
///
/// Holds Views and copies as they do: whether two PlanarParameters share memory is the user's
/// choice. Values are float or double, in any layout.
///
/// \tparam WView rank-2 View
/// \tparam UView rank-2 View
/// \tparam BView rank-1 View
template <class WView, class UView, class BView>
struct PlanarParameters {
  WView w;  ///< (L, D)
  UView u;  ///< (L, D)
  BView b;  ///< (L)
};

template <class WView, class UView, class BView>
PlanarParameters(WView, UView, BView) -> PlanarParameters<WView, UView, BView>;

}  // namespace meander
