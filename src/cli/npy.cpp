// SPDX-License-Identifier: BSD-3-Clause
#include "npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <type_traits>

namespace meander::cli {

namespace {

using impl::in_quotes;
using impl::path_in_quotes;

// numpy/lib/format.py: six magic bytes, two of version, the header's length (two bytes in version
// 1, four from 2 on), the header.
constexpr std::array<unsigned char, 6> magic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
constexpr std::size_t preamble_size          = 8;
constexpr std::uint64_t longest_header       = std::uint64_t{1} << 20;
constexpr std::size_t highest_rank           = 64;

std::uint64_t size_of(ScalarType type) {
  return type == ScalarType::float32 ? sizeof(float) : sizeof(double);
}

/// \brief Walks over a Python literal.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_space();
    return position_ == text_.size();
  }

  bool accept(char c) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(std::string("expected ") + in_quotes(std::string_view(&c, 1)));
  }

  std::string_view string() {
    skip_space();
    char const quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string");
    auto const end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("a string does not end");
    auto const content = text_.substr(position_ + 1, end - position_ - 1);
    if (content.find('\\') != std::string_view::npos) fail("a string has a backslash");
    position_ = end + 1;
    return content;
  }

  bool boolean() {
    skip_space();
    for (auto const& [word, value] :
         {std::pair{std::string_view("True"), true}, std::pair{std::string_view("False"), false}}) {
      if (text_.substr(position_).starts_with(word)) {
        position_ += word.size();
        return value;
      }
    }
    fail("expected True or False");
  }

  std::uint64_t whole_number() {
    skip_space();
    auto const begin    = position_;
    std::uint64_t value = 0;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9';
         ++position_) {
      auto const digit                = static_cast<std::uint64_t>(text_[position_] - '0');
      constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
      if (value > (largest - digit) / 10) fail("a number is above 2^63 - 1");
      value = 10 * value + digit;
    }
    if (position_ == begin) fail("expected a whole number >= 0");
    if (position_ < text_.size() && text_[position_] == 'L') ++position_;  // written by Python 2
    return value;
  }

  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail("expected ',' or ')'");
      if (values.size() == highest_rank) fail("the shape has too many dimensions");
      values.push_back(whole_number());
      comma = accept(',');
    }
    if (values.size() == 1 && !comma) fail("a tuple of one entry needs a comma");
    return values;
  }

  [[noreturn]] void fail(std::string const& what) const {
    throw NpyError("the header is malformed at its character " + std::to_string(position_) + ": " +
                   what);
  }

 private:
  void skip_space() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
      ++position_;
    }
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

void parse_type(std::string_view descr, NpyHeader& header) {
  auto word = descr;
  bool big  = std::endian::native == std::endian::big;
  if (word.starts_with('<') || word.starts_with('>')) {
    big = word.front() == '>';
    word.remove_prefix(1);
  } else if (word.starts_with('=')) {
    word.remove_prefix(1);
  }
  if (word != "f4" && word != "f8") {
    throw NpyError("it holds values of type " + in_quotes(descr) +
                   ", expected float32 ('<f4', '>f4') or float64 ('<f8', '>f8')");
  }
  header.type       = word == "f4" ? ScalarType::float32 : ScalarType::float64;
  header.big_endian = big;
}

template <class Bits>
Bits swapped(Bits bits) {
  Bits result = 0;
  for (std::size_t i = 0; i < sizeof(Bits); ++i) {
    result = static_cast<Bits>(result << 8U) | static_cast<Bits>((bits >> (8 * i)) & 0xffU);
  }
  return result;
}

template <class Value>
void swap_bytes(Value* values, std::size_t count) {
  using Bits =
      std::conditional_t<sizeof(Value) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;
  for (std::size_t i = 0; i < count; ++i) {
    // Through memcpy: a byte-swapped pattern may be a signalling NaN, which must not be loaded.
    Bits bits = 0;
    std::memcpy(&bits, &values[i], sizeof(bits));
    bits = swapped(bits);
    std::memcpy(&values[i], &bits, sizeof(bits));
  }
}

}  // namespace

