// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/npy.hpp"
#include "tool/files.hpp"

namespace meander::cli {

namespace {

using test::npy;
using test::npy_header;

class Npy : public ::testing::Test {
 protected:
  std::filesystem::path file(std::string const& bytes) {
    auto path = folder_ / "a.npy";
    test::write_bytes(path, bytes);
    return path;
  }

  std::string error_of(std::string const& bytes) {
    auto const path = file(bytes);
    try {
      NpyReader const reader(path);
    } catch (NpyError const& error) {
      std::string text  = error.what();
      auto const prefix = "'" + path.native() + "': ";
      EXPECT_TRUE(text.starts_with(prefix)) << text;
      return text.substr(prefix.size());
    }
    return "no error";
  }

  std::string error_of_header(std::string const& header) { return error_of(npy(header, "")); }

  test::Folder folder_;
};

/// All values row by row, read in chunks.
std::vector<double> read_all(NpyReader const& reader, std::uint64_t chunk) {
  std::vector<double> values;
  for (std::uint64_t first = 0; first < reader.rows(); first += chunk) {
    auto const count = std::min(chunk, reader.rows() - first);
    std::vector<double> part(count * reader.cols());
    reader.read(first, count, part.data());
    for (std::uint64_t i = 0; i < count; ++i) {
      for (std::uint64_t j = 0; j < reader.cols(); ++j) {
        values.push_back(part[reader.column_major() ? j * count + i : i * reader.cols() + j]);
      }
    }
  }
  return values;
}

template <class Value>
std::vector<Value> transposed(std::vector<Value> const& values, std::size_t rows) {
  auto const cols = values.size() / rows;
  std::vector<Value> result;
  for (std::size_t j = 0; j < cols; ++j) {
    for (std::size_t i = 0; i < rows; ++i) result.push_back(values[i * cols + j]);
  }
  return result;
}

TEST_F(Npy, AllTypesOrdersVersionsAndByteOrders) {
  std::vector<float> const floats   = {1.5F, -2.25F, 3e-30F, 4, 5, -6};
  std::vector<double> const doubles = {1.1, -2.2, 3e-300, 4, 5, -6};
  bool const big                    = std::endian::native == std::endian::big;
  auto const check = [&]<class Value>(std::vector<Value> const& values, std::string const& type) {
    std::vector<double> const expected(values.begin(), values.end());
    for (bool const fortran : {false, true}) {
      auto const stored = fortran ? transposed(values, 3) : values;
      for (bool const swap : {false, true}) {
        auto const data  = swap ? test::swapped_bytes_of(stored) : test::bytes_of(stored);
        auto const descr = (big != swap ? ">" : "<") + type;
        for (int const version : {1, 2, 3}) {
          NpyReader const reader(file(npy(npy_header(descr, fortran, "(3, 2)"), data, version)));
          EXPECT_EQ(reader.rows(), 3U);
          EXPECT_EQ(reader.cols(), 2U);
          for (std::uint64_t const chunk : {1, 2, 3}) EXPECT_EQ(read_all(reader, chunk), expected);
        }
      }
    }
  };
  check(floats, "f4");
  check(doubles, "f8");
}

TEST_F(Npy, LongFloatFilesWidenInBlocks) {
  std::vector<float> values(10001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  NpyReader const reader(file(npy(npy_header("<f4", false, "(10001,)"), test::bytes_of(values))));
  EXPECT_EQ(read_all(reader, 20000), std::vector<double>(values.begin(), values.end()));
}

TEST_F(Npy, ByteSwapKeepsEveryBit) {
  std::uint32_t const signalling = 0x7fa01234;
  std::string data               = "\x7f\xa0\x12\x34";
  NpyReader const reader(file(npy(npy_header(">f4", false, "(1,)"), data)));
  float value = 0;
  reader.read(0, 1, &value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  EXPECT_EQ(bits, signalling);
}

TEST_F(Npy, ShapesWithoutValuesAndOneDimension) {
  EXPECT_EQ(NpyReader(file(npy(npy_header("<f4", false, "(0, 5)"), ""))).cols(), 5U);
  EXPECT_EQ(NpyReader(file(npy(npy_header("<f4", true, "(5, 0)"), ""))).rows(), 5U);
  NpyReader const vector(
      file(npy(npy_header("<f8", true, "(2,)"), test::bytes_of(std::vector<double>{1, 2}))));
  EXPECT_EQ(vector.cols(), 1U);
  EXPECT_FALSE(vector.column_major());
  EXPECT_EQ(read_all(vector, 1), (std::vector<double>{1, 2}));
}

TEST_F(Npy, HeadersAsOthersWriteThem) {
  auto const parse         = [](std::string const& text) { return parse_npy_header(text); };
  NpyHeader const expected = {ScalarType::float32, false, true, {3, 4}};
  EXPECT_EQ(parse("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }        \n"),
            expected);
  EXPECT_EQ(parse("{\"descr\":\"<f4\",\"fortran_order\":True,\"shape\":(3,4)}"), expected);
  EXPECT_EQ(parse("{'shape': (3L, 4L), 'fortran_order': True, 'descr': '<f4'}\n"), expected);
  EXPECT_EQ(parse(" { 'shape' : ( 3 , 4 , ) , 'fortran_order' : True , 'descr' : '<f4' , } "),
            expected);
  EXPECT_TRUE(parse("{'descr': '<f4', 'fortran_order': True, 'shape': ()}").shape.empty());
}

TEST_F(Npy, NotAnArrayFile) {
  EXPECT_EQ(error_of(""), "not a .npy file: it has only 0 bytes");
  EXPECT_EQ(error_of("PK\x03\x04 this is a zip archive"),
            "not a .npy file: it does not begin with \\x93NUMPY");
  EXPECT_EQ(error_of(npy("{}      ", "", 4)),
            "version 4.0 of the .npy format is not known; 1.0, 2.0 and 3.0 are");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x01\x00\xff\xff{}  ", 14)),
            "a header of 65535 bytes is announced, but the file has 14: it is cut short");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)),
            "a header of 4294967295 bytes is announced, at most 1048576 are allowed");
}

