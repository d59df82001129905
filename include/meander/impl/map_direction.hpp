// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace meander::impl {

/// Which way a kernel takes rows through a stack: from the first layer to the last, or back.
enum class MapDirection { forward, inverse };

}  // namespace meander::impl
