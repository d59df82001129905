// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <meander/model.hpp>

#include "../file.hpp"
#include "interrupts.hpp"

namespace meander::cli {

/// \brief A .npy file could not be read. The text names the file, what was found and expected.
class NpyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// \brief What the header of a .npy file says.
struct NpyHeader {
  ScalarType type    = ScalarType::float32;
  bool big_endian    = false;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;

  friend bool operator==(NpyHeader const&, NpyHeader const&) = default;
};

/// \brief Reads the header's Python dictionary, e.g.
/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }`; nothing in it is evaluated.
/// \throws NpyError whose text does not name a file.
NpyHeader parse_npy_header(std::string_view text);

/// \brief Reads rows of a .npy file of float32 or float64, one chunk at a time.
///
/// Format versions 1.0 to 3.0, either byte order, C and Fortran order. Only the chunk that is read
/// takes memory. A one-dimensional array counts as one column.
class NpyReader {
 public:
  /// \throws NpyError if the file cannot be read, is malformed, or holds something else.
  explicit NpyReader(std::filesystem::path const& path);

  std::filesystem::path const& path() const { return file_.path(); }
  ScalarType type() const { return header_.type; }
  std::vector<std::uint64_t> const& shape() const { return header_.shape; }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t cols() const { return cols_; }
  /// \brief Whether read() delivers a chunk column by column (Fortran order) or row by row.
  bool column_major() const { return header_.fortran_order && header_.shape.size() == 2; }

  /// \brief Reads `count` rows from row `first` on into `values`, count * cols() of them.
  /// \tparam Value float (for a float32 file) or double (for either).
  /// \throws NpyError
  template <class Value>
  void read(std::uint64_t first, std::uint64_t count, Value* values) const;

 private:
  void read_header();
  template <class Value>
  void read_run(std::uint64_t element, std::uint64_t count, Value* values) const;
  [[noreturn]] void fail(std::string const& what) const;

  impl::InputFile file_;
  NpyHeader header_;
  std::uint64_t data_begin_ = 0, rows_ = 0, cols_ = 1;
};

/// \brief Writes a .npy file in C order and the machine's byte order, under its name only when it
/// is complete.
class NpyWriter {
 public:
  /// \throws std::runtime_error if the file cannot be created or there is no room for it.
  NpyWriter(std::filesystem::path const& path, ScalarType type,
            std::vector<std::uint64_t> const& shape);
  /// \brief Removes the temporary file unless commit() was called.
  ~NpyWriter();
  NpyWriter(NpyWriter const&)            = delete;
  NpyWriter& operator=(NpyWriter const&) = delete;

  std::filesystem::path const& target() const { return file_.target(); }

  /// \brief Appends values in C order; they must be of the file's type.
  template <class Value>
  void write(Value const* values, std::size_t count);
  /// \brief Brings everything onto the disk, still under the temporary name.
  void finish() { file_.finish(); }
  void commit() { file_.commit(); }

 private:
  DeferSignals defer_;  // until the temporary file is known to the signal handler
  impl::AtomicFile file_;
  RemoveOnSignal removal_;
  ScalarType type_;
};

}  // namespace meander::cli
