// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <meander/impl/flow.hpp>
#include <meander/impl/planar_coefficients.hpp>

namespace meander::impl::device {

/// The largest D for which a flow of at most one stack is one kernel (FlowRegisters).
inline constexpr int max_flow_registers_dim = 512;

/// A scored or unscored sample of a flow whose only stack is `stack`; call.drawn is not looked at.
template <class ExecutionSpace, class Storage, class Compute>
void sample_in_registers(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                         FlowCall<Storage, Compute> const& call);

/// The log-density of rows under a flow whose only stack is `stack`.
template <class ExecutionSpace, class Storage, class Compute>
void log_prob_in_registers(ExecutionSpace const& exec, PlanarCoefficients<Compute> const& stack,
                           FlowCall<Storage, Compute> const& call);

}  // namespace meander::impl::device
