// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "file.hpp"

namespace meander::impl {

/// \brief The reason in the text of a nlohmann::json::parse_error, without what stands before it
/// (its number, the state of the parser) and behind it (the unread input, the parser's tokens).
inline std::string parse_error_reason(std::string text) {
  for (char const* const mark : {"; last read", "; expected"}) {
    if (auto const end = text.find(mark); end != std::string::npos) text.erase(end);
  }
  for (std::string const mark : {": ", " - "}) {
    auto const begin = text.rfind(mark);
    if (begin != std::string::npos) text.erase(0, begin + mark.size());
  }
  auto const quotes = in_quotes(text);
  return quotes.substr(1, quotes.size() - 2);
}

}  // namespace meander::impl
