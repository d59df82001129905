// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>

namespace meander {

/// \brief Training cannot go on, or cannot be resumed.
class TrainingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace meander