NpyHeader parse_npy_header(std::string_view text) {
  NpyHeader header;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
  bool has_type = false;
  Literal literal(text);
  literal.expect('{');
  bool comma = true;
  while (!literal.accept('}')) {
    if (!comma) literal.fail("expected ',' or '}'");
    auto const key = literal.string();
    literal.expect(':');
    if (key == "descr" && !has_type) {
      if (literal.accept('[')) {
        throw NpyError("it holds records (a list as 'descr'), expected float32 or float64");
      }
      parse_type(literal.string(), header);
      has_type = true;
    } else if (key == "fortran_order" && !fortran_order) {
      fortran_order = literal.boolean();
    } else if (key == "shape" && !shape) {
      shape = literal.tuple();
    } else {
      literal.fail("the key " + in_quotes(key) + " is unknown or comes twice");
    }
    comma = literal.accept(',');
  }
  if (!literal.at_end()) literal.fail("something follows the dictionary");
  if (!has_type) literal.fail("the key 'descr' is missing");
  if (!fortran_order) literal.fail("the key 'fortran_order' is missing");
  if (!shape) literal.fail("the key 'shape' is missing");
  header.fortran_order = *fortran_order;
  header.shape         = *shape;
  return header;
}

NpyReader::NpyReader(std::filesystem::path const& path) try : file_(path) {
  read_header();
} catch (NpyError const&) {
  throw;
} catch (std::runtime_error const& error) {
  throw NpyError(error.what());
}

void NpyReader::fail(std::string const& what) const {
  throw NpyError(path_in_quotes(file_.path()) + ": " + what);
}

