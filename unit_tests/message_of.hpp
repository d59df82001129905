// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>
#include <string>

/// What f is refused with.
template <class F>
std::string message_of(F const& f) {
  try {
    f();
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "nothing was thrown";
}
