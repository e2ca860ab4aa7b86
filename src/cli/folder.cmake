# The table of commands, from the names of the files here: add_NAME_command for each NAME.cc but main and common_*.
file(GLOB command_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/*.cc)
set(declarations "")
set(entries "")
foreach(command_file IN LISTS command_files)
  get_filename_component(command ${command_file} NAME_WE)
  if(NOT command MATCHES "^(main|common_.*)$" AND NOT command_file MATCHES "_test\\.cc$")
    string(APPEND declarations "void add_${command}_command(CLI::App& app, int& exit_code);\n")
    string(APPEND entries "    {\"${command}\", add_${command}_command},\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/cli/commands.h CONTENT
"// Generated from the files of src/cli; do not edit.
#pragma once

#include <CLI/CLI.hpp>

namespace isotone::cli {

${declarations}
struct Command {
  const char* name;
  void (*add)(CLI::App& app, int& exit_code);
};
inline constexpr Command kCommands[] = {
${entries}};

}  // namespace isotone::cli
" @ONLY)
