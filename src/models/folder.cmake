# The table of architectures is generated from the files here: foo.cc defines `const Architecture& foo()`.
set(architectures "")
foreach(source IN LISTS sources)
  file(READ ${source} text)
  if(text MATCHES "const Architecture& ([a-z0-9_]+)\\(\\) {")
    list(APPEND architectures ${CMAKE_MATCH_1})
  endif()
endforeach()
set(declarations "")
set(entries "")
foreach(name IN LISTS architectures)
  string(APPEND declarations "const Architecture& ${name}();\n")
  string(APPEND entries "    &${name},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/models/table.h CONTENT
"// Generated from the files of src/models. Do not edit.
#pragma once

#include \"models/model.h\"

namespace isotone::models {

@declarations@
inline constexpr const Architecture& (*kArchitectures[])() = {
@entries@};

}  // namespace isotone::models
" @ONLY)
