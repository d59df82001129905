// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sstream>
#include <stdexcept>

namespace meander::impl {

/// Throws std::invalid_argument: "function: parts".
template <class... Parts>
[[noreturn]] void refuse(char const* function, Parts const&... parts) {
  std::ostringstream message;
  message << function << ": ";
  (message << ... << parts);
  throw std::invalid_argument(message.str());
}

}  // namespace meander::impl
