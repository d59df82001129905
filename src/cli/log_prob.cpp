// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <string>

#include "checks.hpp"
#include "commands.hpp"
#include "flow_job.hpp"

namespace meander::cli {

Command add_log_prob(CLI::App& tool) {
  auto const job      = std::make_shared<FlowJob>(Map::log_prob);
  job->out_log_option = "--out";
  auto* const command = tool.add_subcommand("log-prob", "Evaluate a flow's log-density at rows x");
  job->add_model_to(*command);
  command->add_option("--in", job->in, "Data rows x (.npy)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  command
      ->add_option("--out", job->out_log,
                   "Where the log-densities go, in nats, one value per row (.npy)")
      ->required()
      ->check(file_name())
      ->type_name("FILE");
  job->add_rest_to(*command);
  command->footer(R"(
log q(x) = log p(z) + log |det dz/dx| with z = inverse(x) and p the model's base distribution.
The input is an array (rows, dimension) as 'meander forward' reads it, of any size; the output has
its type. A row that is not finite gets NaN.

Examples:
  meander log-prob --model model.safetensors --in x.npy --out logq.npy
  meander log-prob --model bare.safetensors --direction normalizing --in x.npy --out logq.npy)");
  return {command, [job] { job->run(); }};
}

}  // namespace meander::cli