TEST_F(Npy, MalformedHeaders) {
  auto const at = [](int position, std::string const& what) {
    return "the header is malformed at its character " + std::to_string(position) + ": " + what;
  };
  EXPECT_EQ(error_of_header("[1, 2, 3]"), at(0, "expected '{'"));
  EXPECT_EQ(error_of_header("{'descr'"), at(8, "expected ':'"));
  EXPECT_EQ(error_of_header("{'descr"), at(1, "a string does not end"));
  EXPECT_EQ(error_of_header("{'descr': 4}"), at(10, "expected a string"));
  EXPECT_EQ(error_of_header("{'descr': '<f4\\''}"), at(10, "a string has a backslash"));
  EXPECT_EQ(error_of_header("{'fortran_order': 1}"), at(18, "expected True or False"));
  EXPECT_EQ(error_of_header("{'shape': 3}  "), at(10, "expected '('"));
  EXPECT_EQ(error_of_header("{'shape': (3)}"), at(13, "a tuple of one entry needs a comma"));
  EXPECT_EQ(error_of_header("{'shape': (3 4)}"), at(13, "expected ',' or ')'"));
  EXPECT_EQ(error_of_header("{'shape': (-1, 2)}"), at(11, "expected a whole number >= 0"));
  EXPECT_EQ(error_of_header("{'shape': (__import__('os'),)}"),
            at(11, "expected a whole number >= 0"));
  EXPECT_EQ(error_of_header("{'shape': (9223372036854775808,)}"),
            at(29, "a number is above 2^63 - 1"));
  EXPECT_EQ(error_of_header("{'colour': 'red'}"),
            at(10, "the key 'colour' is unknown or comes twice"));
  EXPECT_EQ(error_of_header("{'descr': '<f4', 'descr': '<f4'}"),
            at(25, "the key 'descr' is unknown or comes twice"));
  EXPECT_EQ(error_of_header("{'descr': '<f4' 'shape': (1,)}"), at(16, "expected ',' or '}'"));
  EXPECT_EQ(error_of_header("{    }"), at(6, "the key 'descr' is missing"));
  EXPECT_EQ(error_of_header("{'descr': '<f4'}"), at(16, "the key 'fortran_order' is missing"));
  EXPECT_EQ(error_of_header("{'descr': '<f4', 'fortran_order': False}"),
            at(40, "the key 'shape' is missing"));
  EXPECT_EQ(error_of_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + 1"),
            at(56, "something follows the dictionary"));
}

