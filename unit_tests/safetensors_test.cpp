// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <meander/model_file.hpp>

#include "tool/files.hpp"

namespace meander::test {

namespace {

/// w (1,2), u (1,2), b (1) in float32: 20 bytes.
std::string const good_header = R"({"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                                R"("u":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
                                R"("b":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}})";
std::string const good_data   = bytes_of(std::vector<float>{1, 2, 3, 4, 5});

class Safetensors : public ::testing::Test {
 protected:
  /// The text of the error on reading a file of these bytes, without the file's name.
  std::string error_of(std::string const& bytes) {
    auto const path = folder_ / "m.safetensors";
    write_bytes(path, bytes);
    try {
      read_model(path);
    } catch (ModelFileError const& error) {
      std::string const text = error.what();
      auto const prefix      = "'" + path.native() + "': ";
      EXPECT_TRUE(text.starts_with(prefix)) << text;
      return text.substr(prefix.size());
    }
    return "no error";
  }

  /// The same for a header that holds the one tensor w.
  std::string error_of_tensor(std::string const& tensor, std::string const& data = "") {
    return error_of(safetensors(R"({"w":)" + tensor + "}", data));
  }

  Folder folder_;
};

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST_F(Safetensors, ReadsAWellFormedFile) {
  write_bytes(folder_ / "m.safetensors", safetensors(good_header, good_data));
  auto const model   = read_model(folder_ / "m.safetensors");
  auto const& layers = std::get<PlanarLayers>(model.layers.at(0));
  EXPECT_EQ(layers.w, (std::vector<double>{1, 2}));
  EXPECT_EQ(layers.u, (std::vector<double>{3, 4}));
  EXPECT_EQ(layers.b, (std::vector<double>{5}));
}

TEST_F(Safetensors, AcceptsPaddingAndMetadata) {
  auto const header = replaced(good_header, "{", R"({"__metadata__":{"format":"pt"},)");
  EXPECT_EQ(error_of(safetensors(header + "     ", good_data)), "no error");
}

TEST_F(Safetensors, FileCutShort) {
  EXPECT_EQ(error_of(""),
            "not a safetensors file: it has 0 bytes, the header's length alone takes 8");
  EXPECT_EQ(error_of("1234567"),
            "not a safetensors file: it has 7 bytes, the header's length alone takes 8");
  EXPECT_EQ(error_of(little_endian(100, 8) + "{"),
            "a header of 100 bytes is announced, but only 1 bytes follow: the file is cut short");
  auto const whole = safetensors(good_header, good_data);
  EXPECT_EQ(error_of(whole.substr(0, whole.size() - 1)),
            "data_offsets [16, 20) of tensor 'b' reach past the file's 19 bytes of data");
}

TEST_F(Safetensors, HeaderLengthIsNotBelieved) {
  EXPECT_EQ(error_of(std::string(8, '\xff') + good_header),
            "not a safetensors file: a header of 18446744073709551615 bytes is announced, at most "
            "100000000 are allowed");
  EXPECT_EQ(error_of(little_endian(std::uint64_t{1} << 63U, 8) + good_header),
            "not a safetensors file: a header of 9223372036854775808 bytes is announced, at most "
            "100000000 are allowed");
}

TEST_F(Safetensors, EveryPrefixOfAFileIsAnError) {
  auto const whole = safetensors(good_header, good_data);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)), "no error") << size;
  }
}

TEST_F(Safetensors, BadJson) {
  EXPECT_EQ(error_of(safetensors("", "")),
            "not a safetensors file: its header does not begin with '{'");
  EXPECT_EQ(error_of(safetensors("[]", "")),
            "not a safetensors file: its header does not begin with '{'");
  EXPECT_EQ(error_of(safetensors(" {}", "")),
            "not a safetensors file: its header does not begin with '{'");
  EXPECT_EQ(error_of(safetensors("{", "")),
            "the header is not valid JSON, at its byte 2: unexpected end of input");
  EXPECT_EQ(error_of(safetensors("{} x", "")),
            "the header is not valid JSON, at its byte 4: invalid literal");
  EXPECT_EQ(error_of(safetensors("{\"w\":{\"dtype\":\"F32\xff\"}}", "")),
            "the header is not valid JSON, at its byte 19: ill-formed UTF-8 byte");
}

