// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <meander/model.hpp>

#include "file.hpp"

namespace meander::impl {

/// \brief One tensor as the header of a safetensors file describes it.
struct TensorEntry {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes, counted from the end of the header
};

/// \brief "(2, 3)", as Python prints a shape.
std::string shape_text(std::vector<std::uint64_t> const& shape);

/// \brief A safetensors file: its header checked, its tensors read on demand.
///
/// The format (https://github.com/huggingface/safetensors#format): eight bytes, the length N of the
/// header, little-endian; N bytes of JSON; the tensors' bytes, little-endian, row-major, without
/// holes or overlaps.
class SafetensorsFile {
 public:
  /// \throws ModelFileError if the file cannot be read or its header is not well formed.
  explicit SafetensorsFile(std::filesystem::path const& path);

  std::map<std::string, TensorEntry, std::less<>> const& tensors() const { return tensors_; }
  std::map<std::string, std::string, std::less<>> const& metadata() const { return metadata_; }

  /// \brief The values of an F32 or F64 tensor, exact in double.
  /// \throws ModelFileError for another dtype or if the file cannot be read.
  std::vector<double> values(std::string const& name) const;

  /// \brief Throws a ModelFileError that begins with the file's name.
  [[noreturn]] void fail(std::string const& what) const;

 private:
  void read_header();
  void check_tensors(std::uint64_t data_size) const;

  std::filesystem::path path_;
  InputFile file_;
  std::uint64_t data_begin_ = 0;
  std::map<std::string, TensorEntry, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

/// \brief A tensor to be written.
struct TensorValues {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<double> const* values;
};

/// \brief Writes tensors, all of one type, and metadata. See write_model for what is guaranteed.
/// \throws ModelFileError
void write_safetensors(std::filesystem::path const& path, std::vector<TensorValues> const& tensors,
                       ScalarType type,
                       std::vector<std::pair<std::string, std::string>> const& metadata);

}  // namespace meander::impl
