// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace meander::cli {

/// \brief Whether two paths name one file, through links of either kind; a file that does not exist
/// yet counts by its name.
bool same_file(std::filesystem::path const& a, std::filesystem::path const& b);

}  // namespace meander::cli
