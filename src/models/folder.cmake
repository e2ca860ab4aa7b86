# The table of architectures is generated from the files here, from each `const Architecture& foo() {`.
set(architectures "")
foreach(source IN LISTS sources)
  file(READ ${source} text)
  string(REGEX MATCHALL "const Architecture& [a-z0-9_]+\\(\\) {" made "${text}")
  list(TRANSFORM made REPLACE "const Architecture& ([a-z0-9_]+).*" "\\1")
  list(APPEND architectures ${made})
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
