// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// What the machine reaches at most, measured in the same run as what is compared with it.
namespace ceilings {

/// Bytes read plus bytes written per second by a copy much larger than the caches.
double copy_bytes_per_second();

/// Fused multiply-adds per second with all operands in registers.
double float_fmas_per_second();
double double_fmas_per_second();

}  // namespace ceilings
