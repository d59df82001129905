// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>

namespace meander::cli {

/// \brief Accepts a number of this type in [least, greatest]; unlike CLI::Range not NaN, and with
/// words of the caller's.
template <class Number>
CLI::Validator between(Number least, Number greatest, std::string const& description) {
  return {[=](std::string const& text) {
            Number value      = 0;
            bool const number = CLI::detail::lexical_cast(text, value);
            if (number && value >= least && value <= greatest) return std::string();
            return "expected " + description + ", got '" + text + "'";
          },
          ""};
}

inline CLI::Validator non_negative() {
  return between(0.0, std::numeric_limits<double>::max(), "a finite number >= 0");
}

inline CLI::Validator positive_count() {
  constexpr auto greatest = std::numeric_limits<std::int64_t>::max();
  return between<std::int64_t>(1, greatest, "a whole number from 1 on");
}

}  // namespace meander::cli
