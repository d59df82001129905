// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>

#include <meander/model.hpp>

namespace meander {

/// \brief A model file could not be read or written.
///
/// The text names the file and the tensor or key, what was found there and what was expected.
/// Names that come from the file are quoted, with everything but printable ASCII escaped.
class ModelFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// \brief What the caller knows better than the file.
///
/// A value given here replaces what the file says, in every run of planar layers. The layouts of
/// other codes say little, so there it fills the gap (see read_model).
struct ModelReadOptions {
  std::optional<double> log_det_epsilon;  ///< finite and >= 0
  std::optional<Activation> activation;
  std::optional<double> negative_slope;  ///< in [0, 1]; an error where the activation is tanh
  std::optional<Constraint> constraint;
  std::optional<Direction> direction;
};

/// \brief Reads a model from a safetensors file.
///
/// Three layouts are recognised:
/// - `meander`: what write_model writes. The header's `__metadata__["meander"]` describes the
///   direction, the base and the layers; every tensor must be one that it asks for.
/// - `bare`: exactly the tensors `w` (L,D), `u` (L,D), `b` (L). Read as tanh, softplus, generative,
///   standard normal, log_det_epsilon 0.
/// - `normflows`: `flows.{i}.w` (1,D), `flows.{i}.u` (1,D), `flows.{i}.b` (1) for i = 0, 1, ...
///   without a gap, in numerical order, and `q0.loc`, `q0.log_scale` (1,D) (standard normal where
///   both are missing), as its `state_dict()` names them. The file does not say the activation:
///   tanh, or leaky_relu with slope 0.2, must be told by the options. Tensors outside `flows.` and
///   `q0.` (a target distribution) are ignored.
///
/// The file is taken as untrusted: nothing is allocated by a size it claims before that size has
/// been checked against the file's own. Tensors must be F32 or F64, all of one type. Parameters
/// that are not finite are read as they are; `meander info` points at them.
///
/// \param[in] path A regular file.
/// \param[in] options Values that replace or complete what the file says.
/// \return The model, every size in it checked for consistency.
/// \throws ModelFileError if the file cannot be read, is malformed, or holds something else.
Model read_model(std::filesystem::path const& path, ModelReadOptions const& options = {});

/// \brief Writes a model as a safetensors file in the `meander` layout.
///
/// The file is written beside its final name, synced and renamed: `path` holds either what it held
/// before or the whole new file, and no temporary file is left behind on failure. With
/// Model::stored float32, parameters are rounded to nearest; a finite one beyond float's range is
/// an error.
///
/// \param[in] path The file to write or replace.
/// \param[in] model The model; Model::layout is not looked at.
/// \throws ModelFileError if the model is inconsistent or the file cannot be written.
void write_model(std::filesystem::path const& path, Model const& model);

}  // namespace meander
