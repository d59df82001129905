// SPDX-License-Identifier: BSD-3-Clause
#include "safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>

#include <nlohmann/json.hpp>

#include <meander/model_file.hpp>

#include "json_reason.hpp"

namespace meander::impl {

namespace {

using json = nlohmann::json;

constexpr std::uint64_t header_length_size = 8;
constexpr std::uint64_t largest_header     = 100'000'000;
constexpr std::size_t largest_rank         = 64;

/// The formats' element types and their sizes in bytes. Those below one byte are not listed: a file
/// that holds them is reported by their name.
std::optional<std::uint64_t> size_of_dtype(std::string_view dtype) {
  struct Entry {
    std::string_view name;
    std::uint64_t size;
  };
  constexpr auto known    = std::to_array<Entry>({{"BOOL", 1},
                                                  {"U8", 1},
                                                  {"I8", 1},
                                                  {"F8_E4M3", 1},
                                                  {"F8_E5M2", 1},
                                                  {"F8_E4M3FNUZ", 1},
                                                  {"F8_E5M2FNUZ", 1},
                                                  {"F8_E8M0", 1},
                                                  {"I16", 2},
                                                  {"U16", 2},
                                                  {"F16", 2},
                                                  {"BF16", 2},
                                                  {"I32", 4},
                                                  {"U32", 4},
                                                  {"F32", 4},
                                                  {"I64", 8},
                                                  {"U64", 8},
                                                  {"F64", 8},
                                                  {"C64", 8}});
  auto const* const found = std::ranges::find(known, dtype, &Entry::name);
  if (found == known.end()) return std::nullopt;
  return found->size;
}

template <std::unsigned_integral Bits>
Bits load_little_endian(std::byte const* bytes) {
  Bits bits = 0;
  for (std::size_t i = 0; i < sizeof(Bits); ++i) {
    bits |= static_cast<Bits>(std::to_integer<Bits>(bytes[i]) << (8 * i));
  }
  return bits;
}

template <std::unsigned_integral Bits>
void store_little_endian(Bits bits, std::byte* bytes) {
  for (std::size_t i = 0; i < sizeof(Bits); ++i) bytes[i] = static_cast<std::byte>(bits >> (8 * i));
}

/// \brief Follows the events of the JSON parser and accepts nothing but a safetensors header, so
/// that no tree of what an untrusted file holds is ever built.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  std::map<std::string, TensorEntry, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
  std::string error;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_integer(number_integer_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) return unexpected("a number");
    return fail(where() + " holds " + std::to_string(value) + ", a negative number");
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (entry_.shape.size() == largest_rank) {
        return fail(where() + " has more than " + std::to_string(largest_rank) + " entries");
      }
      entry_.shape.push_back(value);
      return true;
    }
    if (place_ == Place::offsets) {
      if (offsets_ == 2) return fail(where() + " has more than two entries");
      (offsets_ == 0 ? entry_.begin : entry_.end) = value;
      ++offsets_;
      return true;
    }
    return unexpected("a number");
  }

  bool number_float(number_float_t, string_t const& text) override {
    if (place_ != Place::shape && place_ != Place::offsets) return unexpected("a number");
    return fail(where() + " holds " + plain(text) + ", not a whole number below 2^64");
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      metadata[key_] = std::move(value);
      return true;
    }
    if (place_ == Place::dtype) {
      entry_.dtype = std::move(value);
      place_       = Place::tensor;
      return true;
    }
    return unexpected("a string");
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::outside: place_ = Place::header; return true;
      case Place::tensor_value: place_ = Place::tensor; return true;
      case Place::metadata_value: place_ = Place::metadata; return true;
      default: return unexpected("an object");
    }
  }

  bool key(string_t& value) override {
    switch (place_) {
      case Place::header: return header_key(value);
      case Place::tensor: return tensor_key(value);
      default: break;
    }
    if (metadata.contains(value))
      return fail("__metadata__ has the key " + in_quotes(value) + " twice");
    key_ = std::move(value);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      for (auto const& [seen, name] :
           {std::pair{has_dtype_, "dtype"}, std::pair{has_shape_, "shape"},
            std::pair{has_offsets_, "data_offsets"}}) {
        if (!seen) return fail("tensor " + in_quotes(name_) + " has no " + name);
      }
      tensors.emplace(name_, std::move(entry_));
      place_ = Place::header;
    } else if (place_ == Place::metadata) {
      place_ = Place::header;
    } else {
      place_ = Place::outside;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    switch (place_) {
      case Place::shape_value: place_ = Place::shape; return true;
      case Place::offsets_value: place_ = Place::offsets; return true;
      default: return unexpected("an array");
    }
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) return fail(where() + " has not two entries");
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, std::string const&,
                   nlohmann::detail::exception const& exception) override {
    return fail("the header is not valid JSON, at its byte " + std::to_string(position) + ": " +
                parse_error_reason(exception.what()));
  }

 private:
  enum class Place {
    outside,
    header,
    metadata_value,
    metadata,
    tensor_value,
    tensor,
    dtype,
    shape_value,
    shape,
    offsets_value,
    offsets
  };

  static std::string plain(std::string const& text) {
    auto const quotes = in_quotes(text);
    return quotes.substr(1, quotes.size() - 2);
  }

  std::string where() const {
    auto const* part = place_ == Place::shape || place_ == Place::shape_value       ? "shape"
                       : place_ == Place::offsets || place_ == Place::offsets_value ? "data_offsets"
                                                                                    : "dtype";
    return std::string(part) + " of tensor " + in_quotes(name_);
  }

  bool fail(std::string text) {
    error = std::move(text);
    return false;
  }

  bool unexpected(char const* what) {
    auto const text = std::string(" is ") + what + ", expected ";
    switch (place_) {
      case Place::outside:
      case Place::header: return fail("the header" + text + "an object");
      case Place::metadata_value: return fail("__metadata__" + text + "an object of strings");
      case Place::metadata:
        return fail("__metadata__[" + in_quotes(key_) + "]" + text + "a string");
      case Place::tensor_value:
      case Place::tensor: return fail("tensor " + in_quotes(name_) + text + "an object");
      case Place::dtype: return fail(where() + text + "a string");
      case Place::shape_value:
      case Place::offsets_value: return fail(where() + text + "an array of whole numbers");
      case Place::shape:
      case Place::offsets: break;
    }
    return fail(where() + " holds " + what + ", expected whole numbers");
  }

  bool header_key(string_t& name) {
    if (name == "__metadata__") {
      if (has_metadata_) return fail("the header has the key '__metadata__' twice");
      has_metadata_ = true;
      place_        = Place::metadata_value;
      return true;
    }
    if (tensors.contains(name)) return fail("the header has tensor " + in_quotes(name) + " twice");
    name_      = std::move(name);
    entry_     = {};
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offsets_                               = 0;
    place_                                 = Place::tensor_value;
    return true;
  }

  bool tensor_key(string_t const& name) {
    bool* seen = nullptr;
    if (name == "dtype") {
      seen   = &has_dtype_;
      place_ = Place::dtype;
    } else if (name == "shape") {
      seen   = &has_shape_;
      place_ = Place::shape_value;
    } else if (name == "data_offsets") {
      seen   = &has_offsets_;
      place_ = Place::offsets_value;
    } else {
      return fail("tensor " + in_quotes(name_) + " has the unknown key " + in_quotes(name));
    }
    if (*seen)
      return fail("tensor " + in_quotes(name_) + " has the key " + in_quotes(name) + " twice");
    *seen = true;
    return true;
  }

  Place place_       = Place::outside;
  bool has_metadata_ = false, has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_ = 0;
  std::string name_, key_;
  TensorEntry entry_;
};

