// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace meander {

/// \brief The base distribution N(0, I).
struct StandardNormal {
  friend bool operator==(StandardNormal const&, StandardNormal const&) = default;
};

/// \brief The parameters of the base distribution N(loc, diag(exp(log_scale))^2) on R^D.
///
/// Holds Views and copies as they do. Values are float or double, in any layout.
///
/// \tparam LocView rank-1 View
/// \tparam LogScaleView rank-1 View
template <class LocView, class LogScaleView>
struct DiagonalNormalParameters {
  LocView loc;             ///< (D)
  LogScaleView log_scale;  ///< (D), natural logarithms of the standard deviations
};

template <class LocView, class LogScaleView>
DiagonalNormalParameters(LocView, LogScaleView) -> DiagonalNormalParameters<LocView, LogScaleView>;

}  // namespace meander
