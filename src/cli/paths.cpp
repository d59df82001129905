// SPDX-License-Identifier: BSD-3-Clause
#include "paths.hpp"

#include <system_error>

#include "../file.hpp"

namespace meander::cli {

bool same_file(std::filesystem::path const& a, std::filesystem::path const& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  auto const full = [&](std::filesystem::path const& path) {
    return std::filesystem::weakly_canonical(impl::resolve_links(path), error);
  };
  return full(a) == full(b);
}

}  // namespace meander::cli
