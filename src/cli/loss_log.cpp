// SPDX-License-Identifier: BSD-3-Clause
#include "loss_log.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "../file.hpp"
#include "interrupts.hpp"

namespace meander::cli {

namespace {

constexpr std::string_view header = "step,loss,validation_loss,learning_rate,seconds";

/// \brief The shortest text that reads back as the same number.
std::string text_of(double value) {
  std::array<char, 32> text = {};
  auto const end            = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

template <class Value>
bool parse(std::string_view text, Value& value) {
  auto const* const end    = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

/// \brief Step and seconds of a line; nothing if it is not a whole one.
std::optional<LossLine> read_line(std::string_view line) {
  std::array<std::string_view, 5> cells;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    auto const comma = line.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == cells.size())) return std::nullopt;
    cells[i] = line.substr(0, comma);
    if (comma != std::string_view::npos) line.remove_prefix(comma + 1);
  }
  LossLine result;
  if (!parse(cells[0], result.step) || !parse(cells[4], result.seconds)) return std::nullopt;
  return result;
}

std::string read_text(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot open " + impl::path_in_quotes(path));
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

LossLog::LossLog(std::filesystem::path const& path, std::optional<Resumed> const& resumed)
    : path_(path) {
  bool const goes_on = resumed && std::filesystem::is_regular_file(path);
  if (goes_on) keep_lines(*resumed);
  file_.reset(std::fopen(path.c_str(), goes_on ? "ae" : "we"));
  if (!file_) fail();
  if (!goes_on &&
      (std::fprintf(file_.get(), "%s\n", header.data()) < 0 || std::fflush(file_.get()) != 0)) {
    fail();
  }
}

void LossLog::keep_lines(Resumed const& resumed) {
  auto const text = read_text(path_);
  std::string_view rest(text);
  auto const next = [&] {
    auto const end  = rest.find('\n');
    auto const line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return line;
  };
  auto const first = next();
  if (first != header) {
    throw std::runtime_error(impl::path_in_quotes(path_) + " begins with " +
                             impl::in_quotes(first) + ", expected the log of an earlier run, " +
                             impl::in_quotes(header));
  }
  std::string kept(header);
  kept += '\n';
  while (!rest.empty()) {
    auto const line = next();
    auto const read = read_line(line);
    if (!read || read->step > resumed.step || read->step % resumed.every != 0) continue;
    kept += line;
    kept += '\n';
    seconds_before_ = read->seconds;
  }
  DeferSignals const defer;
  impl::AtomicFile file(path_);
  file.write(kept.data(), kept.size());
  file.commit();
}

void LossLog::add(LossLine const& line) {
  std::array<char, 32> seconds = {};
  std::snprintf(seconds.data(), seconds.size(), "%.3f", seconds_before_ + line.seconds);
  auto const text = std::to_string(line.step) + "," + text_of(line.loss) + "," +
                    (std::isnan(line.validation_loss) ? "" : text_of(line.validation_loss)) + "," +
                    text_of(line.learning_rate) + "," + seconds.data() + "\n";
  // In one piece, so that no kill leaves a part of a line.
  if (std::fputs(text.c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0) fail();
}

void LossLog::fail() const {
  throw std::system_error(errno, std::generic_category(),
                          "cannot write " + impl::path_in_quotes(path_));
}

}  // namespace meander::cli
