// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <meander/model_file.hpp>

#include "tool/files.hpp"

namespace meander::test {

namespace {

std::filesystem::path const data = MEANDER_TEST_DATA;

Model example(ScalarType stored) {
  PlanarLayers tanh;
  tanh.count                   = 2;
  tanh.dim                     = 3;
  tanh.options.log_det_epsilon = 1e-8;
  tanh.w                       = {0.5, -0.25, 1, 2, 3, 4};
  tanh.u                       = {1, 2, 3, -4, -5, -6};
  tanh.b                       = {0.125, -7};
  auto leaky                   = tanh;
  leaky.count                  = 1;
  leaky.options                = {Activation::leaky_relu, Constraint::log_softplus, 0.1, 0};
  leaky.w = leaky.u = {1, 0, 0};
  leaky.b           = {0};
  Model model;
  model.direction = Direction::normalizing;
  model.base      = DiagonalNormal{{1, 2, 3}, {0, -1, 0.5}};
  model.layers    = {tanh, leaky, tanh};
  model.stored    = stored;
  return model;
}

class ModelFile : public ::testing::Test {
 protected:
  std::string error_of(std::filesystem::path const& path, ModelReadOptions const& options = {}) {
    try {
      read_model(path, options);
    } catch (ModelFileError const& error) {
      std::string text  = error.what();
      auto const prefix = "'" + path.native() + "': ";
      return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
    }
    return "no error";
  }

  /// The error for a description of the meander layout and the tensors that belong to one layer.
  std::string error_of_description(std::string const& description, bool with_tensors = true) {
    std::string quoted;
    for (char const c : description) quoted += c == '"' ? "\\\"" : std::string(1, c);
    auto const tensors = R"("layers.0.w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                         R"("layers.0.u":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
                         R"("layers.0.b":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}})";
    auto const path    = folder_ / "m.safetensors";
    write_bytes(path, safetensors(R"({"__metadata__":{"meander":")" + quoted + "\"}" +
                                      (with_tensors ? std::string(",") + tensors : "}"),
                                  with_tensors ? std::string(20, '\0') : ""));
    return error_of(path);
  }

  std::string error_of_layer(std::string const& layer) {
    return error_of_description(
        R"({"version":1,"direction":"generative","base":"standard_normal","layers":[)" + layer +
        "]}");
  }