TEST_F(Safetensors, UnexpectedJson) {
  EXPECT_EQ(error_of_tensor("null"), "tensor 'w' is null, expected an object");
  EXPECT_EQ(error_of_tensor("[1]"), "tensor 'w' is an array, expected an object");
  EXPECT_EQ(error_of_tensor("3"), "tensor 'w' is a number, expected an object");
  EXPECT_EQ(error_of_tensor("{}"), "tensor 'w' has no dtype");
  EXPECT_EQ(error_of_tensor(R"({"dtype":"F32"})"), "tensor 'w' has no shape");
  EXPECT_EQ(error_of_tensor(R"({"dtype":"F32","shape":[]})"), "tensor 'w' has no data_offsets");
  EXPECT_EQ(error_of_tensor(R"({"dtype":32})"),
            "dtype of tensor 'w' is a number, expected a string");
  EXPECT_EQ(error_of_tensor(R"({"shape":"1,2"})"),
            "shape of tensor 'w' is a string, expected an array of whole numbers");
  EXPECT_EQ(error_of_tensor(R"({"shape":[[1]]})"),
            "shape of tensor 'w' holds an array, expected whole numbers");
  EXPECT_EQ(error_of_tensor(R"({"shape":[true]})"),
            "shape of tensor 'w' holds a boolean, expected whole numbers");
  EXPECT_EQ(error_of_tensor(R"({"colour":"red"})"), "tensor 'w' has the unknown key 'colour'");
  EXPECT_EQ(error_of_tensor(R"({"data_offsets":[0]})"),
            "data_offsets of tensor 'w' has not two entries");
  EXPECT_EQ(error_of_tensor(R"({"data_offsets":[0,1,2]})"),
            "data_offsets of tensor 'w' has more than two entries");
  EXPECT_EQ(error_of(safetensors(R"({"__metadata__":[]})", "")),
            "__metadata__ is an array, expected an object of strings");
  EXPECT_EQ(error_of(safetensors(R"({"__metadata__":{"a":1}})", "")),
            "__metadata__['a'] is a number, expected a string");
}

TEST_F(Safetensors, DeepNestingIsRefusedAtOnce) {
  std::string const deep(1'000'000, '[');
  EXPECT_EQ(error_of_tensor(deep), "tensor 'w' is an array, expected an object");
  EXPECT_EQ(error_of_tensor(R"({"shape":)" + deep),
            "shape of tensor 'w' holds an array, expected whole numbers");
}

TEST_F(Safetensors, DuplicateNames) {
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "\"u\"", "\"w\""), good_data)),
            "the header has tensor 'w' twice");
  EXPECT_EQ(error_of_tensor(R"({"dtype":"F32","dtype":"F64"})"),
            "tensor 'w' has the key 'dtype' twice");
  EXPECT_EQ(error_of(safetensors(R"({"__metadata__":{},"__metadata__":{}})", "")),
            "the header has the key '__metadata__' twice");
  EXPECT_EQ(error_of(safetensors(R"({"__metadata__":{"a":"1","a":"2"}})", "")),
            "__metadata__ has the key 'a' twice");
  // The same name, once spelled with an escape.
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "\"u\"", R"("\u0077")"), good_data)),
            "the header has tensor 'w' twice");
}

TEST_F(Safetensors, NumbersThatAreNotSizes) {
  EXPECT_EQ(error_of_tensor(R"({"shape":[-1]})"),
            "shape of tensor 'w' holds -1, a negative number");
  EXPECT_EQ(error_of_tensor(R"({"shape":[1.5]})"),
            "shape of tensor 'w' holds 1.5, not a whole number below 2^64");
  EXPECT_EQ(error_of_tensor(R"({"shape":[1e3]})"),
            "shape of tensor 'w' holds 1e3, not a whole number below 2^64");
  EXPECT_EQ(error_of_tensor(R"({"shape":[18446744073709551616]})"),
            "shape of tensor 'w' holds 18446744073709551616, not a whole number below 2^64");
  EXPECT_EQ(error_of_tensor(R"({"data_offsets":[0,-8]})"),
            "data_offsets of tensor 'w' holds -8, a negative number");
}

TEST_F(Safetensors, HugeSizes) {
  EXPECT_EQ(
      error_of_tensor(R"({"dtype":"F32","shape":[9223372036854775808,2],"data_offsets":[0,0]})"),
      "shape (9223372036854775808, 2) of tensor 'w' does not fit in 64 bits");
  EXPECT_EQ(
      error_of_tensor(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})"),
      "shape (4611686018427387904,) of tensor 'w' does not fit in 64 bits");
  EXPECT_EQ(
      error_of_tensor(R"({"dtype":"F32","shape":[1,2],"data_offsets":[0,9223372036854775808]})",
                      good_data),
      "data_offsets [0, 9223372036854775808) of tensor 'w' reach past the file's 20 bytes of "
      "data");
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ",1";
  EXPECT_EQ(error_of_tensor(R"({"shape":[)" + many + "]}"),
            "shape of tensor 'w' has more than 64 entries");
  // No elements at all: nothing overflows, but nothing is a model either.
  EXPECT_EQ(error_of(safetensors(
                R"({"w":{"dtype":"F32","shape":[9223372036854775808,0],"data_offsets":[0,0]},)"
                R"("u":{"dtype":"F32","shape":[0,2],"data_offsets":[0,0]},)"
                R"("b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                "")),
            "tensor 'w' has shape (9223372036854775808, 0), expected (layers, dimension) with a "
            "dimension of 1 or more, both below 2^31");
}