void NpyReader::read_header() {
  std::array<unsigned char, preamble_size + 4> preamble = {};
  if (file_.size() < preamble.size()) {
    fail("not a .npy file: it has only " + std::to_string(file_.size()) + " bytes");
  }
  file_.read(0, preamble.data(), preamble.size());
  if (!std::equal(magic.begin(), magic.end(), preamble.begin())) {
    fail("not a .npy file: it does not begin with \\x93NUMPY");
  }
  unsigned const major = preamble[6];
  unsigned const minor = preamble[7];
  if (major < 1 || major > 3 || minor != 0) {
    fail("version " + std::to_string(major) + "." + std::to_string(minor) +
         " of the .npy format is not known; 1.0, 2.0 and 3.0 are");
  }
  std::size_t const length_size = major == 1 ? 2 : 4;
  std::uint64_t length          = 0;
  for (std::size_t i = 0; i < length_size; ++i) {
    length |= std::uint64_t{preamble[preamble_size + i]} << (8 * i);
  }
  data_begin_ = preamble_size + length_size + length;
  if (length > longest_header) {
    fail("a header of " + std::to_string(length) + " bytes is announced, at most " +
         std::to_string(longest_header) + " are allowed");
  }
  if (data_begin_ > file_.size()) {
    fail("a header of " + std::to_string(length) + " bytes is announced, but the file has " +
         std::to_string(file_.size()) + ": it is cut short");
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file_.read(preamble_size + length_size, text.data(), text.size());
  try {
    header_ = parse_npy_header(text);
  } catch (NpyError const& error) {
    fail(error.what());
  }

  auto const& shape = header_.shape;
  if (shape.size() != 1 && shape.size() != 2) {
    fail("it has " + std::to_string(shape.size()) + " dimensions, expected 2: (rows, columns)");
  }
  rows_                 = shape[0];
  cols_                 = shape.size() == 2 ? shape[1] : 1;
  auto const value_size = size_of(header_.type);
  auto const largest    = std::numeric_limits<std::uint64_t>::max();
  auto const shown      = "the shape (" + std::to_string(shape[0]) +
                     (shape.size() == 2 ? ", " + std::to_string(shape[1]) : ",") + ")";
  if (cols_ != 0 && rows_ > largest / value_size / cols_) fail(shown + " does not fit in 64 bits");
  auto const expected = rows_ * cols_ * value_size;
  auto const found    = file_.size() - data_begin_;
  if (found != expected) {
    fail(shown + " of " + to_string(header_.type) + " takes " + std::to_string(expected) +
         " bytes, but " + std::to_string(found) + " follow the header" +
         (found < expected ? ": the file is cut short" : ""));
  }
}

template <class Value>
void NpyReader::read_run(std::uint64_t element, std::uint64_t count, Value* values) const {
  if (sizeof(Value) == size_of(header_.type)) {
    file_.read(data_begin_ + element * sizeof(Value), values, count * sizeof(Value));
    if (header_.big_endian != (std::endian::native == std::endian::big)) swap_bytes(values, count);
    return;
  }
  if constexpr (std::is_same_v<Value, double>) {
    constexpr std::uint64_t block = 4096;
    std::array<float, block> buffer;
    for (std::uint64_t done = 0; done < count; done += block) {
      auto const step = std::min(block, count - done);
      read_run(element + done, step, buffer.data());
      std::copy_n(buffer.begin(), step, values + done);
    }
  } else {
    fail("float64 values were asked for as float32");
  }
}

template <class Value>
void NpyReader::read(std::uint64_t first, std::uint64_t count, Value* values) const try {
  if (!column_major()) {
    read_run(first * cols_, count * cols_, values);
    return;
  }
  for (std::uint64_t j = 0; j < cols_; ++j) {
    read_run(j * rows_ + first, count, values + j * count);
  }
} catch (NpyError const&) {
  throw;
} catch (std::runtime_error const& error) {
  throw NpyError(error.what());
}

template void NpyReader::read(std::uint64_t, std::uint64_t, float*) const;
template void NpyReader::read(std::uint64_t, std::uint64_t, double*) const;

NpyWriter::NpyWriter(std::filesystem::path const& path, ScalarType type,
                     std::vector<std::uint64_t> const& shape)
    : file_(path), removal_(file_.temporary()), type_(type) {
  defer_.release();
  std::string text = "{'descr': '";
  text += std::endian::native == std::endian::big ? '>' : '<';
  text += type == ScalarType::float32 ? "f4" : "f8";
  text += "', 'fortran_order': False, 'shape': (";
  std::uint64_t size     = size_of(type);
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    if (shape[i] != 0 && size > largest / shape[i]) {
      throw NpyError("cannot write " + path_in_quotes(path) +
                     ": no file can hold that many rows of this dimension");
    }
    size *= shape[i];
  }
  text += shape.size() == 1 ? ",), }" : "), }";
  // Data begin at a multiple of 64 bytes, so that others can map the file.
  constexpr std::size_t alignment   = 64;
  constexpr std::size_t length_size = 2;
  auto const used                   = preamble_size + length_size + text.size() + 1;
  text.append((alignment - used % alignment) % alignment, ' ');
  text += '\n';
  std::string head(magic.begin(), magic.end());
  head += '\x01';
  head += '\x00';
  head += static_cast<char>(text.size() % 256);
  head += static_cast<char>(text.size() / 256);
  head += text;
  file_.reserve(head.size() + size);
  file_.write(head.data(), head.size());
}

NpyWriter::~NpyWriter() {
  DeferSignals const defer;  // the file must be gone before the signal handler forgets it
  file_.discard();
}

template <class Value>
void NpyWriter::write(Value const* values, std::size_t count) {
  if (sizeof(Value) != size_of(type_))
    throw std::logic_error("a value of another type was written");
  file_.write(values, count * sizeof(Value));
}

template void NpyWriter::write(float const*, std::size_t);
template void NpyWriter::write(double const*, std::size_t);

}  // namespace meander::cli