  /// A file of float32 tensors of zeros, given as name and shape.
  std::filesystem::path zeros(
      std::vector<std::pair<std::string, std::vector<int>>> const& tensors) {
    std::string header;
    std::size_t end = 0;
    for (auto const& [name, shape] : tensors) {
      std::string extents;
      std::size_t size = 4;
      for (int const extent : shape) {
        extents += (extents.empty() ? "" : ",") + std::to_string(extent);
        size *= static_cast<std::size_t>(extent);
      }
      header += header.empty() ? "{\"" : ",\"";
      header += name;
      header += R"(":{"dtype":"F32","shape":[)";
      header += extents;
      header += R"(],"data_offsets":[)" + std::to_string(end) + ",";
      header += std::to_string(end + size) + "]}";
      end += size;
    }
    auto path = folder_ / "zeros.safetensors";
    write_bytes(path, safetensors(header + "}", std::string(end, '\0')));
    return path;
  }

  Folder folder_;
};

TEST_F(ModelFile, WhatIsWrittenIsRead) {
  for (auto const stored : {ScalarType::float32, ScalarType::float64}) {
    auto const model = example(stored);
    write_model(folder_ / "m.safetensors", model);
    EXPECT_EQ(read_model(folder_ / "m.safetensors"), model);
  }
  auto standard                                   = example(ScalarType::float64);
  standard.base                                   = StandardNormal{};
  standard.direction                              = Direction::generative;
  std::get<PlanarLayers>(standard.layers[0]).b[0] = 0.1;  // not a float
  write_model(folder_ / "m.safetensors", standard);
  EXPECT_EQ(read_model(folder_ / "m.safetensors"), standard);
  EXPECT_EQ(folder_.list(), "m.safetensors");
}

TEST_F(ModelFile, RoundsToTheStoredType) {
  auto model                                   = example(ScalarType::float32);
  std::get<PlanarLayers>(model.layers[0]).b[0] = 0.1;
  write_model(folder_ / "m.safetensors", model);
  auto const read = read_model(folder_ / "m.safetensors");
  EXPECT_EQ(std::get<PlanarLayers>(read.layers[0]).b[0], static_cast<double>(0.1F));
}

TEST_F(ModelFile, KeepsValuesThatAreNotFinite) {
  auto model   = example(ScalarType::float32);
  auto& layers = std::get<PlanarLayers>(model.layers[0]);
  layers.w[0]  = std::nan("");
  layers.u[1]  = std::numeric_limits<double>::infinity();
  write_model(folder_ / "m.safetensors", model);
  auto const read = read_model(folder_ / "m.safetensors");
  EXPECT_TRUE(std::isnan(std::get<PlanarLayers>(read.layers[0]).w[0]));
  EXPECT_EQ(std::get<PlanarLayers>(read.layers[0]).u[1], std::numeric_limits<double>::infinity());
}

TEST_F(ModelFile, NoLayersAndEmptyRuns) {
  Model model;
  model.base = DiagonalNormal{{1, 2}, {0, 0}};
  write_model(folder_ / "m.safetensors", model);
  EXPECT_EQ(read_model(folder_ / "m.safetensors").dim(), 2);
  model.layers.emplace_back(PlanarLayers{0, 2, {}, {}, {}, {}});
  write_model(folder_ / "m.safetensors", model);
  EXPECT_EQ(read_model(folder_ / "m.safetensors"), model);
}

TEST_F(ModelFile, FailedWriteLeavesNothing) {
  auto const path           = folder_ / "m.safetensors";
  auto const error_of_write = [&](Model const& model, std::filesystem::path const& to) {
    try {
      write_model(to, model);
    } catch (ModelFileError const& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  auto const prefix = "cannot write '" + path.native() + "': ";
  write_bytes(path, "old");

  auto model                                   = example(ScalarType::float32);
  std::get<PlanarLayers>(model.layers[2]).b[1] = 1e300;
  EXPECT_EQ(error_of_write(model, path),
            prefix + "a value of tensor 'layers.2.b' is beyond the range of float32");
  model = example(ScalarType::float32);
  std::get<PlanarLayers>(model.layers[1]).u.pop_back();
  EXPECT_EQ(error_of_write(model, path), prefix + "layers.1.u has 2 values, expected 3");
  std::get<PlanarLayers>(model.layers[1]).dim = 2;
  EXPECT_EQ(error_of_write(model, path),
            prefix + "layers.1 has count 1 and dimension 2, expected a count >= 0 and dimension 3");
  EXPECT_EQ(error_of_write(Model(), path), prefix + "the model has no dimension");
  model                                                           = example(ScalarType::float32);
  std::get<PlanarLayers>(model.layers[0]).options.log_det_epsilon = -1;
  EXPECT_EQ(error_of_write(model, path),
            prefix + "layers.0 has a log_det_epsilon that is not a finite number >= 0");
  model                                                      = example(ScalarType::float32);
  std::get<PlanarLayers>(model.layers[0]).options.activation = static_cast<Activation>(9);
  EXPECT_EQ(error_of_write(model, path),
            prefix + "layers.0 has an activation that is none of the enumeration");
  model           = example(ScalarType::float32);
  model.direction = static_cast<Direction>(9);
  EXPECT_EQ(error_of_write(model, path), prefix + "its direction is none of the enumeration");
  EXPECT_EQ(error_of_write(example(static_cast<ScalarType>(9)), path),
            prefix + "its stored type is none of the enumeration");
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(folder_.list(), "m.safetensors");

  auto const nowhere = folder_ / "missing/m.safetensors";
  EXPECT_EQ(error_of_write(example(ScalarType::float32), nowhere),
            "cannot write '" + nowhere.native() + "': No such file or directory");
  EXPECT_EQ(error_of_write(example(ScalarType::float32), folder_.path()),
            "cannot write '" + folder_.path().native() + "': it exists and is not a regular file");
}

TEST_F(ModelFile, ReplacesThroughALinkAndKeepsPermissions) {
  auto const path = folder_ / "m.safetensors";
  write_bytes(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  std::filesystem::create_symlink("m.safetensors", folder_ / "link");
  write_model(folder_ / "link", example(ScalarType::float32));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_model(path), example(ScalarType::float32));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0640));
}

TEST_F(ModelFile, BareLayout) {
  auto const model = read_model(data / "reference_d5_l3.safetensors");
  EXPECT_EQ(model.layout, "bare");
  EXPECT_EQ(model.direction, Direction::generative);
  EXPECT_EQ(model.stored, ScalarType::float32);
  EXPECT_TRUE(std::holds_alternative<StandardNormal>(model.base));
  auto const& layers = std::get<PlanarLayers>(model.layers.at(0));
  EXPECT_EQ(layers.count, 3);
  EXPECT_EQ(model.dim(), 5);
  EXPECT_EQ(layers.options, PlanarOptions());

  EXPECT_EQ(error_of(zeros({{"w", {1, 2}}, {"u", {1, 2}}, {"b", {1}}, {"v", {1}}})),
            "tensor 'v' has no place in the bare w, u, b layout");
  EXPECT_EQ(error_of(zeros({{"w", {1, 2}}, {"u", {2, 1}}, {"b", {1}}})),
            "tensor 'u' has shape (2, 1), expected (1, 2)");
  EXPECT_EQ(error_of(zeros({{"w", {1, 2}}, {"u", {1, 2}}, {"b", {2}}})),
            "tensor 'b' has shape (2,), expected (1,)");
  EXPECT_EQ(
      error_of(zeros({{"w", {2}}, {"u", {2}}, {"b", {1}}})),
      "tensor 'w' has shape (2,), expected (layers, dimension) with a dimension of 1 or more, "
      "both below 2^31");
  EXPECT_EQ(
      error_of(zeros({{"w", {1, 2}}, {"u", {1, 2}}})),
      "no known layout: expected __metadata__['meander'], or tensors 'w', 'u', 'b', or tensors "
      "'flows.0.w', 'flows.0.u', 'flows.0.b', ...; the file has a tensor 'u'");
}

TEST_F(ModelFile, NormflowsLayout) {
  auto const model = read_model(data / "normflows_twomodes_k16.safetensors");
  EXPECT_EQ(model.layout, "normflows");
  EXPECT_EQ(model.dim(), 2);
  EXPECT_TRUE(std::holds_alternative<DiagonalNormal>(model.base));
  EXPECT_EQ(std::get<PlanarLayers>(model.layers.at(0)).count, 16);

  ModelReadOptions options;
  options.activation = Activation::leaky_relu;
  auto const leaky   = read_model(data / "normflows_leaky_k8.safetensors", options);
  auto const& layers = std::get<PlanarLayers>(leaky.layers.at(0));
  EXPECT_EQ(layers.count, 8);
  EXPECT_EQ(layers.options, (PlanarOptions{Activation::leaky_relu, Constraint::softplus, 0.2, 0}));
}

TEST_F(ModelFile, NormflowsLayersAreOrderedByNumber) {
  std::string header;
  std::vector<float> values;
  for (int i = 11; i >= 0; --i) {
    for (char const* name : {"w", "u", "b"}) {
      auto const begin = std::to_string(4 * values.size());
      values.push_back(static_cast<float>(i));
      header += (header.empty() ? "{" : ",") + std::string("\"flows.") + std::to_string(i) + "." +
                name + R"(":{"dtype":"F32","shape":)" + (*name == 'b' ? "[1]" : "[1,1]") +
                R"(,"data_offsets":[)" + begin + "," + std::to_string(4 * values.size()) + "]}";
    }
  }
  write_bytes(folder_ / "m", safetensors(header + "}", bytes_of(values)));
  auto const model   = read_model(folder_ / "m");
  auto const& layers = std::get<PlanarLayers>(model.layers.at(0));
  EXPECT_EQ(layers.b, (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(layers.w, layers.b);
  EXPECT_TRUE(std::holds_alternative<StandardNormal>(model.base));
}

TEST_F(ModelFile, NormflowsErrors) {
  std::vector<std::pair<std::string, std::vector<int>>> const one = {
      {"flows.0.w", {1, 2}}, {"flows.0.u", {1, 2}}, {"flows.0.b", {1}}};
  auto const with = [&](std::pair<std::string, std::vector<int>> const& tensor) {
    auto tensors = one;
    tensors.push_back(tensor);
    return error_of(zeros(tensors));
  };
  EXPECT_EQ(error_of(zeros(one)), "no error");
  EXPECT_EQ(with({"p.loc", {7}}), "no error");
  EXPECT_EQ(with({"flows.2.w", {1, 2}}),
            "the flows are not numbered without a gap: flows.1 is missing, flows.2 exists");
  EXPECT_EQ(with({"flows.1.w", {1, 2}}), "tensor 'flows.1.u' is missing");
  EXPECT_EQ(with({"flows.1.w", {1, 3}}), "tensor 'flows.1.w' has shape (1, 3), expected (1, 2)");
  EXPECT_EQ(with({"flows.01.w", {1, 2}}), "tensor 'flows.01.w' is not named flows.{i}.{w,u,b}");
  EXPECT_EQ(with({"flows.x.w", {1, 2}}), "tensor 'flows.x.w' is not named flows.{i}.{w,u,b}");
  EXPECT_EQ(with({"flows.1.beta", {1}}),
            "tensor 'flows.1.beta' does not belong to a planar layer (flows.{i}.w, .u, .b); this "
            "version reads planar layers only");
  EXPECT_EQ(with({"q0.loc", {1, 2}}), "tensor 'q0.log_scale' is missing");
  EXPECT_EQ(with({"q0.weight_scores", {1, 2}}),
            "tensor 'q0.weight_scores' belongs to a base distribution that this version does not "
            "read; expected a diagonal Gaussian: q0.loc, q0.log_scale");
}

TEST_F(ModelFile, DescriptionErrors) {
  std::string const where = "__metadata__['meander'] ";
  EXPECT_EQ(error_of_description("{"),
            where + "is not valid JSON, at its byte 2: unexpected end of input");
  EXPECT_EQ(error_of_description("[]"), where + "is not an object");
  EXPECT_EQ(error_of_description("{}"), where + "has no key 'version'");
  EXPECT_EQ(error_of_description(R"({"version":2})"),
            where + "has version 2, this version of Meander reads version 1");
  EXPECT_EQ(error_of_description(R"({"version":"1"})"),
            where + "has version '1', this version of Meander reads version 1");
  EXPECT_EQ(error_of_description(R"({"version":1,"version":1})"),
            where + "has the key 'version' twice in one object");
  EXPECT_EQ(error_of_description(R"({"version":1,"epoch":3})"),
            where + "has the unknown key 'epoch'");
  EXPECT_EQ(error_of_description(R"({"version":1})"), where + "has no key 'direction'");
  EXPECT_EQ(error_of_description(R"({"version":1,"direction":"up"})"),
            where + "has direction 'up', expected one of 'generative', 'normalizing'");
  EXPECT_EQ(error_of_description(R"({"version":1,"direction":"generative","base":"uniform"})"),
            where + "has base 'uniform', expected one of 'standard_normal', 'diagonal_normal'");
  EXPECT_EQ(error_of_description(
                R"({"version":1,"direction":"generative","base":"standard_normal","layers":3})"),
            where + "has layers 3, expected a list");
  EXPECT_EQ(error_of_description(
                R"({"version":1,"direction":"generative","base":"standard_normal","layers":[]})"),
            where + "lists no layers and a base without parameters: nothing says the dimension");
  EXPECT_EQ(
      error_of_description("{\"version\":" + std::string(100, '[') + std::string(100, ']') + "}"),
      where + "nests deeper than 8 levels");
  EXPECT_EQ(error_of_description("{\"version\":" + std::string(std::size_t{1} << 22U, ' ') + "1}"),
            where + "has 4194317 bytes, at most 4194304 are allowed");
}

TEST_F(ModelFile, LayerErrors) {
  std::string const where = "layers.0 of __metadata__['meander'] ";
  std::string const good =
      R"({"type":"planar","count":1,"activation":"tanh","constraint":"softplus"})";
  EXPECT_EQ(error_of_layer(good), "no error");
  EXPECT_EQ(error_of_layer("7"), where + "is not an object");
  EXPECT_EQ(error_of_layer(R"({"type":"radial"})"),
            where + "has type 'radial', expected one of 'planar', 'affine'");
  EXPECT_EQ(error_of_layer(R"({"type":"planar","activation":"relu"})"),
            where + "has activation 'relu', expected one of 'tanh', 'leaky_relu'");
  EXPECT_EQ(error_of_layer(R"({"type":"planar","activation":"tanh","constraint":null})"),
            where + "has constraint null, expected one of 'softplus', 'log_softplus', 'none'");
  auto const with = [&](std::string const& entry, std::string const& activation = "tanh") {
    return error_of_layer(R"({"type":"planar","activation":")" + activation +
                          R"(","constraint":"none",)" + entry + "}");
  };
  EXPECT_EQ(with(R"("epsilon":1)"), where + "has the unknown key 'epsilon'");
  EXPECT_EQ(with(R"("negative_slope":0.1)"), where + "has the unknown key 'negative_slope'");
  EXPECT_EQ(with(R"("count":1)", "leaky_relu"), where + "has no key 'negative_slope'");
  EXPECT_EQ(with(R"("negative_slope":1.5)", "leaky_relu"),
            where + "has negative_slope 1.5, expected a number in [0, 1]");
  EXPECT_EQ(with(R"("log_det_epsilon":-1)"),
            where + "has log_det_epsilon -1, expected a finite number >= 0");
  EXPECT_EQ(with(R"("log_det_epsilon":"0")"),
            where + "has log_det_epsilon '0', expected a finite number >= 0");
  EXPECT_EQ(with(R"("count":-1)"),
            where + "has count -1, expected a whole number from 0 to 2^31 - 1");
  EXPECT_EQ(with(R"("count":9223372036854775808)"),
            where + "has count 9223372036854775808, expected a whole number from 0 to 2^31 - 1");
  EXPECT_EQ(with(R"("count":2)"), where + "has count 2, but tensor 'layers.0.w' has shape (1, 2)");
  EXPECT_EQ(error_of_layer(good + "," + good), "tensor 'layers.1.w' is missing");
  EXPECT_EQ(error_of_description(
                R"({"version":1,"direction":"generative","base":"diagonal_normal","layers":[)" +
                good + "]}"),
            "tensor 'base.loc' is missing");
  EXPECT_EQ(error_of_description(
                R"({"version":1,"direction":"generative","base":"diagonal_normal","layers":[]})"),
            "tensor 'base.loc' is missing");
}

Model with_affine() {
  auto model = example(ScalarType::float64);
  model.layers.insert(model.layers.begin(), AffineLayer{3, {0.1, -2, 1e6}, {0, -13.5, 7}});
  model.layers.emplace_back(AffineLayer{3, {1, 2, 3}, {4, 5, 6}});
  return model;
}

TEST_F(ModelFile, AffineLayersAreReadAsWritten) {
  auto const path = folder_ / "m.safetensors";
  auto model      = with_affine();
  write_model(path, model);
  EXPECT_EQ(read_model(path), model);
  model.layers = {AffineLayer{1, {2}, {3}}};
  model.base   = StandardNormal{};
  write_model(path, model);
  EXPECT_EQ(read_model(path), model);
  EXPECT_EQ(read_model(path).dim(), 1);
  EXPECT_NE(read_bytes(path).find(R"(\"layers\":[{\"type\":\"affine\"}])"), std::string::npos);
  EXPECT_NE(read_bytes(path).find(R"("layers.0.log_scale")"), std::string::npos);

  auto& layer        = std::get<AffineLayer>(model.layers[0]);
  layer.shift[0]     = std::nan("");
  layer.log_scale[0] = -std::numeric_limits<double>::infinity();
  write_model(path, model);
  auto const read = std::get<AffineLayer>(read_model(path).layers[0]);
  EXPECT_TRUE(std::isnan(read.shift[0]));
  EXPECT_EQ(read.log_scale, layer.log_scale);
}

TEST_F(ModelFile, AffineLayersAreWrittenOnlyIfConsistent) {
  auto const path           = folder_ / "m.safetensors";
  auto const error_of_write = [&](auto const& change) {
    auto model = with_affine();
    change(std::get<AffineLayer>(model.layers.back()));
    try {
      write_model(path, model);
    } catch (ModelFileError const& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  auto const prefix = "cannot write '" + path.native() + "': ";
  EXPECT_EQ(error_of_write([](AffineLayer& layer) { layer.dim = 2; }),
            prefix + "layers.4 has dimension 2, expected 3");
  EXPECT_EQ(error_of_write([](AffineLayer& layer) { layer.shift.pop_back(); }),
            prefix + "layers.4.shift has 2 values, expected 3");
  EXPECT_EQ(error_of_write([](AffineLayer& layer) { layer.log_scale.push_back(0); }),
            prefix + "layers.4.log_scale has 4 values, expected 3");
  EXPECT_EQ(folder_.list(), "");
}

/// A file of one affine layer and zeros, but for what is wrong.
TEST_F(ModelFile, AffineErrors) {
  using Tensors         = std::vector<std::pair<std::string, std::vector<int>>>;
  auto const error_with = [&](Tensors const& tensors, std::string const& layers) {
    auto bytes       = read_bytes(zeros(tensors)).substr(8);
    auto const brace = bytes.find('{');
    std::string const description =
        R"("__metadata__":{"meander":"{\"version\":1,\"direction\":\"normalizing\",)"
        R"(\"base\":\"standard_normal\",\"layers\":[)" +
        layers + R"(]}"},)";
    auto const header_end = bytes.find("]}}") + 3;
    auto const path       = folder_ / "m.safetensors";
    write_bytes(path, safetensors(bytes.substr(0, brace + 1) + description +
                                      bytes.substr(brace + 1, header_end - brace - 1),
                                  bytes.substr(header_end)));
    return error_of(path);
  };
  std::string const affine = R"({\"type\":\"affine\"})";
  std::string const where  = "layers.0 of __metadata__['meander'] ";
  Tensors const good       = {{"layers.0.shift", {3}}, {"layers.0.log_scale", {3}}};
  EXPECT_EQ(error_with(good, affine), "no error");
  EXPECT_EQ(error_with(good, R"({\"type\":\"affine\",\"count\":1})"),
            where + "has the unknown key 'count'");
  EXPECT_EQ(error_with({{"layers.0.shift", {3}}}, affine),
            "tensor 'layers.0.log_scale' is missing");
  EXPECT_EQ(error_with({{"layers.0.log_scale", {3}}}, affine),
            "tensor 'layers.0.shift' is missing");
  EXPECT_EQ(error_with({{"layers.0.shift", {3}}, {"layers.0.log_scale", {2}}}, affine),
            "tensor 'layers.0.log_scale' has shape (2,), expected (3,)");
  EXPECT_EQ(error_with({{"layers.0.shift", {3}}, {"layers.0.log_scale", {3, 1}}}, affine),
            "tensor 'layers.0.log_scale' has shape (3, 1), expected (3,)");
  for (auto const& [shape, text] : {std::pair<std::vector<int>, std::string>{{1, 3}, "(1, 3)"},
                                    std::pair<std::vector<int>, std::string>{{0}, "(0,)"}}) {
    EXPECT_EQ(error_with({{"layers.0.shift", shape}, {"layers.0.log_scale", shape}}, affine),
              "tensor 'layers.0.shift' has shape " + text +
                  ", expected (dimension,) with a dimension from 1 to 2^31 - 1");
  }
  EXPECT_EQ(error_with({{"layers.0.shift", {3}}, {"layers.0.log_scale", {3}}, {"layers.0.w", {3}}},
                       affine),
            "tensor 'layers.0.w' has no place in the meander layout");
  EXPECT_EQ(error_with({{"layers.0.shift", {3}},
                        {"layers.0.log_scale", {3}},
                        {"layers.1.shift", {2}},
                        {"layers.1.log_scale", {2}}},
                       affine + "," + affine),
            "layers.1 of __metadata__['meander'] has dimension 2, the layers before it have 3");
}

TEST_F(ModelFile, OptionsReplaceWhatTheFileSays) {
  write_model(folder_ / "m", example(ScalarType::float32));
  ModelReadOptions options;
  options.log_det_epsilon = 0.5;
  options.activation      = Activation::leaky_relu;
  options.negative_slope  = 0.3;
  options.constraint      = Constraint::none;
  options.direction       = Direction::generative;
  auto const model        = read_model(folder_ / "m", options);
  EXPECT_EQ(model.direction, Direction::generative);
  for (auto const& layer : model.layers) {
    EXPECT_EQ(std::get<PlanarLayers>(layer).options,
              (PlanarOptions{Activation::leaky_relu, Constraint::none, 0.3, 0.5}));
  }

  // They are of planar layers.
  write_model(folder_ / "affine", with_affine());
  auto const affine = read_model(folder_ / "affine", options);
  EXPECT_EQ(affine.layers.front(), with_affine().layers.front());
  EXPECT_EQ(std::get<PlanarLayers>(affine.layers[1]).options.negative_slope, 0.3);

  ModelReadOptions wrong;
  wrong.negative_slope = 0.1;
  EXPECT_EQ(error_of(folder_ / "m", wrong), "negative_slope was given, but the activation is tanh");
  wrong.negative_slope = 2;
  EXPECT_EQ(error_of(folder_ / "m", wrong),
            "negative_slope was given as 2.000000, expected a number in [0, 1]");
  wrong                 = {};
  wrong.log_det_epsilon = std::nan("");
  EXPECT_EQ(error_of(folder_ / "m", wrong),
            "log_det_epsilon was given as nan, expected a finite number >= 0");
}

}  // namespace

}  // namespace meander::test
