// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

/// The files in unit_tests/data.
namespace data {

inline std::filesystem::path path(std::string const& name) {
  return std::filesystem::path(MEANDER_TEST_DATA) / name;
}

/// The numbers of a little-endian .npy file in C order, as the data folder holds them.
inline std::vector<double> npy(std::string const& name) {
  std::ifstream file(path(name), std::ios::binary);
  std::string const bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 10) throw std::runtime_error("cannot read " + name);
  std::size_t const begin = 10 + std::size_t(static_cast<unsigned char>(bytes[8])) +
                            std::size_t{256} * static_cast<unsigned char>(bytes[9]);
  bool const single      = bytes.substr(10, begin - 10).find("'<f4'") != std::string::npos;
  std::size_t const size = single ? 4 : 8;
  std::vector<double> values((bytes.size() - begin) / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float f = 0;
    if (single) {
      std::memcpy(&f, &bytes[begin + 4 * i], 4);
      values[i] = f;
    } else {
      std::memcpy(&values[i], &bytes[begin + 8 * i], 8);
    }
  }
  return values;
}

}  // namespace data
