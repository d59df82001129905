// SPDX-License-Identifier: BSD-3-Clause
#include "paths.hpp"

#include <system_error>

#include "../file.hpp"

namespace meander::cli {

bool same_file(std::filesystem::path const& a, std::filesystem::path const& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  auto const full = [&](std::filesystem::path const& path) {
    // Absolute first: a relative name of a file that does not exist yet would stay as it is.
    return std::filesystem::weakly_canonical(std::filesystem::absolute(impl::resolve_links(path)),
                                             error);
  };
  return full(a) == full(b);
}

}  // namespace meander::cli
