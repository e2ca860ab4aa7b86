// Shared flags and their help.
#include "cli/common_flags.h"

#include <fstream>
#include <iostream>
#include <limits>

#include "base/error.h"

namespace isotone::cli {

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  command.add_option("MODEL", flags.path, "Model folder (Hugging Face layout) or .gguf file")->required();
  command
      .add_option("--dtype", flags.options.dtype,
                  "Compute in f32 or bf16, or native: as the file stores the weights (quantised ones stay packed)")
      ->check(CLI::IsMember({"native", "f32", "bf16"}))
      ->capture_default_str();
  command.add_option("--threads", flags.options.threads, "Threads (default: all cores); results do not depend on it")
      ->check(at_least(1));
  command
      .add_option("--context", flags.options.context_length,
                  "Longest sequence in tokens (default: what the model was trained for); less needs less memory")
      ->check(at_least(1));
}

void add_sampling_flags(CLI::App& command, nn::SamplingParams& s, std::vector<std::string>& stop) {
  const std::string group = "Sampling";
  command.add_option("--temperature", s.temperature, "0: always the most likely token; up to 100")
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-k", s.top_k, "Choose among the K most likely tokens; 0: all")
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-p", s.top_p, "Choose among the most likely tokens that together reach this probability")
      ->capture_default_str()
      ->group(group);
  command.add_option("--min-p", s.min_p, "Leave out tokens less likely than this share of the most likely one")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--repetition-penalty", s.repetition_penalty,
                  "Make tokens of the prompt and the answer less likely (1: off)")
      ->capture_default_str()
      ->group(group);
  command.add_option("--frequency-penalty", s.frequency_penalty, "Subtract per occurrence in the answer, -2 to 2")
      ->capture_default_str()
      ->group(group);
  command.add_option("--presence-penalty", s.presence_penalty, "Subtract once for tokens that the answer has, -2 to 2")
      ->capture_default_str()
      ->group(group);
  command.add_option("--seed", s.seed, "Same seed, same prompt: same answer")->capture_default_str()->group(group);
  command.add_option("--stop", stop, "End the answer before this text; may be given several times")
      ->allow_extra_args(false)
      ->group(group);
}

void check_sampling(const nn::SamplingParams& sampling) {
  try {
    nn::validate(sampling, std::numeric_limits<std::int32_t>::max());
  } catch (const Error& e) {
    throw CLI::ValidationError(std::string(e.what()));
  }
}

std::string read_all(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 28;
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    require(file.good() && file.peek() != std::ifstream::traits_type::eof(),
            "cannot read {}, or it is empty; is it a file, and may this user read it?", path);
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string bytes;
  char piece[65536];
  while (in.read(piece, sizeof piece), in.gcount() > 0) {
    bytes.append(piece, static_cast<std::size_t>(in.gcount()));
    require(bytes.size() <= kMost, "{}: over {} MiB; give it in pieces", path, kMost >> 20);
  }
  return bytes;
}

}  // namespace isotone::cli
