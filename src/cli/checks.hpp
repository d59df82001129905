// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>

#include "../file.hpp"

namespace meander::cli {

/// \brief Accepts a number in [least, greatest]; unlike CLI::Range not NaN, and with words of the
/// caller's.
inline CLI::Validator between(double least, double greatest, std::string const& description) {
  return {[=](std::string const& text) {
            double value      = 0;
            bool const number = CLI::detail::lexical_cast(text, value);
            if (number && value >= least && value <= greatest) return std::string();
            return "expected " + description + ", got " + impl::in_quotes(text);
          },
          ""};
}

inline CLI::Validator non_negative() {
  return between(0.0, std::numeric_limits<double>::max(), "a finite number >= 0");
}

inline constexpr auto greatest_count  = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
inline constexpr auto greatest_number = std::numeric_limits<std::uint64_t>::max();

/// \brief Why the text is not a whole number in [least, greatest], written in decimal digits; empty
/// if it is one, which is then left without leading zeros.
///
/// CLI11 would read a leading zero as octal, 0x as hexadecimal, and numbers out of range as the
/// nearest that is in it.
inline std::string read_whole_number(std::string& text, std::uint64_t least,
                                     std::uint64_t greatest) {
  std::uint64_t value      = 0;
  auto const* const end    = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= least && value <= greatest) {
    text = std::to_string(value);
    return {};
  }
  auto const limit = greatest == greatest_number  ? "2^64 - 1"
                     : greatest == greatest_count ? "2^63 - 1"
                                                  : std::to_string(greatest);
  return "expected a whole number from " + std::to_string(least) + " to " + limit + ", got " +
         impl::in_quotes(text);
}

/// \brief The same for an option. To be added with transform(), as check() drops what it changes.
inline CLI::Validator whole_number(std::uint64_t least, std::uint64_t greatest) {
  return {[=](std::string& text) { return read_whole_number(text, least, greatest); }, ""};
}

inline CLI::Validator file_name() {
  return {[](std::string const& text) { return text.empty() ? "empty file name" : std::string(); },
          ""};
}

}  // namespace meander::cli