TEST_F(Npy, OtherTypesAndShapes) {
  auto const type_error = [](std::string const& descr) {
    return "it holds values of type '" + descr +
           "', expected float32 ('<f4', '>f4') or float64 ('<f8', '>f8')";
  };
  for (std::string const descr : {"<i8", "|u1", "<f2", "<f16", "<c8", "|O", "f", "<", ""}) {
    EXPECT_EQ(error_of_header(npy_header(descr, false, "(1,)")), type_error(descr));
  }
  EXPECT_EQ(error_of_header("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}"),
            "it holds records (a list as 'descr'), expected float32 or float64");
  EXPECT_EQ(error_of_header(npy_header("<f4", false, "()")),
            "it has 0 dimensions, expected 2: (rows, columns)");
  EXPECT_EQ(error_of_header(npy_header("<f4", false, "(1, 2, 3)")),
            "it has 3 dimensions, expected 2: (rows, columns)");
}

TEST_F(Npy, SizesAreNotBelieved) {
  auto const header = npy_header("<f4", false, "(2, 3)");
  EXPECT_EQ(error_of(npy(header, std::string(23, '\0'))),
            "the shape (2, 3) of float32 takes 24 bytes, but 23 follow the header: the file is cut "
            "short");
  EXPECT_EQ(error_of(npy(header, std::string(25, '\0'))),
            "the shape (2, 3) of float32 takes 24 bytes, but 25 follow the header");
  EXPECT_EQ(error_of_header(npy_header("<f8", false, "(4611686018427387904, 2)")),
            "the shape (4611686018427387904, 2) does not fit in 64 bits");
  EXPECT_EQ(error_of_header(npy_header("<f4", false, "(4294967296, 4294967296)")),
            "the shape (4294967296, 4294967296) does not fit in 64 bits");
  EXPECT_EQ(error_of_header(npy_header("<f4", false, "(9223372036854775807, 0)")), "no error");
}

TEST_F(Npy, EveryPrefixOfAFileIsAnError) {
  auto const whole = npy(npy_header("<f4", false, "(2, 3)"), std::string(24, '\0'));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)), "no error") << size;
  }
}

TEST_F(Npy, WriterAndReaderAgree) {
  auto const path                  = folder_ / "b.npy";
  std::vector<double> const values = {1, 2, 3, 4, 5, 6};
  {
    NpyWriter writer(path, ScalarType::float64, {2, 3});
    writer.write(values.data(), 4);
    EXPECT_FALSE(std::filesystem::exists(path));
    writer.write(values.data() + 4, 2);
    writer.commit();
  }
  NpyReader const reader(path);
  EXPECT_EQ(reader.shape(), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(read_all(reader, 2), values);
  EXPECT_EQ((test::read_bytes(path).size() - sizeof(double) * values.size()) % 64, 0U);
  {
    NpyWriter writer(path, ScalarType::float32, {7});
    float const value = 1;
    writer.write(&value, 1);
  }
  EXPECT_EQ(read_all(NpyReader(path), 2), values) << "an abandoned file must change nothing";
  EXPECT_EQ(folder_.list(), "b.npy");
}

/// Whatever a few changed bytes make of a file, it is read or refused. The asan preset looks on.
TEST_F(Npy, SurvivesMutations) {
  auto const whole = npy(npy_header("<f4", true, "(2, 3)"), std::string(24, '\x3f'));
  std::mt19937 random(3);
  std::string_view const tokens[] = {"(",     ")",          "{",   "}",  "'",  "\"",   ",",
                                     ":",     "9999999999", "0",   "-1", "L",  "True", "\\",
                                     "shape", "descr",      "<f8", "[",  "1e9"};
  int refused                     = 0;
  constexpr int rounds            = 6000;
  for (int round = 0; round < rounds; ++round) {
    auto bytes         = whole;
    auto const changes = 1 + random() % 4;
    for (unsigned i = 0; i < changes && !bytes.empty(); ++i) {
      auto const at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, 1 + random() % 8); break;
        case 2: bytes.insert(at, tokens[random() % std::size(tokens)]); break;
        default: bytes.resize(at + 1); break;
      }
      // A header whose length is right again goes further than one that is not.
      auto const end = bytes.find('\n');
      if (random() % 2 == 0 && end != std::string::npos && end >= 10) {
        bytes[8] = static_cast<char>(end - 9);
        bytes[9] = 0;
      }
    }
    auto const path = file(bytes);
    try {
      NpyReader const reader(path);
      if (reader.rows() * reader.cols() < 100) read_all(reader, 1 + random() % 3);
    } catch (NpyError const&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 2);
}

}  // namespace

}  // namespace meander::cli