std::string range_text(TensorEntry const& entry) {
  return "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
}

}  // namespace

std::string shape_text(std::vector<std::uint64_t> const& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

SafetensorsFile::SafetensorsFile(std::filesystem::path const& path) try : path_(path), file_(path) {
  read_header();
} catch (ModelFileError const&) {
  throw;
} catch (std::runtime_error const& error) {
  throw ModelFileError(error.what());
}

void SafetensorsFile::fail(std::string const& what) const {
  throw ModelFileError(path_in_quotes(path_) + ": " + what);
}

void SafetensorsFile::read_header() {
  if (file_.size() < header_length_size) {
    fail("not a safetensors file: it has " + std::to_string(file_.size()) +
         " bytes, the header's length alone takes 8");
  }
  std::array<std::byte, header_length_size> prefix = {};
  file_.read(0, prefix.data(), prefix.size());
  auto const length = load_little_endian<std::uint64_t>(prefix.data());
  auto const left   = file_.size() - header_length_size;
  if (length > largest_header) {
    fail("not a safetensors file: a header of " + std::to_string(length) +
         " bytes is announced, at most " + std::to_string(largest_header) + " are allowed");
  }
  if (length > left) {
    fail("a header of " + std::to_string(length) + " bytes is announced, but only " +
         std::to_string(left) + " bytes follow: the file is cut short");
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file_.read(header_length_size, text.data(), text.size());
  if (text.empty() || text.front() != '{') {
    fail("not a safetensors file: its header does not begin with '{'");
  }
  HeaderReader reader;
  if (!json::sax_parse(text, &reader)) fail(reader.error);
  tensors_    = std::move(reader.tensors);
  metadata_   = std::move(reader.metadata);
  data_begin_ = header_length_size + length;
  check_tensors(left - length);
}

void SafetensorsFile::check_tensors(std::uint64_t data_size) const {
  using Named = std::pair<std::string_view, TensorEntry const*>;
  std::vector<Named> in_order;
  in_order.reserve(tensors_.size());
  for (auto const& [name, entry] : tensors_) {
    auto const size = size_of_dtype(entry.dtype);
    if (!size)
      fail("tensor " + in_quotes(name) + " has the unknown dtype " + in_quotes(entry.dtype));
    if (entry.begin > entry.end) {
      fail("data_offsets " + range_text(entry) + " of tensor " + in_quotes(name) +
           " run backwards");
    }
    if (entry.end > data_size) {
      fail("data_offsets " + range_text(entry) + " of tensor " + in_quotes(name) +
           " reach past the file's " + std::to_string(data_size) + " bytes of data");
    }
    std::uint64_t bytes = *size;
    bool const empty    = std::ranges::find(entry.shape, std::uint64_t{0}) != entry.shape.end();
    for (auto const extent : entry.shape) {
      if (!empty && bytes > std::numeric_limits<std::uint64_t>::max() / extent) {
        fail("shape " + shape_text(entry.shape) + " of tensor " + in_quotes(name) +
             " does not fit in 64 bits");
      }
      bytes = empty ? 0 : bytes * extent;
    }
    if (bytes != entry.end - entry.begin) {
      fail("tensor " + in_quotes(name) + " of shape " + shape_text(entry.shape) + " and dtype " +
           entry.dtype + " takes " + std::to_string(bytes) + " bytes, its data_offsets " +
           range_text(entry) + " hold " + std::to_string(entry.end - entry.begin));
    }
    in_order.emplace_back(name, &entry);
  }
  std::ranges::sort(in_order, {}, [](Named const& named) {
    return std::pair(named.second->begin, named.second->end);
  });
  std::uint64_t reached = 0;
  for (auto const& [name, entry] : in_order) {
    if (entry->begin < reached) {
      fail("tensor " + in_quotes(name) + " at " + range_text(*entry) +
           " overlaps the one before it, which ends at " + std::to_string(reached));
    }
    if (entry->begin > reached) {
      fail("bytes [" + std::to_string(reached) + ", " + std::to_string(entry->begin) +
           ") before tensor " + in_quotes(name) + " belong to no tensor");
    }
    reached = entry->end;
  }
  if (reached != data_size) {
    fail("the last " + std::to_string(data_size - reached) + " bytes belong to no tensor");
  }
}

std::vector<double> SafetensorsFile::values(std::string const& name) const {
  auto const& entry = tensors_.at(name);
  if (entry.dtype != "F32" && entry.dtype != "F64") {
    fail("tensor " + in_quotes(name) + " has dtype " + entry.dtype + ", expected F32 or F64");
  }
  // check_tensors() has compared this size with the file's own.
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.end - entry.begin));
  try {
    file_.read(data_begin_ + entry.begin, bytes.data(), bytes.size());
  } catch (std::runtime_error const& error) {
    throw ModelFileError(error.what());
  }
  bool const is_float = entry.dtype == "F32";
  std::vector<double> values(bytes.size() / (is_float ? sizeof(float) : sizeof(double)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_float) {
      auto const bits = load_little_endian<std::uint32_t>(&bytes[i * sizeof(float)]);
      values[i]       = static_cast<double>(std::bit_cast<float>(bits));
    } else {
      auto const bits = load_little_endian<std::uint64_t>(&bytes[i * sizeof(double)]);
      values[i]       = std::bit_cast<double>(bits);
    }
  }
  return values;
}

