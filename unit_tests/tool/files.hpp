// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

/// Small helpers for tests that read and write files.
namespace meander::test {

/// A folder of its own for each test, removed at its end.
class Folder {
 public:
  Folder() {
    auto pattern = (std::filesystem::temp_directory_path() / "meander-test-XXXXXX").native();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(Folder const&)            = delete;
  Folder& operator=(Folder const&) = delete;

  std::filesystem::path operator/(std::string const& name) const { return path_ / name; }
  std::filesystem::path const& path() const { return path_; }

  /// The names in the folder, sorted and joined by spaces.
  std::string list() const {
    std::vector<std::string> names;
    for (auto const& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().native());
    }
    std::sort(names.begin(), names.end());
    std::string text;
    for (auto const& name : names) text += (text.empty() ? "" : " ") + name;
    return text;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.native());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(std::filesystem::path const& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.native());
}

/// `count` bytes of a number, the lowest first.
inline std::string little_endian(std::uint64_t number, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

/// A safetensors file of this header and these data bytes.
inline std::string safetensors(std::string const& header, std::string const& data) {
  return little_endian(header.size(), 8) + header + data;
}

template <class Value>
std::string bytes_of(std::vector<Value> const& values) {
  std::string bytes(values.size() * sizeof(Value), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Each value's bytes reversed.
template <class Value>
std::string swapped_bytes_of(std::vector<Value> const& values) {
  auto bytes = bytes_of(values);
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(Value)) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + sizeof(Value)));
  }
  return bytes;
}

/// A .npy file of this format version.
inline std::string npy(std::string const& header, std::string const& data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  return bytes + little_endian(header.size(), version == 1 ? 2 : 4) + header + data;
}

inline std::string npy_header(std::string const& descr, bool fortran, std::string const& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

}  // namespace meander::test