TEST_F(Safetensors, OffsetsThatDoNotFit) {
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "[16,20]", "[17,21]"), good_data)),
            "data_offsets [17, 21) of tensor 'b' reach past the file's 20 bytes of data");
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "[8,16]", "[16,8]"), good_data)),
            "data_offsets [16, 8) of tensor 'u' run backwards");
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "[8,16]", "[8,12]"), good_data)),
            "tensor 'u' of shape (1, 2) and dtype F32 takes 8 bytes, its data_offsets [8, 12) hold "
            "4");
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "[8,16]", "[4,12]"), good_data)),
            "tensor 'u' at [4, 12) overlaps the one before it, which ends at 8");
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "[8,16]", "[0,8]"), good_data)),
            "tensor 'w' at [0, 8) overlaps the one before it, which ends at 8");
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "[16,20]", "[18,22]"), good_data + "xx")),
            "bytes [16, 18) before tensor 'b' belong to no tensor");
  EXPECT_EQ(error_of(safetensors(good_header, good_data + "xyz")),
            "the last 3 bytes belong to no tensor");
}

TEST_F(Safetensors, WrongType) {
  EXPECT_EQ(error_of(safetensors(
                replaced(replaced(good_header, R"("F32","shape":[1,2],"data_offsets":[0,8])",
                                  R"("F16","shape":[1,2],"data_offsets":[0,4])"),
                         "[8,16]", "[4,12]"),
                good_data)),
            "bytes [12, 16) before tensor 'b' belong to no tensor");
  std::string const halves = R"({"w":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},)"
                             R"("u":{"dtype":"F16","shape":[1,2],"data_offsets":[4,8]},)"
                             R"("b":{"dtype":"F16","shape":[1],"data_offsets":[8,10]}})";
  EXPECT_EQ(error_of(safetensors(halves, std::string(10, '\0'))),
            "tensor 'w' has dtype F16, expected F32 or F64");
  EXPECT_EQ(error_of(safetensors(replaced(good_header, "F32", "F33"), good_data)),
            "tensor 'w' has the unknown dtype 'F33'");
  std::string const mixed = R"({"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                            R"("u":{"dtype":"F64","shape":[1,2],"data_offsets":[8,24]},)"
                            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}})";
  EXPECT_EQ(error_of(safetensors(mixed, std::string(28, '\0'))),
            "tensor 'u' has dtype F64 but 'w' has F32; one dtype is expected throughout");
}

TEST_F(Safetensors, NamesAreSafeToPrint) {
  auto const name = std::string(R"(\u001b[31m\nred)") + std::string(200, 'x');
  auto const text = error_of(safetensors("{\"" + name + "\":null}", ""));
  EXPECT_EQ(text, "tensor '\\x1b[31m\\x0ared" + std::string(71, 'x') +
                      "...' is null, expected an object");
}

TEST_F(Safetensors, NotAFile) {
  auto const text = [](std::filesystem::path const& path) -> std::string {
    try {
      read_model(path);
    } catch (ModelFileError const& error) {
      return error.what();
    }
    return "no error";
  };
  auto const missing = folder_ / "missing";
  EXPECT_EQ(text(missing), "cannot open '" + missing.native() + "': No such file or directory");
  EXPECT_EQ(text(folder_.path()), "'" + folder_.path().native() + "' is not a regular file");
  EXPECT_EQ(text("/dev/null"), "'/dev/null' is not a regular file");
}

/// Whatever a few changed bytes make of a file, it is read or refused. The asan preset looks on.
TEST_F(Safetensors, SurvivesMutations) {
  std::string const header =
      R"({"__metadata__":{"meander":"{\"version\":1,\"direction\":\"generative\",)"
      R"(\"base\":\"standard_normal\",\"layers\":[{\"type\":\"planar\",\"count\":1,)"
      R"(\"activation\":\"tanh\",\"constraint\":\"softplus\"}]}"},)"
      R"("layers.0.w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("layers.0.u":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
      R"("layers.0.b":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}})";
  ASSERT_EQ(error_of(safetensors(header, good_data)), "no error");
  std::mt19937 random(2);
  std::string_view const tokens[] = {"{",       "}",    "[",
                                     "]",       ",",    ":",
                                     "\"",      "\\",   "0",
                                     "9",       "-",    "e",
                                     "null",    "true", "18446744073709551615",
                                     "\\u0000", "\xff", "w",
                                     "[[[[",    "}}",   "__metadata__",
                                     "1e999"};
  int refused                     = 0;
  constexpr int rounds            = 6000;
  for (int round = 0; round < rounds; ++round) {
    auto text          = round % 2 == 0 ? header : good_header;
    auto const changes = 1 + random() % 4;
    for (unsigned i = 0; i < changes && !text.empty(); ++i) {
      auto const at = random() % text.size();
      switch (random() % 5) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 8); break;
        case 2: text.insert(at, tokens[random() % std::size(tokens)]); break;
        case 3: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
        default: text.resize(at); break;
      }
    }
    auto bytes = safetensors(text, good_data);
    if (random() % 8 == 0) bytes[random() % 8] = static_cast<char>(random());
    if (error_of(bytes) != "no error") ++refused;
  }
  EXPECT_GT(refused, rounds / 2);
}

}  // namespace

}  // namespace meander::test
