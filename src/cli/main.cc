// The program `isotone`: reads the command line, hands over to one command, and turns errors into exit codes.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "base/numerics.h"
#include "base/text_distance.h"
#include "cli/commands.h"
#include "isotone/isotone.h"

namespace {

/// The word that stands where a command should, if it is none: no option, and no option's value.
std::optional<std::string> wrong_command(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("-") && app.get_option_no_throw(argv[i - 1]) == nullptr) {
      return word;
    }
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Isotone trains, runs and serves language models; the same model gives the same bits every time.",
               "isotone");
  app.set_version_flag("--version", "isotone 0.1.0, numerics contract 1");
  app.footer(
      "MODEL is a folder in the Hugging Face layout (config.json, *.safetensors, tokenizer.json) or a .gguf file.\n"
      "isotone COMMAND --help explains a command and shows examples.");
  app.require_subcommand(1);
  std::string device = "cpu";
  app.add_option("--device", device, "Where to run: cpu, or interpreter (scalar references, for checking)");
  std::string numerics;
  app.add_option("--numerics", numerics,
                 "Order of sums in bf16 (docs/numerics.md): pairdot-1, or amx-1, fast where there are tile units "
                 "(default: ISOTONE_NUMERICS, else pairdot-1)")
      ->check(CLI::IsMember(isotone::numerics_profile_names()));
  app.parse_complete_callback([&] {
    isotone::use_device(device);
    static_cast<void>(isotone::numerics_profile());  // a wrong ISOTONE_NUMERICS ends here, not in the middle
    if (!numerics.empty()) {
      isotone::set_numerics_profile(isotone::parse_numerics_profile(numerics));
    }
  });
  app.fallthrough();  // both may stand behind the command too
  int exit_code = 0;
  for (const isotone::cli::Command& command : isotone::cli::kCommands) {
    command.add(app, exit_code);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& e) {
    const auto word = app.get_subcommands().empty() ? wrong_command(app, argc, argv) : std::nullopt;
    if (!word) {
      app.exit(e);
      return 2;
    }
    std::vector<std::string> names;
    for (const isotone::cli::Command& command : isotone::cli::kCommands) {
      names.emplace_back(command.name);
    }
    fmt::print(stderr, "isotone: there is no command '{}'; did you mean '{}'? isotone --help lists them\n", *word,
               isotone::nearest_text(*word, names));
    return 2;
  } catch (const CLI::ParseError& e) {
    // CLI11 prints help to standard output and mistakes, with a hint, to standard error.
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::bad_alloc&) {
    std::fputs("isotone: error: out of memory\n", stderr);
    return 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "isotone: error: {}\n", e.what());
    return 1;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("isotone: error: standard output could not be written; what was to be said is lost\n", stderr);
    return 1;
  }
  return exit_code;
}
