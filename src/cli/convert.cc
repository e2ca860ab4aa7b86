// isotone convert: a .gguf file becomes a folder in the Hugging Face layout that transformers loads.
#include "formats/convert.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/common_progress.h"
#include "formats/inspect.h"
#include "models/tokenizer.h"

namespace isotone::cli {
namespace {

struct Flags {
  std::string in;
  std::string out;
  std::string dtype = "f32";
  bool json = false;
  bool quiet = false;
};

DType parse_dtype(const std::string& text) {
  return text == "f32" ? DType::f32 : text == "bf16" ? DType::bf16 : DType::f16;
}

int run(const Flags& f) {
  require(path_exists(f.in), "{}: no such file", f.in);
  require(!is_folder(f.in),
          "{}: is a folder; convert reads .gguf files (folders are read by every command as they are)", f.in);
  Progress progress("converting", "tensors", f.quiet);
  ConvertOptions options;
  options.dtype = parse_dtype(f.dtype);
  options.tokenizer_json = [](const GgufTokenizer& tokenizer) { return models::load_tokenizer(tokenizer).to_json(); };
  options.progress = [&](std::size_t done, std::size_t total) { progress.show(done, total); };
  convert_gguf_to_hf(f.in, f.out, options);
  const Inspection written = describe(f.out);
  progress.finish(written.tensors.size());
  if (f.json) {
    fmt::print("{{\"dtype\": \"{}\", \"tensors\": {}, \"parameters\": {}, \"tensor_bytes\": {}, \"sha256\": \"{}\"}}\n",
               f.dtype, written.tensors.size(), written.parameters, written.tensor_bytes, sha256_of_tensors(f.out));
  } else {
    fmt::print("{}: {} tensors of {}, {} parameters, {:.1f} MB\n", f.out, written.tensors.size(), f.dtype,
               written.parameters, static_cast<double>(written.tensor_bytes) / 1e6);
  }
  return 0;
}

}  // namespace

void add_convert_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("convert", "Turn a .gguf file into a folder in the Hugging Face layout");
  c->add_option("IN", f->in, "A .gguf file")->required();
  c->add_option("OUT", f->out, "The folder to write: new, or empty; nothing is ever overwritten")->required();
  c->add_option("--dtype", f->dtype, "f32, bf16 or f16: quantised weights are widened in f32 and rounded once")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  c->add_flag("--quiet", f->quiet, "No progress");
  c->add_flag("--json", f->json, "Print one object: dtype, tensors, parameters, tensor_bytes, sha256");
  c->footer(
      "Examples:\n"
      "  isotone convert model.gguf model-f32\n"
      "  isotone convert model.gguf model-bf16 --dtype bf16");
  c->callback([f, &exit_code] { exit_code = run(*f); });
}

}  // namespace isotone::cli