void write_safetensors(std::filesystem::path const& path, std::vector<TensorValues> const& tensors,
                       ScalarType type,
                       std::vector<std::pair<std::string, std::string>> const& metadata) try {
  bool const is_float           = type == ScalarType::float32;
  std::size_t const size        = is_float ? sizeof(float) : sizeof(double);
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (auto const& [key, value] : metadata) header["__metadata__"][key] = value;
  std::uint64_t end = 0;
  for (auto const& tensor : tensors) {
    std::uint64_t const begin = end;
    end += tensor.values->size() * size;
    header[tensor.name] = {{"dtype", is_float ? "F32" : "F64"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
  }
  std::string text                = header.dump();
  constexpr std::size_t alignment = 8;  // of the data, so that others can map the file
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  if (text.size() > largest_header) {
    throw ModelFileError("cannot write " + path_in_quotes(path) +
                         ": its header would be longer than " + std::to_string(largest_header) +
                         " bytes");
  }

  AtomicFile file(path);
  std::array<std::byte, header_length_size> prefix = {};
  store_little_endian<std::uint64_t>(text.size(), prefix.data());
  file.write(prefix.data(), prefix.size());
  file.write(text.data(), text.size());
  for (auto const& tensor : tensors) {
    std::vector<std::byte> bytes(tensor.values->size() * size);
    for (std::size_t i = 0; i < tensor.values->size(); ++i) {
      double const value = (*tensor.values)[i];
      if (!is_float) {
        store_little_endian(std::bit_cast<std::uint64_t>(value), &bytes[i * size]);
        continue;
      }
      // Converting a finite double beyond float's range is undefined behaviour: look first.
      if (std::isfinite(value) && std::abs(value) > double{std::numeric_limits<float>::max()}) {
        throw ModelFileError("cannot write " + path_in_quotes(path) + ": a value of tensor " +
                             in_quotes(tensor.name) + " is beyond the range of float32");
      }
      store_little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value)),
                          &bytes[i * size]);
    }
    file.write(bytes.data(), bytes.size());
  }
  file.commit();
} catch (ModelFileError const&) {
  throw;
} catch (std::runtime_error const& error) {
  throw ModelFileError(error.what());
}

}  // namespace meander::impl
