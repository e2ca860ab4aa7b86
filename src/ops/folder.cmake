# The table of operations and the header of their functions are generated from the files here, at build time.
set(op_generated ${CMAKE_BINARY_DIR}/generated/ops)
file(MAKE_DIRECTORY ${op_generated})
set(op_files ${sources})
list(FILTER op_files EXCLUDE REGEX "/(op|host)\\.cc$")
list(FILTER op_files EXCLUDE REGEX "/support/")
add_custom_command(
  OUTPUT ${op_generated}/functions.h ${op_generated}/table.cc
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/generate_ops.py --out ${op_generated} ${op_files}
  DEPENDS ${op_files} ${CMAKE_SOURCE_DIR}/tools/generate_ops.py
  COMMENT "Generating the table of operations")
add_custom_target(isotone_generated_ops DEPENDS ${op_generated}/functions.h)
list(APPEND sources ${op_generated}/table.cc ${op_generated}/functions.h)
